"""Pipelines that the services take: by their schemas, by actionlint and by zizmor."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from masquerade.ci import pins
from masquerade.ci.commands import selection
from masquerade.ci.plan import Job
from masquerade.contracts.selection import compiled

SCHEMAS = {"github": "vendor.github-workflows", "buildkite": "vendor.buildkite"}


@pytest.fixture(params=["tox", "contracts"])
def options(request: pytest.FixtureRequest) -> list[str]:
    """The project to make a pipeline for, with all that can be asked for it."""
    project = request.getfixturevalue(f"{request.param}_project")
    lanes = ["--hardware", "gpu=cuda@gpu-h200"] if request.param == "tox" else []
    return ["--root", str(project), "-n", "2", *lanes]


@pytest.mark.parametrize("service", ["github", "buildkite"])
def test_it_fits_the_published_schema(ci, checker, options, service, tmp_path) -> None:
    file = tmp_path / "out/pipeline.yml"
    assert ci(service, *options, "-o", file).exit_code == 0
    checker("check-jsonschema", "--builtin-schema", SCHEMAS[service], file)


def test_the_schemas_refuse_what_is_wrong(checker, tmp_path) -> None:
    for schema, text in (
        ("vendor.github-workflows", "jobs: {a: {}}\n"),
        ("vendor.buildkite", "steps: [{label: [1]}]\n"),
    ):
        (tmp_path / "wrong.yml").write_text(text)
        with pytest.raises(AssertionError, match="Schema validation errors"):
            checker("check-jsonschema", "--builtin-schema", schema, tmp_path / "wrong.yml")


def test_actionlint_and_zizmor_find_nothing_in_a_workflow(ci, checker, options, tmp_path) -> None:
    file = tmp_path / ".github/workflows/masquerade.yml"
    assert ci("github", *options, "-o", file).exit_code == 0
    queues = tmp_path / "actionlint.yaml"
    queues.write_text("self-hosted-runner:\n  labels: [gpu-h200]\n")
    checker("actionlint", "-config-file", queues, file)
    checker("zizmor", "--offline", "--no-progress", "--persona", "pedantic", file)


def test_zizmor_refuses_what_is_not_pinned(ci, checker, contracts_project, tmp_path) -> None:
    file = tmp_path / ".github/workflows/masquerade.yml"
    ci("github", "--root", contracts_project, "-o", file)
    commit, tag = pins.ACTIONS["actions/checkout"]
    file.write_text(file.read_text().replace(commit, tag))
    with pytest.raises(AssertionError, match="unpinned-uses"):
        checker("zizmor", "--offline", "--no-progress", file)


def workflow(ci, yaml, *words: object):
    done = ci("github", *words)
    assert done.exit_code == 0, done.output
    return yaml.safe_load(done.stdout)


def test_a_workflow_may_do_the_least(ci, yaml, tox_project) -> None:
    made = workflow(ci, yaml, "--root", tox_project, "--hardware", "gpu=cuda@gpu-h200")
    assert made["permissions"] == {}
    for job in made["jobs"].values():
        assert job["permissions"] == {"contents": "read"}
        for step in job["steps"]:
            assert "uses" not in step or step["uses"].partition("@")[2] in {
                commit for commit, _ in pins.ACTIONS.values()
            }
            assert "${{" not in step.get("run", ""), "nothing is written into a script"
        assert job["steps"][0]["with"] == {"persist-credentials": False}


def test_environments_are_called_by_tox_alone(ci, yaml, tox_project) -> None:
    made = workflow(ci, yaml, "--root", tox_project, "-n", 2, "--hardware", "gpu=cuda@gpu-h200")
    checks, lane = made["jobs"]["checks"], made["jobs"]["hardware-gpu"]
    assert [row["what"] for row in checks["strategy"]["matrix"]["include"]] == [
        "lint,py311-cuda,py312-cuda",
        "py311-cpu,py312-cpu",
    ]
    assert [step["run"] for step in checks["steps"] if "run" in step] == [
        f'pipx run --python python tox=={pins.TOX} run -e "$WHAT"'
    ]
    assert lane["runs-on"] == ["self-hosted", "gpu-h200"]
    assert [step["run"] for step in lane["steps"] if "run" in step] == [
        f"pipx run tox=={pins.TOX} run -e gpu -- --require-hardware cuda"
    ]
    assert "head.repo.full_name == github.repository" in lane["if"], "a fork's code stays off one's own machines"


def test_steps_of_buildkite(ci, yaml, tox_project) -> None:
    done = ci("buildkite", "--root", tox_project, "-n", 2, "--queue", "cpu", "--hardware", "gpu=cuda@gpu-h200")
    first, second, lane = yaml.safe_load(done.stdout)["steps"]
    assert first["command"] == f"pipx run tox=={pins.TOX} run -e lint,py311-cuda,py312-cuda"
    assert second["agents"] == {"queue": "cpu"}
    assert lane["agents"] == {"queue": "gpu-h200"}
    assert lane["command"].endswith("run -e gpu -- --require-hardware cuda")
    assert len({step["key"] for step in (first, second, lane)}) == 3


def test_a_schedule_takes_the_place_of_pushes(ci, yaml, tox_project) -> None:
    words = ("--root", tox_project, "--schedule", "30 3 * * *")
    made = workflow(ci, yaml, *words)
    assert made[True] == {"schedule": [{"cron": "30 3 * * *"}], "workflow_dispatch": {}}, "YAML 1.1 reads `on` as true"
    assert made["name"] != workflow(ci, yaml, "--root", tox_project)["name"], "a group of runs is told by the name"
    steps = yaml.safe_load(ci("buildkite", *words).stdout)["steps"]
    assert {step["if"] for step in steps} == {'build.source == "schedule" || build.source == "ui"'}
    for wrong in ("daily", "30 3 * *", "30 3 * * * *", "30 3 * * *\nx"):
        done = ci("github", "--root", tox_project, "--schedule", wrong)
        assert done.exit_code == 2 and "write it as '30 3 * * *'" in done.output


@pytest.mark.parametrize("service", ["github", "buildkite"])
def test_contracts_are_checked_each_once_and_reported(ci, yaml, contracts_project, service) -> None:
    done = ci(service, "--root", contracts_project, "-n", 2)
    made = yaml.safe_load(done.stdout)
    if service == "github":
        checks = made["jobs"]["checks"]
        [run] = [step["run"] for step in checks["steps"] if "check -k" in step.get("run", "")]
        commands = [run.replace('"$WHAT"', shlex.quote(row["what"])) for row in checks["strategy"]["matrix"]["include"]]
    else:
        commands = [step["command"][-1] for step in made["steps"]]
    words = [shlex.split(command) for command in commands]
    assert [each[each.index("-k") + 1] for each in words] == ["/lazy-core/ or /calls_1/", "/lazy.ops/"]
    assert all(each[each.index("--report") + 1] == service for each in words)


def test_a_project_that_can_be_installed_is(ci, contracts_project) -> None:
    assert "-e ." not in ci("github", "--root", contracts_project).stdout
    (contracts_project / "pyproject.toml").write_text("[project]\nname = 'pkg'\nversion = '1'\n")
    assert "python -m pip install masquerade==" in ci("github", "--root", contracts_project).stdout
    assert " -e ." in ci("github", "--root", contracts_project).stdout


def test_a_selection_picks_its_contracts_alone(contracts_project) -> None:
    chosen = compiled(selection(Job(("core", "lazy.ops"))))
    ids = ["imports/lazy-core/core.a@h100", "imports/core/pkg@h100", "calls/lazy.ops/x@b580", "imports/lazyxops/a@h100"]
    assert [chosen(id) for id in ids] == [False, True, True, False]


def test_the_root_may_be_elsewhere(ci, contracts_project, monkeypatch) -> None:
    monkeypatch.chdir(Path("/"))
    assert "/lazy-core/" in ci("buildkite", "--root", contracts_project).stdout
