"""`masquerade check FILE...`: what a hook runs before a commit."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.conftest import FakeStage

from conftest import write

FILES = {
    "masquerade.toml": """\
        machines = ["h100"]
        [[contracts]]
        name = "lazy"
        kind = "imports"
        modules = ["pkg"]
        [[contracts]]
        name = "setup"
        kind = "calls"
        function = "other.setup:main"
        [[contracts]]
        name = "moe"
        kind = "routing"
        function = "pkg.route:select"
        golden = "moe.md"
        problems = { small = {} }
        """,
    "src/pkg/__init__.py": "",
    "src/pkg/kern.py": "",
    "src/pkg/fine/__init__.py": "",
    "src/other/setup.py": "",
    "moe.md": "| machine | small | source |\n|---|---|---|\n| h100 | ck | a |\n",
    "moe.reasons.json": "{}",
    "README.md": "",
    "tests/test_kern.py": "",
}


@pytest.fixture
def stage() -> FakeStage:
    modules = {"pkg": ("pkg", "pkg.kern", "pkg.fine"), "other.setup": ("other.setup",), "pkg.route": ("pkg.route",)}
    return FakeStage(packages=modules)


@pytest.fixture
def run(masquerade, stage, tmp_path, monkeypatch):
    write(tmp_path, FILES)
    monkeypatch.chdir(tmp_path)

    def run(*files: str) -> list[str]:
        """The subjects that were checked for these files."""
        stage.checks.clear()
        done = masquerade("check", *files)
        assert done.exit_code in (0, 1), done.output
        return [check.subject for check in stage.checks]

    return run


@pytest.mark.parametrize(
    ("files", "checked"),
    [
        (["src/pkg/kern.py"], ["pkg.kern", "pkg.route:select"]),
        (["src/pkg/__init__.py"], ["pkg", "pkg.route:select"]),
        (["src/pkg/fine/__init__.py"], ["pkg.fine", "pkg.route:select"]),
        (["src/other/setup.py"], ["other.setup:main"]),
        (["src/other/setup.py", "src/pkg/kern.py"], ["pkg.kern", "other.setup:main", "pkg.route:select"]),
        (["moe.md"], ["pkg.route:select"]),
        (["moe.reasons.json"], ["pkg.route:select"]),
        (["masquerade.toml"], ["pkg", "pkg.kern", "pkg.fine", "other.setup:main", "pkg.route:select"]),
        ([], ["pkg", "pkg.kern", "pkg.fine", "other.setup:main", "pkg.route:select"]),
    ],
    ids=lambda value: "+".join(value) or "none" if isinstance(value, list) else "",
)
def test_files_ask_for_what_they_bear_on(run, files, checked) -> None:
    assert run(*files) == checked


def test_a_file_may_be_named_from_anywhere(run, tmp_path) -> None:
    assert run(str(tmp_path / "src/../src/other/setup.py")) == ["other.setup:main"]


def test_a_folder_stands_for_the_files_in_it(masquerade, run, stage, probe) -> None:
    stage.findings[("pkg.kern", "h100")] = (probe,)
    assert masquerade("check", "src/pkg").exit_code == masquerade("check", "src").exit_code == 1
    assert masquerade("check", "src/other").exit_code == 0


def test_a_fault_in_a_changed_file_fails_and_one_elsewhere_does_not(masquerade, run, stage, probe) -> None:
    stage.findings[("pkg.kern", "h100")] = (probe,)
    assert masquerade("check", "src/pkg/kern.py").exit_code == 1
    assert masquerade("check", "src/other/setup.py").exit_code == 0


def test_files_that_bear_on_nothing_pass_and_say_so(masquerade, run, stage) -> None:
    done = masquerade("check", "README.md", "tests/test_kern.py")
    assert done.exit_code == 0
    assert "None of these files bears on a contract." in done.stderr
    assert stage.checks == []


def test_a_part_of_a_contract_says_nothing_of_stale_entries(masquerade, run, tmp_path) -> None:
    allow = '\nallow = [{ module = "pkg.fine", machine = "h100", kind = "thread", reason = "a pool" }]\n'
    file = tmp_path / "masquerade.toml"
    file.write_text(file.read_text().replace('modules = ["pkg"]\n', f'modules = ["pkg"]{allow}'))
    assert masquerade("check", "--contract", "lazy", "src/pkg/kern.py").exit_code == 0
    done = masquerade("check", "--contract", "lazy")
    assert done.exit_code == 1 and "stale" in done.stdout


def test_a_file_that_is_not_there_is_a_mistake(masquerade, run) -> None:
    done = masquerade("check", "src/pkg/gone.py")
    assert done.exit_code == 2
    assert "there is no file 'src/pkg/gone.py'" in done.stderr


def test_the_repository_ships_the_hook() -> None:
    hooks = Path(__file__).resolve().parents[3] / ".pre-commit-hooks.yaml"
    if hooks.parent.joinpath("harness").exists():
        assert "entry: masquerade check\n" in hooks.read_text()
