"""Machines of a user's own: from files, from MASQUERADE_MACHINES, from entry points; and what is said of bad ones."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masquerade import machines
from masquerade.machines import MachineError, UnknownMachineError, Zoo, load_file, resolve
from masquerade.machines.describe import leaves
from masquerade.machines.lines import key_lines
from masquerade.machines.sheet import read_sheet

GOOD = """\
summary = "our H300 prototype"
aliases = ["proto"]
extends = "sm_90"

[[facts]]
source = "nvidia-smi on our prototype, May 2026"
device.name = "NVIDIA H300"
device.total_memory = "196608MB"
device.multi_processor_count = 144
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(text: str, name: str = "h300.toml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def problems(text: str) -> list[tuple[int, str]]:
    with pytest.raises(MachineError) as caught:
        read_sheet(text, "m.toml", "m")
    return [(problem.line, problem.message) for problem in caught.value.problems]


def test_a_new_machine_of_a_known_arch_is_ten_lines(write: Callable[..., Path]) -> None:
    assert len(GOOD.splitlines()) < 10
    machine = load_file(write(GOOD))
    assert (machine.id, machine.platform, machine.arch) == ("h300", "cuda", "sm_90")
    device = machine.devices[0]
    assert device["total_memory"] == 192 * 2**30 and device["capability"] == [9, 0]
    assert machine.sources()["devices.0.name"] == "nvidia-smi on our prototype, May 2026"
    assert "CCCL" in machine.sources()["devices.0.capability"]


def test_a_file_by_option_and_by_variable(write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(GOOD)
    assert resolve("protox4", files=[path]).id == "h300x4"
    assert "h300" in machines.names(files=[path])
    with pytest.raises(UnknownMachineError):
        resolve("proto")
    monkeypatch.setenv("MASQUERADE_MACHINES", os.pathsep.join([str(path.parent), ""]))
    assert resolve("proto+aiter").id == "h300+aiter"


@pytest.mark.parametrize("name", ["h300", "h300x8+aiter", "h300.toml"])
def test_a_name_of_a_file_is_told_how_it_becomes_a_machine(write: Callable[..., Path], monkeypatch, name: str) -> None:
    monkeypatch.chdir(write(GOOD).parent)
    with pytest.raises(
        UnknownMachineError, match=r"; a machine of your own: MASQUERADE_MACHINES=h300\.toml(; nearest|$)"
    ):
        resolve(name)
    with pytest.raises(UnknownMachineError) as caught:
        resolve("h301")
    assert "of your own" not in str(caught.value)


def test_a_machine_may_extend_a_machine_of_the_zoo_and_one_of_its_own(write: Callable[..., Path]) -> None:
    first = write(GOOD)
    fact = '\n[[facts]]\nsource = "our second board, read by us"\ndevice.multi_processor_count = 140\n'
    second = write('extends = "h300"\n' + fact, "h301.toml")
    third = write('extends = "mi300x"\nid = "ours"\n' + fact, "anything.toml")
    zoo = Zoo([first, second, third])
    assert zoo.resolve("h301").devices[0]["name"] == "NVIDIA H300"
    assert zoo.resolve("ours").devices[0]["total_memory"] == 196592 * 2**20
    assert {zoo.resolve(name).devices[0]["multi_processor_count"] for name in ("h301", "ours")} == {140}


def test_unknown_is_allowed_for_every_leaf(write: Callable[..., Path]) -> None:
    keys = [key for key, _ in leaves(resolve("b580").to_json()) if key.startswith("devices.0.")]
    stated = "\n".join(
        f'device.{key[10:]} = "unknown"' for key in keys if key not in ("devices.0.name", "devices.0.arch")
    )
    path = write(
        f'extends = "b580"\n[[facts]]\nsource = "nobody looked yet, really"\n{stated}\nhost.cpu.flags = "unknown"\n'
    )
    machine = load_file(path)
    known = {key for key, value in leaves(machine.to_json()) if key.startswith("devices.0.") and value != "unknown"}
    assert known == {"devices.0.name", "devices.0.arch"}
    assert machine.host["cpu"]["flags"] == "unknown"


def test_every_bad_field_at_once_with_its_line(write: Callable[..., Path]) -> None:
    path = write(
        """\
sumary = "typo"
extends = "sm_90"
count = "two"

[[facts]]
device.name = 5
device.warp_sise = 32

[[facts]]
source = "the second block of this file"
device.total_memory = "many"
device.capability = [9]
host.cpu = "fast"
management.nvml = "perhaps"
none = ["device.name", "torch.rocm"]
device.l2_cache_size = [
    1,
]
device.clock_rate = "2GHz"
"""
    )
    with pytest.raises(MachineError) as caught:
        load_file(path)
    size = 'expected a size such as "143156MB" or "64KiB", or a number of bytes'
    assert str(caught.value).splitlines() == [
        f"{path}:1: sumary: no such key; nearest: summary",
        f"{path}:3: count: expected a whole number of devices, not 'two'",
        f'{path}:5: facts: no source; say where these values were read: source = "..."',
        f"{path}:6: device.name: expected a text in quotes, not 5",
        f"{path}:7: device.warp_sise: no such key; nearest: device.warp_size",
        f"{path}:11: device.total_memory: {size}, not 'many'",
        f"{path}:12: device.capability: expected two whole numbers [major, minor], not [9]",
        f"{path}:13: host.cpu: expected a table of values, not 'fast'",
        f"{path}:14: management.nvml: expected one of ok, absent, failing, not 'perhaps'",
        f"{path}:15: none: device.name always has a value; leave it out if it is unknown",
        f"{path}:15: none: torch.rocm: no such key; nearest: torch.cuda",
        f"{path}:16: device.l2_cache_size: {size}, not [1]",
    ]


def test_required_keys_are_asked_for(write: Callable[..., Path]) -> None:
    path = write('[[facts]]\nsource = "we looked at it ourselves"\nplatform = "cuda"\n')
    with pytest.raises(MachineError) as caught:
        load_file(path)
    missing = [problem.message.split(":")[0] for problem in caught.value.problems]
    assert missing == ["arch", "host.machine", "host.system", "device.name", "device.arch"]


def test_a_key_of_another_platform_is_refused_with_its_line(write: Callable[..., Path]) -> None:
    path = write(GOOD + "device.gpu_eu_count = 5\n")
    with pytest.raises(MachineError, match=r"h300.toml:10: device.gpu_eu_count: a device on cuda has no such value"):
        load_file(path)


@pytest.mark.parametrize("text", ['extends = "sm_91"\n', 'extends = "h100"\nothers = ["rx7900xt"]\n'])
def test_what_a_machine_builds_on_must_be_there(text: str, write: Callable[..., Path]) -> None:
    with pytest.raises(MachineError, match=r"h300.toml:[12]: (extends: no base or|others: no) machine .*nearest: "):
        load_file(write(text))


def test_a_circle_of_machines(write: Callable[..., Path]) -> None:
    paths = [write('extends = "two"\n', "one.toml"), write('extends = "one"\n', "two.toml")]
    with pytest.raises(MachineError, match=r"(one -> two -> one|two -> one -> two) goes round in a circle"):
        Zoo(paths).resolve("one")
    with pytest.raises(MachineError, match="selfish -> selfish"):
        load_file(write('extends = "selfish"\n', "selfish.toml"))


@pytest.mark.parametrize("name", ["h200", "cuda", "here"])
def test_a_name_that_is_taken(name: str, write: Callable[..., Path]) -> None:
    path = write(GOOD, f"{name}.toml")
    with pytest.raises(MachineError, match=rf"{name}.toml: id: '{name}' is taken by .*; choose another name"):
        resolve("anything", files=[path])


def test_a_name_that_no_variant_could_follow(write: Callable[..., Path]) -> None:
    with pytest.raises(MachineError, match="expected small letters"):
        resolve("anything", files=[write(GOOD, "My Machine+1.toml")])


def test_a_value_stated_twice() -> None:
    first = '[[facts]]\nsource = "the first of them"\nplatform = "cuda"\n'
    second = '[[facts]]\nsource = "another one"\nplatform = "xpu"\n'
    assert problems(first + second) == [(6, "platform: stated twice (also in line 3); keep one")]


@pytest.mark.parametrize("blank", ['""', '"  "', "7"])
def test_an_empty_source_is_no_source(blank: str) -> None:
    assert problems(f"[[facts]]\nsource = {blank}\n")[0][0] == 2


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("a = \n", 1, "expected a text in quotes, a number, true, false"),
        ("a = 1\nb 2\n", 2, "expected '=' after the key"),
        ("[[facts]]\nsource = 'x\n", 2, "expected a closing quote"),
        ("a = [1, 2\n", 1, "expected ',' or ']'"),
        ("a = 1\na = 2\n", 2, "expected a key that this table does not have yet"),
        ("a = 1 b = 2\n", 1, "expected the end of the line"),
        ("a = 'x\ny'\n", 1, "expected a closing quote"),
        ('a = "x\n', 1, "expected a closing quote"),
        ("[a\n", 1, "']'"),
        ("[a]\n[a]\n", 2, "expected a table that was not declared before"),
        ("a = {b = 1\n", 1, "expected ',' or '}'"),
        ("a = yes\n", 1, "expected a text in quotes"),
        ('a = """x\n', 1, "expected a closing quote"),
    ],
)
def test_what_is_not_toml_gets_its_line_and_what_was_expected(text: str, line: int, expected: str) -> None:
    ((found, message),) = problems(text)
    assert found == line and message.startswith("not TOML: ") and expected in message


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"gone.toml: cannot be read: No such file"):
        load_file(tmp_path / "gone.toml")
    (tmp_path / "latin.toml").write_bytes(b'summary = "ok"\naliases = ["\xe9"]\n')
    with pytest.raises(MachineError, match=r"latin.toml:2: not TOML: expected UTF-8 text"):
        load_file(tmp_path / "latin.toml")


