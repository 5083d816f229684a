"""What a configuration means, and that all its mistakes are told at once, each with its line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import other_python
from masquerade.contracts import ConfigurationError, load
from masquerade.machines import default_owners

GOOD = """
[[contracts]]
name = "lazy"
kind = "imports"
modules = ["pkg"]
"""


def test_every_mistake_is_told_at_once_with_its_line(mistakes) -> None:
    told = mistakes(
        """\
        pth = ["x"]
        machines = ["h100", "h1000"]
        timeout = 0
        [env]
        A = 1
        [owners]
        rcom = ["a"]
        rocm = ["1x"]
        [levels]
        env-mutation = "eror"

        [[contracts]]
        name = "a b"
        kind = "imports"
        modules = [
          "*.x",
          "1bad",
        ]
        allow = [
          {module = "x", machine = "cuda", kind = "device-init", reason = "known"},
          {module = "x", machine = "cuda", kind = "device-int"},
        ]
        [[contracts]]
        name = "one"
        kind = "calls"
        [[contracts]]
        name = "one"
        kind = "routng"
        [[contracts]]
        name = "two"
        kind = "calls"
        function = "a.b"
        wnat = 1
        """
    )
    assert told == [
        "masquerade.toml:1: pth: no such setting; did you mean path or python?",
        "masquerade.toml:2: machines[1]: unknown machine 'h1000'; `masquerade machines` lists them; "
        "nearest: h100, h200, a100",
        "masquerade.toml:3: timeout: expected more than 0 seconds",
        'masquerade.toml:5: env.A: the value of a variable is text: write "1", or false to unset it',
        "masquerade.toml:7: owners.rcom: 'rcom' is not known here; did you mean rocm?",
        "masquerade.toml:8: owners.rocm[0]: expected a module name with dots, like pkg.kernels, found '1x'",
        "masquerade.toml:10: levels.env-mutation: 'eror' is not known here; did you mean error?",
        "masquerade.toml:13: a b.name: expected a name of letters, digits and -_.+, as it stands in test ids, found "
        "'a b'",
        "masquerade.toml:16: a b.modules[0]: '*.x' must begin with the name of a package, as pkg.* does",
        "masquerade.toml:17: a b.modules[1]: expected a module name with dots, which may hold * and **, found '1bad'",
        "masquerade.toml:21: a b.allow[1].kind: 'device-int' is not known here; did you mean device-init?",
        "masquerade.toml:21: a b.allow[1]: reason is missing: Why it is borne.",
        "masquerade.toml:23: one: function is missing: The function to call, as pkg.mod:func.",
        "masquerade.toml:27: one.name: 'one' is the name of the contract in line 23 too",
        "masquerade.toml:28: one.kind: no kind 'routng'; did you mean routing?",
        "masquerade.toml:32: two.function: expected pkg.mod:func, a module and a function in it, found 'a.b'",
        "masquerade.toml:33: two.wnat: no such setting; did you mean want or want_on or path?",
    ]


@pytest.mark.parametrize(
    "text, says",
    [
        ("", "masquerade.toml: contracts: there is no contract; begin one with a [[contracts]] table"),
        ("contracts = 3", "masquerade.toml:1: contracts: there is no contract"),
        ("contracts = [3]", "masquerade.toml:1: contracts[0]: expected a table with a name and a kind"),
        ("[[contracts]]\nname = 'x'", "masquerade.toml:1: x.kind: missing: imports or calls or routing"),
        ("[[contracts]\n", "masquerade.toml:1: not TOML: "),
        ("a = \x00", "masquerade.toml:1: not TOML: "),
        (
            "[tool.masquerade]\npath = []",
            "masquerade.toml:1: tool.masquerade: in masquerade.toml the settings stand at the",
        ),
        ("machines = []\n" + GOOD, "masquerade.toml:1: machines: an empty list checks nothing; name at least one"),
        ("machines = ['here']\npresent = ['aiter']" + GOOD, "machines: the machine here has the packages that are"),
        ("present = ['a']\nabsent = ['a']" + GOOD, "masquerade.toml:2: absent: both present and absent: a"),
        ("absent = ['a._C']\nstand-ins = ['a._C']" + GOOD, "absent: both replaced by a stand-in and absent: a._C"),
        ("machines = ['here']\nstand-ins = ['a._C']" + GOOD, "machines: the machine here has its own modules"),
        ("stand-ins = ['a/b']" + GOOD, "toml:1: stand-ins[0]: expected a module name with dots"),
        ("stand-ins = {'a._C' = 3}" + GOOD, "toml:1: stand-ins.a._C: expected text in quotes, found a number: 3"),
        ("stand_ins = []" + GOOD, "toml:1: stand_ins: no such setting; did you mean stand-ins?"),
        ("path = ['nowhere']" + GOOD, "masquerade.toml:1: path[0]: there is no 'nowhere' in "),
        ("python = 'no-such-python'" + GOOD, "masquerade.toml:1: python: there is no interpreter 'no-such-python'"),
        ("timeout = true" + GOOD, "masquerade.toml:1: timeout: expected a number of seconds, 0 or more, found true or"),
        ("machine_files = ['masquerade.toml']" + GOOD, "masquerade.toml:1: "),
        ("machine_files = ['nope.toml']\nmachines = ['cpu']" + GOOD, "machine_files[0]: there is no 'nope.toml' in "),
        ("machines = [", "masquerade.toml:1: not TOML: a list or table is not closed: expected a value, ']' or '}'"),
        (
            GOOD + "\nallow = [{module = 'pkg', machine = 'cuda', kind = 'device-init', reason = ' '}]",
            "reason: expected text in quotes",
        ),
    ],
)
def test_a_mistake_is_told(mistakes, text: str, says: str) -> None:
    assert any(says in line for line in mistakes(text))


def test_text_that_is_no_utf8_is_told(project, tmp_path: Path) -> None:
    (tmp_path / "masquerade.toml").write_bytes(b"# fine\n# \xff\n")
    with pytest.raises(ConfigurationError, match=r"masquerade.toml:2: not TOML: expected UTF-8 text"):
        load(tmp_path)


def test_stand_ins_of_a_contract_come_on_top_of_the_common_ones(project) -> None:
    more = "stand-ins = {'pkg._C' = 'checks.one', 'pkg._moe_C' = false, 'pkg._new' = 'checks.new', 'pkg._x' = true}\n"
    configuration = project("stand-ins = ['pkg._C', 'pkg._moe_C', 'pkg._rocm_C']\n" + GOOD + more)
    [contract] = configuration.contracts
    assert configuration.stand_ins == {"pkg._C": "", "pkg._moe_C": "", "pkg._rocm_C": ""}
    wanted = {"pkg._C": "checks.one", "pkg._rocm_C": "", "pkg._new": "checks.new", "pkg._x": ""}
    assert contract.stand_ins == wanted
    machine = contract.variants()[0]
    assert contract.check("pkg", machine, "label").stand_ins == wanted
    amended = configuration.amended(stand_ins={"pkg._C": ""})
    assert amended.contracts[0].stand_ins == {**wanted, "pkg._C": ""}


def test_what_holds_for_all_and_what_a_contract_says_itself(project, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    configuration = project(
        """
        machines = ["h100", "mi355x"]
        timeout = 5
        env = {A = "1", B = "2"}
        [owners]
        rocm = ["pkg.rocm"]
        any = ["pynvml"]
        [levels]
        thread = "off"

        [[contracts]]
        name = "common"
        kind = "imports"
        modules = "pkg"

        [[contracts]]
        name = "own"
        kind = "imports"
        modules = ["pkg"]
        machines = ["b580"]
        present = ["aiter"]
        path = ["."]
        env = {A = false}
        owners = {cuda = ["pkg.cuda"]}
        levels = {subprocess = "error"}
        timeout = 7
        """
    )
    common, own = configuration.contracts
    assert [machine.id for machine in common.variants()] == ["h100", "mi355x"]
    assert [machine.id for machine in own.variants()] == ["b580+aiter"]
    assert common.path == (str(tmp_path / "src"), str(tmp_path)) and own.path == (str(tmp_path),)
    assert (common.env, own.env) == ({"A": "1", "B": "2"}, {"A": None, "B": "2"})
    assert (common.timeout, own.timeout) == (5.0, 7.0)
    assert "pkg.rocm" in own.owners["rocm"] and own.owners["cuda"][-1] == "pkg.cuda"
    assert "pynvml" not in own.owners["cuda"] and "pynvml" in own.owners["any"]
    assert "pynvml" in default_owners()["cuda"]
    assert (own.levels["thread"], own.levels["subprocess"], common.levels["subprocess"]) == ("off", "error", "warn")


def test_a_pyproject_holds_the_same(project, tmp_path: Path) -> None:
    text = "[project]\nname = 'x'\n[tool.masquerade]\ntimeout = 5\n"
    text += "[[tool.masquerade.contracts]]\nname = 'a'\nkind = 'calls'\n"
    with pytest.raises(ConfigurationError) as caught:
        project(text, "pyproject.toml")
    assert str(caught.value) == "pyproject.toml:5: a: function is missing: The function to call, as pkg.mod:func."
    configuration = project(text + "function = 'a:b'\n", "pyproject.toml")
    assert (configuration.file, configuration.root) == (tmp_path / "pyproject.toml", tmp_path)


def test_the_nearest_configuration_is_found_from_below(project, tmp_path: Path) -> None:
    project(GOOD)
    below = tmp_path / "pkg" / "deep"
    below.mkdir(parents=True)
    (below / "pyproject.toml").write_text("[project]\nname = 'masquerade-user'\n")
    assert load(below).file == tmp_path / "masquerade.toml"


def test_two_configurations_side_by_side_are_refused(project, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.masquerade]\n")
    with pytest.raises(ConfigurationError, match=r"both hold a configuration; keep one"):
        project(GOOD)


def test_a_broken_pyproject_that_names_us_is_told(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.masquerade\n")
    with pytest.raises(ConfigurationError, match=r"pyproject.toml:1: not TOML"):
        load(tmp_path)


@pytest.mark.parametrize(
    "file, says", [("nothing.toml", "no such file"), ("pyproject.toml", "no .tool.masquerade. table")]
)
def test_a_named_file_must_be_there_and_ours(tmp_path: Path, file: str, says: str) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    with pytest.raises(ConfigurationError, match=says):
        load(tmp_path, tmp_path / file)


def test_none_found_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"no masquerade.toml and no pyproject.toml with a \[tool.masquerade\]"
    ):
        load(tmp_path)


def test_machines_of_ones_own(project, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('id = "mine"\nextends = ["h100"]\nsummary = "ours"\n')
    configuration = project('machine_files = ["mine.toml"]\nmachines = ["mine"]\n' + GOOD)
    assert [machine.id for machine in configuration.contracts[0].machines] == ["mine"]


def test_the_interpreter_is_found_beside_the_configuration(project, tmp_path: Path) -> None:
    os.symlink(sys.executable, tmp_path / "python")
    assert project('python = "./python"\n' + GOOD).python == str(tmp_path / "python")


def test_what_comes_on_top(project, tmp_path: Path) -> None:
    amended = project(GOOD).amended(
        path=["/x"],
        env={"A": "1"},
        owners=[("any", ("pynvml",))],
        levels=[("thread", "error")],
        absent=["aiter"],
        timeout=3,
    )
    contract = amended.contracts[0]
    assert contract.path == ("/x", str(tmp_path)) and contract.env == {"A": "1"} and contract.timeout == 3
    assert contract.levels["thread"] == "error" and "pynvml" in contract.owners["any"]
    assert contract.variants()[0].id == "h100-aiter"


def test_importing_and_loading_needs_no_torch_rich_or_click(project, tmp_path: Path) -> None:
    project(GOOD)
    code = (
        "import sys, masquerade.contracts as c; print(len(sys.modules)); c.load('.')\n"
        "print([n for n in ('torch', 'rich', 'click', 'subprocess') if n in sys.modules])"
    )
    path = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path}
    )
    loaded, heavy = done.stdout.splitlines()
    assert heavy == "[]" and int(loaded) < 120


def test_loads_on_the_oldest_python(project) -> None:
    python = other_python("3.10")
    project(GOOD)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    code = """
import sys
try:
    import tomli
except ImportError:  # a dependency there; pip has a copy
    from pip._vendor import tomli
    sys.modules["tomli"] = tomli
from masquerade.contracts import collect, load, reference
from masquerade.stage import Discovery
print(len(collect(load().contracts, lambda name, path: Discovery("", (name,)))), len(reference.markdown()) > 1000)
"""
    done = subprocess.run([python, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "4 True\n", done.stderr
