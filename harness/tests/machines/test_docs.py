"""What docs/machines.md shows does what it says."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from masquerade.machines import MachineError, load_file, resolve
from masquerade.machines.schema import field_of, is_section

TEXT = (Path(__file__).parents[3] / "docs" / "machines.md").read_text(encoding="utf-8")
BLOCKS = [textwrap.dedent(block) for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", TEXT, re.M)]


def block(start: str) -> str:
    return next(found for found in BLOCKS if found.strip().startswith(start))


def test_the_example_is_a_machine(tmp_path: Path) -> None:
    path = tmp_path / "h300.toml"
    path.write_text(block("# h300.toml"), encoding="utf-8")
    machine = load_file(path)
    assert machine.id == "h300" and machine.aliases == ("proto",)
    assert machine.devices[0]["total_memory"] == 192 * 2**30


def test_the_messages_are_those_of_such_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = '\n\nextends = "sm_90"\n[[facts]]\nsource = "we read it"\ndevice.name = 5\ndevice.warp_sise = 32\n'
    Path("h300.toml").write_text(wrong, encoding="utf-8")
    with pytest.raises(MachineError) as caught:
        load_file("h300.toml")
    assert str(caught.value).splitlines() == block("h300.toml:6").strip().splitlines()


def test_none_unsets_a_variable(tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    path.write_text('extends = "mi300x"\n' + block('[[facts]]\nsource = "a ROCm'), encoding="utf-8")
    assert load_file(path).host["env"]["CUDA_HOME"] is None


def test_the_table_of_values_names_keys_that_are_there() -> None:
    table = TEXT.split("### Values")[1].split("`device.market_name`")[0]
    cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    named: set[str] = set()
    for cell in cells:
        names = re.findall(r"`([^`]+)`", cell)
        section = names[0].rpartition(".")[0]
        named |= {f"{section}{name}" if name.startswith(".") else name.removesuffix(".*") for name in names}
    assert len(named) > 15
    assert all(field_of(name) or is_section(name) for name in named), named


@pytest.mark.parametrize("name", re.findall(r"^\| `([^`]+)` \| (?:eight|the package|all at once)", TEXT, re.M))
def test_the_variants_resolve(name: str) -> None:
    assert resolve(name).id == name