class TestEntryPoints:
    """Machines that another distribution offers."""

    table: dict[str, Any] = {  # noqa: RUF012
        "extends": "sm_90",
        "facts": [{"source": "our own board, read by us", "device": {"name": "NVIDIA H300"}}],
    }

    def offer(self, monkeypatch: pytest.MonkeyPatch, load: Callable[[], Any]) -> Zoo:
        point = SimpleNamespace(name="h300", value="ours:machine", load=load)
        monkeypatch.setattr(
            importlib.metadata, "entry_points", lambda group: [point] if group == "masquerade.machines" else []
        )
        return Zoo()

    def test_table_callable_and_path(self, monkeypatch: pytest.MonkeyPatch, write: Callable[..., Path]) -> None:
        path = write(GOOD)
        for offered in (self.table, lambda: self.table, str(path), lambda: path):
            zoo = self.offer(monkeypatch, lambda offered=offered: offered)  # type: ignore[misc]
            assert zoo.resolve("h300x2").devices[1]["name"] == "NVIDIA H300"

    def test_the_zoo_alone_asks_no_entry_point(self, monkeypatch: pytest.MonkeyPatch) -> None:
        zoo = self.offer(monkeypatch, lambda: pytest.fail("was asked"))
        assert zoo.resolve("h200").id == "h200"

    def test_bad_offers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken() -> Any:
            raise ImportError("no module named ours")

        for load, message in (
            (broken, "entry point h300 = ours:machine: cannot be loaded: ImportError: no module named ours"),
            (lambda: 5, "expected a path, a table of facts or a callable that gives one, not int"),
            (lambda: {"facts": [{"device": {"nam": 1}}]}, "device.nam: no such key; nearest: device.name"),
        ):
            with pytest.raises(MachineError) as caught:
                self.offer(monkeypatch, load).resolve("h300")
            assert message in str(caught.value)


