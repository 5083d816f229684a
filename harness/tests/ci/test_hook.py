"""The hook for other projects, run by pre-commit itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import write

HOOKS = Path(__file__).resolve().parents[3] / ".pre-commit-hooks.yaml"

pytestmark = pytest.mark.skipif(not HOOKS.exists(), reason="not run from the repository")


def test_its_manifest_is_valid(checker) -> None:
    checker("pre-commit", "validate-manifest", HOOKS)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a contract, a module that is fine and one that is not; beside it that of the hook."""
    git = "git -c user.name=a -c user.email=a@example.org -c init.defaultBranch=main"
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path / "cache"))
    program = tmp_path / "bin/masquerade"
    write(tmp_path, {"bin/masquerade": f'#!/bin/sh\nexec {sys.executable} -m masquerade "$@"\n'})
    program.chmod(0o755)
    monkeypatch.setenv(
        "PATH", os.pathsep.join([str(program.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    )
    contract = 'machines = ["h100"]\n[[contracts]]\nname = "lazy"\nkind = "imports"\nmodules = ["pkg"]\n'
    write(
        tmp_path / "project",
        {"masquerade.toml": contract, "pkg/__init__.py": "", "pkg/fine.py": "", "pkg/bad.py": "1/0\n"},
    )
    (tmp_path / "hooks").mkdir()
    shutil.copy(HOOKS, tmp_path / "hooks")
    for folder in ("hooks", "project"):
        subprocess.run(
            f"{git} init -q && {git} add . && {git} commit -qm a",
            shell=True,
            cwd=tmp_path / folder,
            check=True,
            timeout=60,
        )
    return tmp_path / "project"


def test_it_checks_the_files_of_a_commit_alone(checker, project, monkeypatch) -> None:
    monkeypatch.chdir(project)
    words = ("try-repo", project.parent / "hooks", "masquerade-check", "--verbose", "--files")
    assert "1 check" in checker("pre-commit", *words, "pkg/fine.py")
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        checker("pre-commit", *words, "pkg/bad.py")
