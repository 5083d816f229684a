"""A subject cannot speak for others through a process that served it."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import write
from masquerade import machines
from masquerade.stage import Check, Stage
from masquerade.stage.fast import WORTH

TOUCH = "import torch\ntorch.cuda.is_available()\n"

#: What a package does as it is imported, so that a touch in its modules would go unseen or unsaid.
TAMPERS = {
    "a function of the server's": (
        "import sys\nwire = sys.modules['masquerade.stage.wire']\nsend = wire.send\n"
        "wire.send = lambda sock, message: send(sock, {**message, 'events': []} if 'events' in message else message)\n"
    ),
    "the code of one": (
        "import sys\ntree = sys.modules['masquerade.stage.server']\nold = tree.answer\n"
        "def fake(request, control, fresh, dressed=None, spared=()):\n    return {'id': request['id'], 'exit': 0, "
        "'events': [], 'closing': '{\"ok\": true}'}\ntree.answer.__code__ = fake.__code__\n"
    ),
    "a function of the standard library": (
        "import json\nold = json.dumps\n"
        "json.dumps = lambda value, **k: old({**value, 'events': []} if 'events' in value else value, **k)\n"
    ),
    "an audit hook": (
        "import sys\ndef hook(event, args):\n    if event == 'os.fork':\n"
        "        wire = sys.modules['masquerade.stage.wire']\n        send = wire.send\n"
        "        wire.send = lambda s, m: send(s, {**m, 'events': []} if 'events' in m else m)\n"
        "sys.addaudithook(hook)\n"
    ),
    "junk on every descriptor": (
        "import os\nfor fd in range(3, 256):\n    try:\n        os.write(fd, b'\\x00\\x00\\x00\\x0d{\"done\":true}')\n"
        "    except OSError:\n        pass\n"
    ),
    "no descriptor left": "import os\nos.closerange(3, 256)\n",
}


@pytest.mark.parametrize("tamper", sorted(TAMPERS))
def test_no_package_hides_what_its_modules_do(tmp_path: Path, tamper: str) -> None:
    files = {f"hides/m{number}.py": TOUCH for number in range(WORTH)}
    write(tmp_path, {"hides/__init__.py": TAMPERS[tamper], **files})
    checks = [Check(f"hides.m{n}", machines.resolve("cuda"), path=(str(tmp_path),)) for n in range(WORTH)]
    with Stage() as stage:
        records = list(stage.scan(checks))
        assert {record.verdict for record in records} == {"fork-poison"} and len(records) == WORTH
        assert stage.agreement.differed == []


@pytest.mark.parametrize(
    "harmless, sees",
    [
        ("import builtins, json\njson.mine = builtins.mine = 1\n", "assert mine\n"),
        ("import time\ntime.tzset()\n", ""),
    ],
    ids=["names are added", "the time zone is read again"],
)
def test_a_package_that_changes_nothing_that_serves_is_shared(tmp_path: Path, harmless: str, sees: str) -> None:
    grows = f"{harmless}open({str(tmp_path / 'log')!r}, 'a').write('x')\n"
    files = {f"adds/m{number}.py": sees for number in range(WORTH)}
    write(tmp_path, {"adds/__init__.py": grows, **files})
    checks = [Check(f"adds.m{n}", machines.resolve("cpu"), path=(str(tmp_path),)) for n in range(WORTH)]
    with Stage() as stage:
        assert {record.verdict for record in stage.scan(checks)} == {"ok"}
    assert len((tmp_path / "log").read_text()) == 2  # once for all, once to confirm one