def test_lines_of_keys_in_all_forms() -> None:
    text = '''\
summary = """
[[not a header]]
key = 1
"""
[[facts]]
a.b = [  # comment ]
  "]", '[',
]
"quoted.key".c = { x = 1 }
[[facts]]
matrix = [
[1],
[2]
]
[facts.device]
name = "n"
'''
    lines = key_lines(text)
    assert lines[("summary",)] == 1
    assert lines[("facts", 0)] == 5
    assert lines[("facts", 0, "a", "b")] == 6
    assert lines[("facts", 0, "quoted.key", "c")] == 9
    assert lines[("facts", 1, "device", "name")] == 16
    assert [lines[("facts", 0, "a", "b", index)] for index in (0, 1)] == [7, 7]
    assert [lines[("facts", 1, "matrix", index)] for index in (0, 1)] == [12, 13]
    assert ("facts", 1, "matrix", 2) not in lines and ("facts", 0, "a", "b", 2) not in lines
    assert ("2",) not in lines
    assert not any("not a header" in path or "key" in path for path in lines)


@given(st.text(max_size=60))
def test_any_text_is_a_sheet_or_a_machine_error(text: str) -> None:
    try:
        read_sheet(text, "m.toml", "m")
    except MachineError as error:
        assert error.problems and all(problem.message for problem in error.problems)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["device", "name", "source", "none", "x"]), inner)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from(["id", "summary", "aliases", "extends", "others", "count", "facts", "x"]), VALUES)
)
def test_any_table_is_a_sheet_or_a_machine_error(table: dict[str, Any]) -> None:
    from masquerade.machines.sheet import check_sheet

    try:
        check_sheet(table, "entry point", "m")
    except MachineError as error:
        assert error.problems
