"""`masquerade run`: the command keeps its streams and its exit status."""

from __future__ import annotations

import json

import pytest


@pytest.mark.parametrize("status", [0, 1, 7, 143])
def test_the_exit_status_is_the_commands(masquerade, stage, status) -> None:
    stage.exit_status = status
    done = masquerade("run", "--as", "mi355x", "--", "python", "-c", "pass")
    assert done.exit_code == status
    assert stage.asked["command"] == ("python", "-c", "pass")
    assert stage.asked["machine"].id == "mi355x"
    assert stage.asked["timeout"] is None


def test_a_folder_that_is_gone_has_no_configuration(masquerade, stage, tmp_path, monkeypatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert masquerade("run", "--as", "h100", "--", "true").exit_code == 0


def test_options_of_the_command_are_its_own_with_and_without_dashes(masquerade, stage) -> None:
    masquerade("run", "--as", "h100", "pytest", "--help", "-j", "4", "--", "x")
    assert stage.asked["command"] == ("pytest", "--help", "-j", "4", "--", "x")


def test_the_summary_is_on_standard_error(masquerade, stage, probe) -> None:
    stage.findings["python x.py", "h100"] = (probe,)
    done = masquerade("run", "--as", "h100", "--", "python", "x.py")
    assert done.exit_code == 0, "findings do not change the command's status"
    assert done.stdout == ""
    assert "device-init  torch.cuda.get_device_capability" in done.stderr
    assert "masquerade: 1 finding, 0 warnings as h100" in done.stderr


def test_the_report_is_written_and_never_mixed_with_the_commands_output(masquerade, tmp_path) -> None:
    assert masquerade("run", "--as", "h100", "--report", f"json:{tmp_path / 'r'}", "--", "true").exit_code == 0
    report = json.loads((tmp_path / "r").read_text())
    assert [check["action"] for check in report["checks"]] == ["run"]
    done = masquerade("run", "--as", "h100", "--report", "json:-", "--", "true")
    assert done.exit_code == 2
    assert "standard output is the command's" in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--", "true"), "Missing option '--as'"),
        (("--as", "h100"), "Missing argument"),
        (("--as", "h100,b580", "--", "true"), "--as takes one machine, not 2"),
        (("--as", "h1000", "--", "true"), "h100"),
        (("--as", "", "--", "true"), "--as names no machine"),
    ],
)
def test_wrong_usage(masquerade, words, says) -> None:
    done = masquerade("run", *words)
    assert done.exit_code == 2
    assert says in done.stderr


def test_the_owners_of_the_configuration_count(masquerade, stage, tmp_path, monkeypatch) -> None:
    (tmp_path / "masquerade.toml").write_text("[owners]\nrocm = ['pkg.rocm']\nany = ['aiter']\n")
    monkeypatch.chdir(tmp_path)
    done = masquerade("run", "--as", "h100", "--owner", "xpu=aiter", "--", "true")
    assert "note: the owners in masquerade.toml count" in done.stderr
    owners = stage.asked["owners"]
    assert "pkg.rocm" in owners["rocm"] and "flashinfer" in owners["cuda"]
    assert "aiter" in owners["xpu"] and "aiter" not in owners["rocm"], "--owner is the last word"
