"""docs/contracts.md tells the truth: its configurations load, its commands run, its table and its output are real."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from contracts.conftest import PROBE, FakeStage

from conftest import write
from masquerade.cli import main
from masquerade.contracts import collect, golden, load, reference, run
from masquerade.stage import Record, Stage

DOCS = Path(__file__).parents[3] / "docs" / "contracts.md"
pytestmark = pytest.mark.skipif(not DOCS.exists(), reason="not run from the repository")
TEXT = DOCS.read_text(encoding="utf-8") if DOCS.exists() else ""

ORACLE = """\
import importlib.util

import torch


def select(k):
    if not (torch.version.cuda or torch.version.hip):
        return "native"
    if not torch.version.hip:
        why = "needs ROCm"
    elif importlib.util.find_spec("aiter") is None:
        why = "is not installed"
    elif k % ALIGNMENT:
        why = f"K is no multiple of {ALIGNMENT}"
    else:
        return "aiter"
    return {"backend": "triton", "refused": {"aiter": why}}
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.M | re.S)


def project(folder: Path, block: str) -> None:
    """A block of TOML as the file that its first line names, with all that it names."""
    file = block.partition("\n")[0].removeprefix("# ")
    write(folder, {file: block, "mypkg/__init__.py": "", "mypkg/oracle.py": ORACLE + "\n\nALIGNMENT = 64\n"})


ROUTING = next((block for block in blocks("toml") if 'kind = "routing"' in block), "")


@pytest.mark.parametrize("block", blocks("toml"), ids=range(len(blocks("toml"))))
def test_every_configuration_loads(tmp_path: Path, block: str) -> None:
    project(tmp_path, block)
    assert len(load(tmp_path).contracts) == 1


def test_there_is_something_to_test() -> None:
    assert len(blocks("toml")) == 7 and len(blocks("sh")) == 2 and len(blocks("text")) == 4


def test_the_reference_is_what_the_code_reads() -> None:
    written = TEXT.partition("<!-- made by masquerade.contracts.reference -->\n\n")[2]
    assert written == reference.markdown()
    assert "`want_on`" in written and "`machine_files`" in written


class Ports(FakeStage):
    """A stage made by hand, and where the command line gets it from."""

    facts: dict[str, Any] = {}  # noqa: RUF012

    def stage(self, **how: Any) -> Ports:
        return self

    def __enter__(self) -> Ports:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def control(self) -> Record:
        return Record("control", "control", "import", "h100", "cuda", (PROBE,))


def commands() -> Iterator[str]:
    for block in blocks("sh"):
        yield from block.splitlines()


@pytest.mark.parametrize("command", list(commands()))
def test_every_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.delenv("CI", raising=False)
    project(tmp_path, blocks("toml")[0] + ROUTING.partition("[[contracts]]")[1] + ROUTING.partition("[[contracts]]")[2])
    monkeypatch.chdir(tmp_path)
    stage = Ports(answers={"mypkg.oracle:select": "triton"}, modules=("mypkg", "mypkg.oracle"))
    (tmp_path / "moe-routes.md").write_text(golden_text())
    for word, *words in [shlex.split("masquerade check --golden fix"), shlex.split(command)]:
        assert word == "masquerade"
        done = CliRunner().invoke(main, words, obj=stage, prog_name="masquerade")
        assert done.exit_code == 0, done.output


def golden_text() -> str:
    return blocks("text")[0]


def test_the_golden_table_and_the_output_are_real(tmp_path: Path, one: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    project(tmp_path, ROUTING)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "moe-routes.md").write_text(golden_text())
    configuration = load()
    [contract] = configuration.contracts
    assert golden.render(contract.table) == golden_text()
    cases = collect([contract], one.discover)
    pairs = list(run(configuration, one, cases))
    assert {record.verdict for _, record in pairs} == {"ok"}

    (tmp_path / "mypkg/oracle.py").write_text(ORACLE + "\n\nALIGNMENT = 256\n")
    told = golden.lines(contract.compared(run(configuration, one, cases)))
    assert "\n".join(told) + "\n" == blocks("text")[1]
