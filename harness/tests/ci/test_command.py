"""`masquerade ci` on what users type."""

from __future__ import annotations

import os
import shlex

import pytest

from conftest import write


def test_it_prints_or_writes_the_same(ci, contracts_project, tmp_path) -> None:
    printed = ci("buildkite", "--root", contracts_project)
    assert printed.exit_code == 0
    assert printed.stderr.startswith(f"note: {contracts_project} has no pyproject.toml or setup.py to install")
    write(contracts_project, {"pyproject.toml": "[project]\nname = 'pkg'\n"})
    printed = ci("buildkite", "--root", contracts_project)
    written = ci("buildkite", "--root", contracts_project, "-o", tmp_path / "deep/pipeline.yml")
    assert (written.stdout, written.stderr) == ("", f"{tmp_path / 'deep/pipeline.yml'}: written\n")
    assert (tmp_path / "deep/pipeline.yml").read_text() == printed.stdout


def test_a_file_that_it_did_not_make_is_left_alone(ci, contracts_project, tmp_path) -> None:
    (tmp_path / "mine.yml").write_text("steps: []\n")
    done = ci("buildkite", "--root", contracts_project, "-o", tmp_path / "mine.yml")
    assert done.exit_code == 2 and "was not made by masquerade ci" in done.stderr
    assert (tmp_path / "mine.yml").read_text() == "steps: []\n"
    again = [ci("buildkite", "--root", contracts_project, "-o", tmp_path / "made.yml").exit_code for _ in range(2)]
    assert again == [0, 0]


@pytest.mark.parametrize("service", ["github", "buildkite"])
def test_where_masquerade_is_installed_from(ci, contracts_project, service) -> None:
    made = ci(
        service, "--root", contracts_project, "--install", "masquerade @ git+https://host/it#subdirectory=x"
    ).stdout
    assert "-m pip install 'masquerade @ git+https://host/it#subdirectory=x'" in made
    assert "masquerade==" not in made


def test_its_head_is_the_command_that_makes_it_again(ci, contracts_project, tmp_path) -> None:
    (tmp_path / "times.json").write_text('{"lazy-core": 60, "lazy.ops": 5, "calls_1": 5}')
    words = ["-n", "2", "--timings", tmp_path / "times.json", "--python", "3.11", "--python", "3.13"]
    made = ci("github", "--root", contracts_project, *words).stdout
    program, command, service, *again = shlex.split(made.splitlines()[1].lstrip("# "))
    assert (program, command, service) == ("masquerade", "ci", "github")
    assert ci(service, "--root", contracts_project, *again).stdout == made
    assert "/lazy.ops/ or /calls_1/" in made and 'python-version: "3.11\\n3.13"' in made


@pytest.mark.parametrize(
    ("wanted", "version"),
    [
        ("", "3.12"),
        (">=3.9", "3.12"),
        (">=3.13", "3.13"),
        ("<3.12", "3.11"),
        (">=3.12.4,<3.13", "3.12"),
        ("==3.14.*", "3.14"),
    ],
)
def test_github_sets_up_a_python_that_the_project_admits(ci, contracts_project, wanted, version) -> None:
    write(contracts_project, {"pyproject.toml": f"[project]\nname = 'pkg'\nrequires-python = '{wanted}'\n"})
    assert f'python-version: "{version}"' in ci("github", "--root", contracts_project).stdout
    other = ci("github", "--root", contracts_project, "--python", "3.10").stdout
    assert 'python-version: "3.10"' in other


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("'>=4'", "admits none of 3.10, 3.11, 3.12, 3.13, 3.14"),
        ("'nonsense'", "cannot be read"),
        ("'", "cannot be read"),
    ],
)
def test_a_requires_python_that_nothing_meets_is_told(ci, contracts_project, wanted, says) -> None:
    write(contracts_project, {"pyproject.toml": f"[project]\nname = 'pkg'\nrequires-python = {wanted}\n"})
    done = ci("github", "--root", contracts_project)
    assert done.exit_code == 2 and says in done.stderr and "--python names a version" in done.stderr
    assert ci("github", "--root", contracts_project, "--python", "3.12").exit_code == 0 or wanted == "'"


