"""The package as it is shipped: quick to import, without torch, and complete in an archive."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import masquerade

PACKAGE = Path(masquerade.__file__).parent


def python(code: str, path: Path, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, *options, "-c", code],
        env={"PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_brings_neither_torch_nor_the_command_line_nor_a_parser() -> None:
    loaded = python(
        "import sys, json, masquerade.machines; print(json.dumps(sorted(sys.modules)))", PACKAGE.parent, "-S"
    )
    modules = {name.split(".")[0] for name in json.loads(loaded)}
    assert not modules & {"torch", "rich", "click", "tomllib", "tomli", "difflib", "zipfile"}


def test_bases_and_machines_are_read_through_importlib_resources(tmp_path: Path) -> None:
    archive = tmp_path / "masquerade.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for file in [PACKAGE / "__init__.py", *(PACKAGE / "machines").rglob("*")]:
            if file.suffix in (".py", ".toml"):
                packed.write(file, file.relative_to(PACKAGE.parent))
    code = (
        "from masquerade import machines as m;"
        "print(m.__file__, len(m.names()), m.resolve('mi355xx8+aiter').devices[7]['name'], len(m.default_owners()))"
    )
    at, count, *name, owners = python(code, archive).split()
    assert at.startswith(str(archive))
    assert int(count) == len(list((PACKAGE / "machines" / "zoo").glob("*.toml"))) + 1
    assert " ".join(name) == "AMD Instinct MI355X" and owners == "3"
