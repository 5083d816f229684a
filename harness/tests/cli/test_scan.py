"""`masquerade scan`: what it checks, what it says, and how it ends."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree as ET

import pytest

from masquerade.stage import InterpreterError, StageError
from masquerade.stage.record import Finding, Line

FOUR = ["h100", "mi300x", "b580"]
WARNING = Finding("env-mutation", "PYTHONPATH", "import", Line("pkg/kern.py", 4))


def test_every_module_runs_on_every_machine(masquerade, stage) -> None:
    done = masquerade("scan", "pkg")
    assert done.exit_code == 0, done.output
    asked = [(check.subject, check.machine.platform) for check in stage.checks]
    assert asked == [(m, p) for m in ("pkg", "pkg.kern", "pkg.fine") for p in ("cuda", "rocm", "xpu", "cpu")]
    assert "3 modules in all" in done.stdout
    assert "0 findings, 0 warnings in 3 modules on 4 machines: 12 checks" in done.stdout


def test_a_finding_ends_with_1_and_is_told(masquerade, stage, probe) -> None:
    stage.findings["pkg.kern", "h100"] = (probe,)
    done = masquerade("scan", "pkg", "--on", "h100,b580")
    assert done.exit_code == 1
    assert re.search(r"pkg\.kern +device-init +ok", done.stdout)
    assert "CAP = torch.cuda.get_device_capability()" in done.stdout


def test_a_warning_ends_with_0_unless_its_level_is_raised(masquerade, stage) -> None:
    stage.findings["pkg.kern", "h100"] = (WARNING,)
    assert masquerade("scan", "pkg", "--on", "h100").exit_code == 0
    assert masquerade("scan", "pkg", "--on", "h100", "--level", "env-mutation=error").exit_code == 1


def test_a_kind_that_is_off_is_neither_told_nor_counted(masquerade, stage, probe) -> None:
    stage.findings["pkg.kern", "h100"] = (probe,)
    done = masquerade("scan", "pkg", "--on", "h100", "--level", "device-init=off")
    assert done.exit_code == 0
    assert "device-init" not in done.stdout


def test_nothing_checked_is_never_0(masquerade, stage) -> None:
    stage.packages["empty"] = ()
    done = masquerade("scan", "empty")
    assert done.exit_code == 2
    assert "nothing to check" in done.stderr


def test_records_that_are_missing_are_a_failure_of_the_tool(masquerade, stage) -> None:
    stage.stop_after = 5
    done = masquerade("scan", "pkg")
    assert done.exit_code == 3
    assert "5 records came from 12 checks" in done.stderr


def test_a_blind_tool_ends_with_3_and_checks_nothing(masquerade, stage) -> None:
    stage.control_findings = ()
    done = masquerade("scan", "pkg")
    assert done.exit_code == 3
    assert "blind" in done.stderr
    assert stage.checks == []


def test_a_stage_that_does_not_start_ends_with_3_and_one_line(masquerade, stage) -> None:
    stage.start_error = StageError("the server did not start: torch is broken")
    done = masquerade("scan", "pkg")
    assert done.exit_code == 3
    assert done.stderr == "Error: the server did not start: torch is broken\n"


def test_an_interpreter_that_is_none_is_wrong_usage(masquerade, stage) -> None:
    stage.start_error = InterpreterError("/bin/ls does not execute Python")
    done = masquerade("scan", "pkg")
    assert done.exit_code == 2 and done.stderr.endswith("Error: /bin/ls does not execute Python\n")


def test_a_stage_that_fails_before_the_first_record_shows_no_report(masquerade, stage) -> None:
    stage.stop_after, stage.stop_with = 0, StageError("the disguise itself failed")
    done = masquerade("scan", "pkg")
    assert (done.exit_code, done.stdout) == (3, "")


@pytest.mark.parametrize(
    ("stop", "status", "says"),
    [(KeyboardInterrupt(), 130, ""), (StageError("the server is gone"), 3, "Error: the server is gone\n")],
)
def test_what_is_known_when_a_run_stops_is_told(masquerade, stage, probe, tmp_path, stop, status, says) -> None:
    stage.stop_after, stage.stop_with = 5, stop
    stage.findings["pkg", "h100"] = (probe,)
    done = masquerade("scan", "pkg", "--report", f"json:{tmp_path / 'r.json'}")
    assert done.exit_code == status
    assert "Interrupted: 1 finding" in done.stdout and "5 of 12 checks" in done.stdout
    assert says in done.stderr
    assert stage.asked["closed"]
    report = json.loads((tmp_path / "r.json").read_text())
    assert (report["interrupted"], report["summary"]["checks"], report["summary"]["planned"]) == (True, 5, 12)


def test_conditions_reach_the_check(masquerade, stage, tmp_path) -> None:
    stage.packages["pkg.rocm"] = ("pkg.rocm",)
    done = masquerade(
        "scan", "pkg", "--on", "h100", "--path", str(tmp_path), "--owner", "rocm=aiter,pkg.rocm", "--owner",
        "any=pynvml",
        "--env", "A=1", "--env", "B=x=y", "--env", "C=", "--unset", "D", "--timeout", "5", "--settle", "0",
        "--absent", "flashinfer", "--python", "python3", "--isolation", "fresh", "-j", "3",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    check = stage.checks[0]
    assert check.path == (str(tmp_path),)
    assert check.env == {"A": "1", "B": "x=y", "C": "", "D": None}
    assert {"aiter", "pkg.rocm"} <= set(check.owners["rocm"])
    assert [owner for owner, modules in check.owners.items() if "pynvml" in modules] == ["any"]
    assert (check.timeout, check.settle, check.machine.id) == (5.0, 0.0, "h100-flashinfer")
    assert stage.asked["isolation"] == "fresh" and stage.asked["jobs"] == 3
    assert stage.asked["python"].endswith("python3")


def test_the_last_owner_of_a_module_counts(masquerade, stage) -> None:
    masquerade("scan", "pkg", "--on", "h100", "--owner", "rocm=thing", "--owner", "xpu=thing")
    owners = stage.checks[0].owners
    assert "thing" in owners["xpu"] and "thing" not in owners["rocm"]


def test_an_owned_module_that_is_not_there_is_wrong_usage(masquerade, stage) -> None:
    done = masquerade("scan", "pkg", "--on", "h100,here", "--owner", "rocm=pkg.kernn,aiter,ghost.rocm")
    assert (done.exit_code, stage.checks) == (2, [])
    assert "--owner rocm=pkg.kernn: there is no module pkg.kernn; did you mean pkg.kern?" in done.stderr
    assert "aiter" not in done.stderr.partition("--owner")[2] and "ghost" not in done.stderr


def test_subjects_and_machines_given_twice_are_checked_once(masquerade, stage) -> None:
    masquerade("scan", "pkg", "pkg", "--on", "h100,cuda,h100")
    assert len(stage.checks) == 3


def test_a_function_is_called_and_its_package_not_walked(masquerade, stage) -> None:
    done = masquerade("scan", "pkg:setup", "--on", "h100")
    assert done.exit_code == 0
    assert [check.subject for check in stage.checks] == ["pkg:setup"]
    assert "looked into" not in done.stdout


def test_json_on_standard_output_is_all_there_is(masquerade, stage, probe) -> None:
    stage.findings["pkg", "h100"] = (probe,)
    done = masquerade("scan", "pkg", "--on", "h100", "--report", "json:-")
    assert done.exit_code == 1
    report = json.loads(done.stdout)
    assert report["summary"]["failed"] == 1
    assert report["host"]["torch"] == "2.13.0" and "path" not in report["host"]
    assert report["control"]["verdict"] == "device-init"
    assert report["notes"] == ["looked into pkg"]


def test_two_reports_beside_the_terminal(masquerade, tmp_path) -> None:
    done = masquerade(
        "scan", "pkg", "--report", f"json:{tmp_path / 'r.json'}", "--report", f"junit:{tmp_path / 'r.xml'}"
    )
    assert "3 modules in all" in done.stdout
    assert len(json.loads((tmp_path / "r.json").read_text())["checks"]) == 12
    assert ET.parse(tmp_path / "r.xml").getroot().get("tests") == "12"


def test_all_lists_what_is_fine(masquerade) -> None:
    assert re.search(r"pkg\.fine +ok", masquerade("scan", "pkg", "--all").stdout)
    assert "pkg.fine" not in masquerade("scan", "pkg").stdout


def test_no_progress_bar_where_there_is_no_terminal(masquerade) -> None:
    assert masquerade("scan", "pkg").stderr == ""


def test_flat_pays_for_each_import_anew(masquerade, stage) -> None:
    masquerade("scan", "pkg")
    assert stage.scanned
    stage.scanned = False
    masquerade("scan", "pkg", "--flat")
    assert not stage.scanned and stage.checks


def test_without_a_path_the_working_directory_is_searched(masquerade, stage, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    masquerade("scan", "pkg", "--on", "h100")
    assert stage.checks[0].path == (str(tmp_path),)


def test_a_factory_makes_the_arguments_of_functions_and_is_for_them_alone(masquerade, stage) -> None:
    stage.packages |= {"pkg.kern": ("pkg.kern",), "pkg.fine": ("pkg.fine",)}
    assert masquerade("scan", "pkg.kern:run", "pkg.fine", "--on", "h100", "--factory", "pkg.fine:make").exit_code == 0
    asked = [(check.subject, check.factory) for check in stage.checks]
    assert asked == [("pkg.kern:run", "pkg.fine:make"), ("pkg.fine", "")]


def test_a_factory_without_a_call_and_one_that_is_no_function_are_wrong_usage(masquerade, stage) -> None:
    done = masquerade("scan", "pkg", "--factory", "pkg.fine:make")
    assert (done.exit_code, stage.checks) == (2, [])
    assert "--factory makes arguments for a call: name a function, pkg:func" in done.stderr
    done = masquerade("scan", "pkg.kern:run", "--factory", "pkg.fine")
    assert done.exit_code == 2 and "'pkg.fine' is no function; write module and function" in done.stderr


def test_stand_ins_are_handed_on_and_a_stale_one_is_told(masquerade, stage) -> None:
    done = masquerade("scan", "pkg", "--stand-in", "pkg._C,ghost._C", "--stand-in", "pkg._moe_C=pkg")
    assert done.exit_code == 0, done.output
    assert {frozenset(check.stand_ins.items()) for check in stage.checks} == {
        frozenset({("pkg._C", ""), ("ghost._C", ""), ("pkg._moe_C", "pkg")})
    }
    assert "note: stale: ghost._C has a stand-in, and there is no package ghost; take it out" in done.output
    assert "pkg._C has" not in done.output


def test_the_owners_of_the_configuration_count(masquerade, stage, tmp_path, monkeypatch) -> None:
    stage.packages["pkg.fine"] = ("pkg.fine",)
    (tmp_path / "pyproject.toml").write_text("[tool.masquerade.owners]\nrocm = ['pkg.fine']\n")
    monkeypatch.chdir(tmp_path)
    done = masquerade("scan", "pkg", "--on", "h100", "--owner", "xpu=aiter")
    assert done.exit_code == 0 and "the owners in pyproject.toml count" in done.stdout
    owners = stage.checks[0].owners
    assert "pkg.fine" in owners["rocm"] and "aiter" in owners["xpu"]


@pytest.mark.parametrize(
    ("owners", "says"),
    [
        ("rocm = ['pkg.fin']", "masquerade.toml:2: owners.rocm[0]: there is no module pkg.fin; did you mean pkg.fine?"),
        ("amd = ['pkg.fine']", "masquerade.toml:2: owners"),
        ("rocm = [1]", "masquerade.toml:2: owners.rocm[0]"),
        ("rocm = ['pkg.fine'", "masquerade.toml"),
    ],
)
def test_wrong_owners_of_the_configuration_end_with_2(masquerade, stage, tmp_path, monkeypatch, owners, says) -> None:
    (tmp_path / "masquerade.toml").write_text(f"[owners]\n{owners}\n")
    monkeypatch.chdir(tmp_path)
    done = masquerade("scan", "pkg", "--on", "h100")
    assert done.exit_code == 2 and says in done.stderr
    assert stage.checks == []


def test_two_configurations_in_one_folder_end_with_2(masquerade, stage, tmp_path, monkeypatch) -> None:
    (tmp_path / "masquerade.toml").write_text("")
    (tmp_path / "pyproject.toml").write_text("[tool.masquerade]\n")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    done = masquerade("scan", "pkg", "--on", "h100")
    assert done.exit_code == 2 and "keep one of them" in done.stderr and stage.checks == []


def test_what_else_is_wrong_with_a_configuration_is_no_matter_of_a_scan(masquerade, tmp_path, monkeypatch) -> None:
    (tmp_path / "masquerade.toml").write_text("machines = ['h1000']\ncontracts = 3\n")
    monkeypatch.chdir(tmp_path)
    done = masquerade("scan", "pkg", "--on", "h100")
    assert done.exit_code == 0 and "count" not in done.stdout


def test_packages_that_are_not_there_are_told_with_who_imports_them(masquerade, stage, tmp_path) -> None:
    stage.root = str(tmp_path)
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/__init__.py").write_text("try:\n    import aiter\nexcept ImportError:\n    pass\n")
    done = masquerade("scan", "pkg", "--path", str(tmp_path), "--on", "h100")
    assert done.exit_code == 0
    assert "not seen (--present aiter shows it): aiter (rocm), imported by pkg:2\n" in done.stdout
    assert "not seen" not in masquerade("scan", "pkg", "--path", str(tmp_path), "--present", "aiter").stdout


def test_a_module_of_a_platform_is_imported_on_its_own_machines_alone(masquerade, stage) -> None:
    stage.packages["pkg.kern"] = ("pkg.kern",)
    done = masquerade("scan", "pkg", "--on", "h100,mi300x,b580", "--owner", "rocm=pkg.kern")
    assert sorted(check.id for check in stage.checks if "kern" in check.id) == ["import:pkg.kern@mi300x"]
    assert len(stage.checks) == 7 and done.exit_code == 0
    assert "note: pkg.kern of rocm were not imported on machines of other platforms" in done.stdout
    done = masquerade("scan", "pkg.kern", "--on", "h100", "--owner", "rocm=pkg.kern")
    assert done.exit_code == 2 and "nothing to check: pkg.kern of rocm" in done.stderr


def test_the_path_of_the_configuration_counts_without_one_of_the_command(
    masquerade, stage, tmp_path, monkeypatch
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "masquerade.toml").write_text("path = ['lib']\n")
    monkeypatch.chdir(tmp_path)
    masquerade("scan", "pkg", "--on", "h100")
    assert stage.checks[-1].path == (str(tmp_path), str(tmp_path / "lib"))
    masquerade("scan", "pkg", "--on", "h100", "--path", ".")
    assert stage.checks[-1].path == (str(tmp_path),)


def test_a_package_that_nobody_knows_and_nothing_imports_is_told(masquerade) -> None:
    told = "note: aitr is present by your word alone, and nothing imported it; did you mean aiter?"
    assert told in masquerade("scan", "pkg", "--on", "h100", "--present", "aitr").stdout
    assert told in masquerade("scan", "pkg", "--on", "h100+aitr").stdout
    assert "by your word" not in masquerade("scan", "pkg", "--on", "h100", "--present", "aiter").stdout


def test_an_interpreter_without_torch_is_told_where_that_is_missing(masquerade, stage) -> None:
    missing = Finding("import-error", "ModuleNotFoundError", "import", None, message="No module named 'torch'")
    stage.findings["pkg", "h100"] = (missing,)
    assert "--python names another" not in masquerade("scan", "pkg", "--on", "h100").stdout
    stage.facts |= {"torch": None, "executable": "/venv/python"}
    said = "torch is not installed where the subject ran, /venv/python; --python names another interpreter"
    assert said in masquerade("scan", "pkg", "--on", "h100").stdout
