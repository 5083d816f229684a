"""A variable that is put back is no mutation."""

from __future__ import annotations

from pathlib import Path

from conftest import write
from masquerade.stage import Stage

SOURCES = {
    "envpkg/__init__.py": "",
    "envpkg/put_back.py": "import os\nold = os.environ['HOME']\nos.environ['HOME'] = '/x'\nos.environ['HOME'] = old\n",
    "envpkg/for_a_while.py": "import os\nos.environ['MASQ_T'] = '1'\nos.environ.pop('MASQ_T')\n",
    "envpkg/other_value.py": "import os\nos.environ['HOME'] = '/x'\nos.environ['HOME'] = '/y'\n",
    "envpkg/stays.py": "import os\nos.environ['MASQ_T'] = '1'\nos.environ.pop('MASQ_T')\nos.environ['MASQ_T'] = '2'\n",
}


def test_what_is_put_back_does_not_leak(stage: Stage, tmp_path: Path) -> None:
    root = write(tmp_path, SOURCES)

    def verdict(module: str) -> str:
        return stage.run(f"envpkg.{module}", on="cpu", path=[root], env={"HOME": "/home/me"}).verdict

    assert verdict("put_back") == "ok"
    assert verdict("for_a_while") == "ok"
    assert verdict("other_value") == "env-mutation"
    assert verdict("stays") == "env-mutation"