def test_tox_comes_before_contracts_unless_said_otherwise(ci, tox_project) -> None:
    contract = '[[contracts]]\nname = "lazy"\nkind = "imports"\nmodules = ["pkg"]\n'
    write(tox_project, {"masquerade.toml": contract, "pkg/__init__.py": ""})
    assert "tox" in ci("buildkite", "--root", tox_project).stdout
    assert "/lazy/" in ci("buildkite", "--root", tox_project, "--from", "contracts").stdout


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ("tox.toml", 'env_list = ["lint", {product = [["py311", "py312"], ["cpu"]]}]\n'),
        ("pyproject.toml", '[tool.tox]\nenv_list = ["lint", "py311-cpu", "py312-cpu"]\n'),
        ("setup.cfg", "[tox:tox]\nenv_list = lint, py31{1,2}-cpu\n"),
    ],
)
def test_every_file_that_tox_reads(ci, needs_tox, tmp_path, config, text) -> None:
    write(tmp_path, {config: text})
    assert "run -e lint,py311-cpu,py312-cpu" in ci("buildkite", "--root", tmp_path).stdout


def test_one_label_of_tox(ci, tox_project) -> None:
    assert 'run -e lint"' in ci("buildkite", "--root", tox_project, "-m", "quick").stdout.replace("lint\n", 'lint"\n')
    done = ci("buildkite", "--root", tox_project, "-m", "slow")
    assert done.exit_code == 2 and "the label slow" in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--hardware", "gpu"], "ENVIRONMENT=PLATFORM@QUEUE"),
        (["--hardware", "nothere=cuda@q"], "no environment 'nothere'"),
        (["--skip", "nothere"], "--skip nothere matches nothing; known: lint, "),
        (["--python", "3"], "--python '3' is no version; write it as 3.12"),
        (["-n", "0"], "0 is not in the range"),
    ],
)
def test_wrong_words_are_told(ci, tox_project, words, says) -> None:
    done = ci("github", "--root", tox_project, *words)
    assert done.exit_code == 2
    assert says in done.stderr


def test_contracts_have_no_lanes(ci, contracts_project) -> None:
    done = ci("github", "--root", contracts_project, "--hardware", "gpu=cuda@q")
    assert done.exit_code == 2 and "contracts need no device" in done.stderr


def test_a_project_with_nothing_to_run(ci, tmp_path) -> None:
    done = ci("github", "--root", tmp_path)
    assert done.exit_code == 2
    assert "has neither tox environments (tox.ini, tox.toml) nor contracts (masquerade.toml)" in done.stderr


def test_tox_works_in_a_folder_of_its_own(ci, tmp_path, monkeypatch) -> None:
    """The tox that runs this may hold the project's, and would be waited for without an end."""
    write(tmp_path, {"bin/tox": f'#!/bin/sh\necho "$@" >{tmp_path}/words\necho lint\n', "project/tox.toml": ""})
    (tmp_path / "bin/tox").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert "run -e lint" in ci("buildkite", "--root", tmp_path / "project").stdout
    words = (tmp_path / "words").read_text().split()
    folder = words[words.index("--workdir") + 1]
    assert not folder.startswith(str(tmp_path / "project")) and not os.path.exists(folder), "and leaves nothing"


def test_without_tox_it_says_so(ci, tmp_path, monkeypatch) -> None:
    write(tmp_path, {"tox.toml": ""})
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    done = ci("github", "--root", tmp_path)
    assert done.exit_code == 2 and "pip install tox" in done.stderr


def test_a_broken_tox_file_is_toxs_to_explain(ci, needs_tox, tmp_path) -> None:
    write(tmp_path, {"tox.toml": "env_list = [\n"})
    done = ci("github", "--root", tmp_path)
    assert done.exit_code == 2
    assert "tox list failed" in done.stderr and "Traceback" not in done.stderr


def test_a_broken_configuration_is_listed(ci, tmp_path) -> None:
    write(tmp_path, {"masquerade.toml": '[[contracts]]\nname = "a"\nkind = "import"\n'})
    done = ci("github", "--root", tmp_path)
    assert done.exit_code == 2
    assert "masquerade.toml:3" in done.stderr and "no kind 'import'" in done.stderr


@pytest.mark.parametrize("name", ["a b", "${{ secrets.X }}", "$(id)", "a'b", "a\\nb"])
def test_a_contracts_name_gets_into_no_script(ci, tmp_path, name) -> None:
    write(tmp_path, {"masquerade.toml": f'[[contracts]]\nname = "{name}"\nkind = "imports"\nmodules = ["pkg"]\n', "pkg/__init__.py": ""})  # fmt: skip # noqa: E501
    done = ci("github", "--root", tmp_path)
    assert done.exit_code == 2
    assert done.stdout == ""


def test_a_file_that_cannot_be_written(ci, contracts_project, tmp_path) -> None:
    (tmp_path / "file").touch()
    done = ci("github", "--root", contracts_project, "-o", tmp_path / "file/out.yml")
    assert done.exit_code == 2
    assert "cannot write to" in done.stderr
