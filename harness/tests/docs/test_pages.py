"""Every command that a page shows is executed here, on the files that the page shows, and prints what the page says.

A block of files has a title, its name. A block of console has commands behind `$` and what they print; `...` stands for
anything, times are not compared, and a command may only fail if the page asks for its status in the next one.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"

#: Pages whose blocks have tests of their own, beside the code that they are about.
ELSEWHERE = {"contracts.md", "machines.md", "pytest.md"}
#: Pages whose commands time a GPU: here it is tested that each script takes the options that are shown.
ON_A_GPU = {"speed.md"}
PAGES = sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))

pytestmark = pytest.mark.skipif(not DOCS.exists(), reason="not run from the repository")

_BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.M | re.S)
_TIME = re.compile(r"\b\d+\.\d+ ?s\b")


@dataclass(frozen=True)
class Block:
    language: str
    title: str
    text: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    text = (DOCS / page).read_text()
    for found in _BLOCK.finditer(text):
        yield Block(found[1], found[2] or "", found[3], text.count("\n", 0, found.start()) + 1)


@dataclass(frozen=True)
class Shown:
    """A command of a page and the lines that it should print."""

    command: str
    prints: tuple[str, ...]
    line: int


def commands(block: Block) -> Iterator[Shown]:
    lines = block.text.splitlines()
    starts = [place for place, line in enumerate(lines) if line.startswith("$ ")]
    assert starts[:1] == [0], f"line {block.line}: a block of console begins with a command"
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield Shown(lines[start][2:], tuple(lines[start + 1 : end]), block.line + 1 + start)


def script(page: str, folder: Path) -> tuple[str, list[Shown]]:
    """The page as one script, in which a mark stands before each command and its status behind it."""
    lines, shown = ["status=0"], []
    for number, block in enumerate(blocks(page)):
        if block.title:
            (folder / str(number)).write_text(block.text)
            lines.append(f"mkdir -p {os.path.dirname(block.title) or '.'} && cp {folder / str(number)} {block.title}")
        elif block.language == "console":
            for each in commands(block):
                lines += [
                    f"echo '@@@ {len(shown)}'",
                    "(exit $status)",
                    each.command,
                    'status=$?; echo "@@@ status $status"',
                ]
                shown.append(each)
    return "\n".join(lines) + "\n", shown


def pattern(prints: tuple[str, ...]) -> re.Pattern[str]:
    parts = []
    for line in prints:
        if line.strip() == "...":
            parts.append(r"(?:.*\n)*?")
        elif line.strip():
            parts.append(re.escape(_TIME.sub("T s", line.strip())).replace(re.escape("..."), ".*") + "\n")
    return re.compile("".join(parts))


def told(text: str) -> str:
    return "".join(f"{_TIME.sub('T s', line.strip())}\n" for line in text.splitlines() if line.strip())


def environment(folder: Path, *, pip: bool) -> dict[str, str]:
    """A reader's environment: a virtual one that has what this one has, and the repository beside the project."""
    made = folder / "venv"
    venv.create(made, with_pip=pip, symlinks=True)
    [packages] = made.glob("lib/python3*/site-packages")
    (packages / "outer.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")) + "\n")
    program(made, "pytest")
    (folder / "masquerade").symlink_to(ROOT)
    foreign = ("CI", "GITHUB_", "BUILDKITE", "PYTEST", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    path = os.pathsep.join([str(made / "bin"), os.environ["PATH"]])
    return {**kept, "PATH": path, "COLUMNS": "100", "LC_ALL": "C.UTF-8", "HOME": str(folder)}


def program(made: Path, name: str) -> None:
    file = made / "bin" / name
    file.write_text(f'#!/bin/sh\nexec {made}/bin/python -m {name} "$@"\n')
    file.chmod(0o755)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with masquerade and its plugin in it, without the wait for pip."""
    folder = tmp_path_factory.mktemp("reader")
    environ = environment(folder, pip=False)
    program(folder / "venv", "masquerade")
    [packages] = (folder / "venv").glob("lib/python3*/site-packages")
    (packages / "masquerade.pth").write_text(f"{ROOT / 'harness'}\n")
    metadata = packages / "masquerade-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: masquerade\nVersion: 0.1.0\n")
    (metadata / "entry_points.txt").write_text("[pytest11]\nmasquerade = masquerade.plugin\n")
    return environ


def follow(page: str, environ: dict[str, str], tmp_path: Path) -> None:
    """Do what the page says, in an empty project."""
    project, files = tmp_path / "project", tmp_path / "files"
    project.mkdir()
    files.mkdir()
    text, shown = script(page, files)
    done = subprocess.run(
        ["bash", "-c", text], cwd=project, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=500, check=False,
    )  # fmt: skip
    parts = re.split(r"^@@@ \d+\n", done.stdout, flags=re.M)[1:]
    assert len(parts) == len(shown), done.stdout
    wrong = []
    for place, (part, each) in enumerate(zip(parts, shown, strict=True)):
        printed, _, status = part.rpartition("@@@ status ")
        asked = place + 1 < len(shown) and shown[place + 1].command == "echo $?"
        if int(status) and not asked:
            wrong.append(f"docs/{page}:{each.line}: {each.command} ends with {status.strip()}\n{printed}")
        if pattern(each.prints).match(told(printed)) is None:
            wrong.append(f"docs/{page}:{each.line}: {each.command} prints\n{printed}")
    assert not wrong, "\n".join(wrong)


def with_console(*without: str) -> list[str]:
    return [
        page for page in PAGES if page not in without and any(block.language == "console" for block in blocks(page))
    ]


def test_the_first_five_minutes(tmp_path) -> None:
    environ = environment(tmp_path, pip=True)
    if subprocess.run([sys.executable, "-c", "import hatchling"], capture_output=True, check=False).returncode == 0:
        environ["PIP_NO_BUILD_ISOLATION"] = "1"
    follow("start.md", environ, tmp_path)


@pytest.mark.parametrize("page", with_console("start.md"))
def test_a_page_does_what_it_says(page, installed, tmp_path) -> None:
    if page == "howto/hardware.md" and any(map(os.path.exists, ("/dev/nvidia0", "/dev/kfd"))):
        pytest.skip("the page shows a host without a GPU; here is one")
    follow(page, installed, tmp_path)


@pytest.mark.parametrize("page", sorted(ON_A_GPU))
def test_a_command_that_takes_a_gpu_has_its_options(page) -> None:
    pytest.importorskip("torch")
    lines = "".join(block.text for block in blocks(page) if block.language == "sh").replace("\\\n", " ").splitlines()
    assert lines
    for python, script, *options in map(shlex.split, lines):
        assert python == "python"
        asked = subprocess.run(
            [sys.executable, script, "--help"], cwd=ROOT, env=os.environ | {"PYTHONPATH": "kernels"},
            stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
        assert {option for option in options if option.startswith("--")} <= set(re.findall(r"--\w+", asked.stdout))


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ELSEWHERE | ON_A_GPU])
def test_no_command_is_shown_that_is_not_executed(page) -> None:
    assert not [block for block in blocks(page) if block.language in ("sh", "bash", "shell", "shell-session")]
    assert not re.search(r"^    \$ ", (DOCS / page).read_text(), re.M)


@pytest.mark.parametrize("page", ["../README.md", *PAGES])
def test_every_link_leads_to_a_file_of_the_repository(page) -> None:
    file = DOCS / page
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", file.read_text())
    assert [target for target in targets if "://" not in target and not (file.parent / target).exists()] == []


def test_what_is_tested_elsewhere_is() -> None:
    tests = "".join(file.read_text() for file in (ROOT / "harness/tests").rglob("test_*.py") if file != Path(__file__))
    assert all(page in tests for page in ELSEWHERE)


def test_a_wrong_page_is_seen(installed, tmp_path, monkeypatch) -> None:
    page = tmp_path / "wrong.md"
    page.write_text("```console\n$ echo one\ntwo\n$ false\n$ echo three ...\nthree ...\n```\n")
    monkeypatch.setattr(sys.modules[__name__], "DOCS", tmp_path)
    with pytest.raises(AssertionError) as error:
        follow("wrong.md", installed, tmp_path)
    assert "wrong.md:2: echo one prints" in str(error.value)
    assert "wrong.md:4: false ends with 1" in str(error.value)
    assert "three" not in str(error.value)
