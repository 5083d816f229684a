"""`masquerade check` with a stage made by hand: exit statuses, selection, golden acts, and what comes on top."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from cli.conftest import FakeStage

from masquerade.report.json_report import schema
from masquerade.stage import Check, Record, StageError

CONFIGURATION = """\
machines = ["h100", "mi355x"]

[[contracts]]
name = "lazy"
kind = "imports"
modules = ["pkg"]

[[contracts]]
name = "moe"
kind = "routing"
function = "pkg.route:select"
golden = "moe.md"
problems = { small = {}, large = {} }
"""
TABLE = """\
| machine | small | large | source |
|---------|-------|-------|--------|
| h100    | ck    | ck    | PR 1   |
| mi355x  | ck    | aiter | PR 1   |
"""


@dataclass
class Answering(FakeStage):
    """Gives each call an answer: `answers` by id, else "ck"."""

    answers: dict[str, Any] = field(default_factory=lambda: {"routing/moe/large@mi355x": "aiter"})

    def run_all(self, checks: Iterable[Check]) -> Iterator[Record]:
        for record in super().run_all(checks):
            calls = ":" in record.subject
            yield replace(record, action="call", result=self.answers.get(record.id, "ck")) if calls else record


@pytest.fixture
def stage() -> FakeStage:
    return Answering()


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI", raising=False)
    (tmp_path / "moe.md").write_text(TABLE)

    def write(text: str) -> None:
        (tmp_path / "masquerade.toml").write_text(text)

    write(CONFIGURATION)
    return write


def table() -> list[str]:
    return Path("moe.md").read_text().splitlines()


def test_all_holds(masquerade, stage) -> None:
    done = masquerade("check")
    assert done.exit_code == 0, done.output
    assert len(stage.checks) == 3 * 2 + 2 * 2 and stage.scanned
    assert done.stdout.splitlines()[-1].startswith("0 findings, 0 warnings in 5 subjects on 2 machines: 10 checks")


def test_a_finding_is_1(masquerade, stage, probe) -> None:
    stage.findings = {("pkg.kern", "h100"): (probe,)}
    done = masquerade("check")
    assert done.exit_code == 1 and "device-init  torch.cuda.get_device_capability" in done.stdout


def test_a_wrong_answer_is_1_and_told_with_want_got_and_line(masquerade, stage) -> None:
    stage.answers = {"routing/moe/large@mi355x": {"backend": "triton", "refused": {"aiter": "needs gfx942"}}}
    done = masquerade("check")
    assert done.exit_code == 1
    told = done.stdout.splitlines()
    at = told.index("moe: 1 of 4 answers differ from moe.md")
    assert told[at + 1 : at + 6] == [
        "  asked: pkg.route:select",
        "  mi355x (line 4)",
        "    large  want aiter, got triton",
        "      aiter is refused: needs gfx942",
        "  where the new answers are right, `masquerade check --golden fix` writes them",
    ]
    assert done.stdout.count("aiter is refused") == 1, "told once"


STALE = """
[[contracts.allow]]
module = "pkg.kern"
machine = "cuda"
kind = "device-init"
reason = "known"
"""


def test_what_is_stale_is_1_unless_a_part_was_run(masquerade, project) -> None:
    project(CONFIGURATION.replace('modules = ["pkg"]\n', 'modules = ["pkg"]\n' + STALE))
    done = masquerade("check")
    assert done.exit_code == 1
    assert "masquerade.toml:8: lazy: stale: nothing is left of the allowed device-init in pkg.kern" in done.stdout
    assert masquerade("check", "-k", "not pkg.fine").exit_code == 0
    assert masquerade("check", "--contract", "moe").exit_code == 0


def test_mistakes_in_the_configuration_are_2_all_told_and_nothing_runs(masquerade, project, stage) -> None:
    project(CONFIGURATION.replace("kind", "knid").replace("machines", "machine"))
    done = masquerade("check")
    assert (done.exit_code, done.stdout, stage.asked) == (2, "", {})
    assert done.stderr.splitlines() == [
        "Error: 3 mistakes in the configuration",
        "masquerade.toml:1: machine: no such setting; did you mean machines or machine_files?",
        "masquerade.toml:3: lazy.kind: missing: imports or calls or routing or codegen",
        "masquerade.toml:8: moe.kind: missing: imports or calls or routing or codegen",
    ]


def test_a_module_that_is_not_there_is_2(masquerade, project) -> None:
    project(CONFIGURATION.replace('["pkg"]', '["other"]'))
    done = masquerade("check")
    assert done.exit_code == 2
    assert "masquerade.toml:6: lazy.modules[0]: there is no module other; did you mean pkg?" in done.stderr


def test_no_configuration_is_2(masquerade) -> None:
    Path("masquerade.toml").unlink()
    done = masquerade("check")
    assert done.exit_code == 2 and "no masquerade.toml and no pyproject.toml" in done.stderr


def test_another_configuration_can_be_named(masquerade, tmp_path) -> None:
    (tmp_path / "sub").mkdir()
    Path("masquerade.toml").rename("sub/other.toml")
    Path("moe.md").rename("sub/moe.md")
    assert masquerade("check", "--config", "sub/other.toml").exit_code == 0
    assert masquerade("check", "--config", "none.toml").exit_code == 2


def test_a_bad_golden_file_is_2(masquerade) -> None:
    Path("moe.md").write_text(TABLE + "=======\n")
    done = masquerade("check")
    assert done.exit_code == 2 and "moe.md:5: a conflict marker of a merge" in done.stderr


@pytest.mark.parametrize(
    "words, says",
    [
        (["--contract", "mo"], "no contract 'mo' in "),
        (["--contract", "mo"], "did you mean moe?"),
        (["-k", "nothing"], "nothing to check: no id matches -k 'nothing'; the first of 10 is imports/lazy/pkg@h100"),
        (["-k", "a and"], "-k 'a and': expected a word"),
        (["--golden", "mend"], "'mend' is not one of 'create', 'fix', 'update', 'trim'"),
        (["--golden", "fix", "--contract", "lazy"], "no contract of these has a golden table"),
        (["--source", "x"], "--source tells where new answers come from; it goes with --golden create or fix"),
        (["--golden", "trim", "--source", "x"], "it goes with --golden create or fix"),
    ],
)
def test_wrong_usage_is_2(masquerade, words, says) -> None:
    done = masquerade("check", *words)
    assert done.exit_code == 2 and says in " ".join(done.stderr.split()), done.stderr


def test_contracts_and_cases_are_chosen(masquerade, stage) -> None:
    assert masquerade("check", "--contract", "moe", "-k", "small and not h100").exit_code == 0
    assert [check.id for check in stage.checks] == ["routing/moe/small@mi355x"]


def test_what_the_command_line_says_comes_on_top(masquerade, project, stage, tmp_path) -> None:
    stage.packages["pkg.rocm"] = ("pkg.rocm",)
    project('env = {A = "1", B = "2"}\nowners = {rocm = ["pkg.rocm"]}\n' + CONFIGURATION)
    masquerade("check", "--contract", "lazy", "--env", "A=3", "--unset", "B", "--timeout", "5", "--path", str(tmp_path),
               "--owner", "any=pynvml", "--level", "thread=error", "--absent", "aiter")  # fmt: skip
    check = stage.checks[0]
    assert (check.env, check.timeout, check.machine.id) == ({"A": "3", "B": None}, 5, "h100-aiter")
    assert check.levels["thread"] == "error" and "pkg.rocm" in check.owners["rocm"]
    assert "pynvml" in check.owners["any"] and "pynvml" not in check.owners["cuda"]


def test_an_owned_module_that_is_not_there_is_a_mistake(masquerade, project, stage) -> None:
    project("owners = {rocm = ['pkg.kernn']}\n" + CONFIGURATION)
    done = masquerade("check")
    assert (done.exit_code, stage.checks) == (2, [])
    says = "masquerade.toml:1: owners.rocm[0]: there is no module pkg.kernn; did you mean pkg.kern?"
    assert says in done.stderr
    project(CONFIGURATION)
    done = masquerade("check", "--contract", "lazy", "--owner", "rocm=pkg.kernn")
    assert (done.exit_code, stage.checks) == (2, [])
    assert "--owner rocm=pkg.kernn: there is no module pkg.kernn; did you mean pkg.kern?" in done.stderr
    stage.packages["pkg.kern"] = ("pkg.kern",)
    assert masquerade("check", "--contract", "lazy", "--owner", "rocm=pkg.kern").exit_code == 0


def test_the_interpreter_is_that_of_the_configuration_or_the_command_line(masquerade, project, stage, tmp_path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    project('python = "./one"\n' + CONFIGURATION)
    masquerade("check")
    assert stage.asked["python"] == str(tmp_path / "one")
    masquerade("check", "--python", str(tmp_path / "two"))
    assert stage.asked["python"] == str(tmp_path / "two")


def test_the_json_report_holds_what_is_broken(masquerade, project) -> None:
    Path("moe.md").write_text(TABLE + "| b580    | ck    | ck    | PR 1   |\n")
    done = masquerade("check", "--report", "json:-")
    assert done.exit_code == 1
    document = json.loads(done.stdout)
    jsonschema.validate(document, schema())
    [broken] = document["broken"]
    assert (broken["contract"], broken["file"], broken["line"]) == ("moe", "moe.md", 5)
    assert {check["id"] for check in document["checks"]} >= {"imports/lazy/pkg@h100", "routing/moe/small@h100"}


def test_a_failure_of_the_stage_is_3_and_a_blind_one_too(masquerade, stage) -> None:
    stage.stop_after, stage.stop_with = 2, StageError("the server is gone")
    assert masquerade("check").exit_code == 3
    stage.stop_after, stage.control_findings = None, ()
    assert masquerade("check").exit_code == 3


# -- golden acts -------------------------------------------------------------------------------------------------------


def test_create_writes_what_is_missing_alone(masquerade, stage) -> None:
    Path("moe.md").write_text(TABLE.replace("| h100    | ck ", "| h100    | xx ").replace("aiter", "?    "))
    done = masquerade("check", "--golden", "create", "--source", "PR 2")
    assert [line for line in done.stderr.splitlines() if "moe.md" in line] == ["moe.md: written"]
    assert table()[2:] == [
        "| h100    | xx    | ck    | PR 1              |",
        "| mi355x  | ck    | aiter | PR 1; large: PR 2 |",
    ]
    assert done.exit_code == 1 and "want xx, got ck" in done.stdout, "create fixes nothing"
    assert [check.id for check in stage.checks if "imports" in check.id] == [], "only what has a table is run"


def test_create_makes_a_new_file(masquerade, stage) -> None:
    Path("moe.md").unlink()
    stage.answers = {"routing/moe/small@h100": {"backend": "ck", "reason": "it fits"}}
    assert masquerade("check", "--golden", "create").exit_code == 0
    assert table() == [
        "# pkg.route:select",
        "",
        "| machine | small | large | source  |",
        "|---------|-------|-------|---------|",
        "| h100    | ck    | ck    | unknown |",
        "| mi355x  | ck    | ck    | unknown |",
    ]
    assert json.loads(Path("moe.reasons.json").read_text()) == {
        "h100": {"small": {"answer": "ck", "reason": "it fits"}}
    }
    assert masquerade("check").exit_code == 0


@pytest.mark.parametrize("act", ["create", "fix"])
def test_one_exception_on_all_machines_is_told_as_it_is_written(masquerade, stage, act) -> None:
    wrong = {"raised": "TypeError", "message": "TypeError: select() takes 1 argument"}
    stage.answers |= dict.fromkeys(["routing/moe/small@h100", "routing/moe/small@mi355x"], wrong)
    if act == "create":
        Path("moe.md").unlink()
    says = "moe.md: small is !TypeError on all machines: select() takes 1 argument"
    assert masquerade("check", "--golden", act).stderr.splitlines()[:2] == ["moe.md: written", says]
    assert says not in masquerade("check", "--golden", act).stderr, "it is in the table now"


def test_nothing_is_created_where_no_answer_came(masquerade, stage) -> None:
    Path("moe.md").unlink()
    stage.answers = dict.fromkeys(
        [f"routing/moe/{problem}@{machine}" for problem in ("small", "large") for machine in ("h100", "mi355x")]
    )
    done = masquerade("check", "--golden", "create")
    assert done.exit_code == 1 and not Path("moe.md").exists() and "moe.md: nothing to create" in done.stderr


def test_fix_writes_wrong_answers_alone(masquerade) -> None:
    Path("moe.md").write_text(TABLE.replace("| h100    | ck ", "| h100    | xx ").replace("aiter", "?    "))
    done = masquerade("check", "--golden", "fix", "--source", "PR 2")
    assert table()[2:] == [
        "| h100    | ck    | ck    | PR 1; small: PR 2 |",
        "| mi355x  | ck    | ?     | PR 1              |",
    ]
    assert done.exit_code == 1 and "want ?, got aiter" in done.stdout


def test_update_writes_layout_and_reasons_alone(masquerade, stage) -> None:
    reason = {"backend": "ck", "reason": "it fits"}
    stage.answers = {"routing/moe/large@mi355x": "aiter", "routing/moe/small@h100": reason}
    rows = TABLE.splitlines()
    Path("moe.md").write_text(
        "\n".join([*rows[:2], rows[3].replace("aiter", '"aiter"'), rows[2].replace("ck ", "xx ", 1)])
    )
    done = masquerade("check", "--golden", "update")
    assert done.exit_code == 1 and "want xx, got ck" in done.stdout
    assert table() == [*rows[:2], rows[2].replace("ck ", "xx ", 1), rows[3]]
    Path("moe.md").write_text(TABLE)
    assert masquerade("check", "--golden", "update").exit_code == 0
    assert "it fits" in Path("moe.reasons.json").read_text()


def test_trim_takes_out_rows_and_columns_that_no_longer_run(masquerade) -> None:
    Path("moe.md").write_text(
        "| machine | small | old | large | source |\n"
        "|---------|-------|-----|-------|--------|\n"
        "| h100    | ck    | x   | ck    | PR 1   |\n"
        "| b580    | ck    | x   | ck    | PR 1   |\n"
        "| mi355x  | ck    | x   | aiter | PR 1   |\n"
    )
    assert "no problem of moe" in masquerade("check").stderr
    assert masquerade("check", "--golden", "trim").exit_code == 0
    assert table() == TABLE.splitlines()
    assert masquerade("check").exit_code == 0


@pytest.mark.parametrize("act", ["create", "fix", "update", "trim"])
def test_no_act_in_ci(masquerade, monkeypatch, stage, act) -> None:
    before = TABLE.replace("aiter", "?    ").replace("ck ", "xx ")
    Path("moe.md").write_text(before)
    monkeypatch.setenv("CI", "true")
    done = masquerade("check", "--golden", act)
    assert done.exit_code == 2 and "CI is set" in done.stderr and stage.asked == {}
    assert Path("moe.md").read_text() == before
    monkeypatch.setenv("CI", "false")
    assert masquerade("check", "--golden", "create").exit_code in (0, 1)


def test_a_read_only_file_is_told_before_anything_runs(masquerade, stage) -> None:
    Path("moe.md").chmod(0o444)
    done = masquerade("check", "--golden", "fix")
    assert done.exit_code == 2 and "moe.md is read-only; make it writable: chmod u+w" in done.stderr
    assert stage.asked == {}
    assert masquerade("check").exit_code == 0, "reading needs no more than reading"


def test_an_interrupted_act_writes_nothing(masquerade, stage) -> None:
    Path("moe.md").unlink()
    stage.stop_after, stage.stop_with = 3, KeyboardInterrupt()
    assert masquerade("check", "--golden", "create").exit_code == 130
    assert not Path("moe.md").exists()


def test_a_part_of_the_cases_fixes_its_part(masquerade, stage) -> None:
    stage.answers = {}
    Path("moe.md").write_text(TABLE.replace("ck ", "xx "))
    masquerade("check", "--golden", "fix", "-k", "small@h100")
    assert table()[2:] == ["| h100    | ck    | xx    | PR 1; small: unknown |",
                           "| mi355x  | xx    | aiter | PR 1                 |"]  # fmt: skip
