"""The key of a result: all that it depends on and that is no file it read."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from masquerade import __version__
from masquerade.remembered.contents import Contents, Seen, digest, listing
from masquerade.stage.bootstrap import PACKAGE
from masquerade.stage.client import clean_environment

#: Variables in which two shells of one user differ, and that say nothing of the host.
_OF_THE_SHELL = frozenset(
    {
        *("_", "SHLVL", "OLDPWD", "COLUMNS", "LINES", "TERM", "WINDOWID", "INVOCATION_ID", "JOURNAL_STREAM"),
        *("TMUX", "TMUX_PANE", "SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY"),
    }
)


def surroundings(facts: Mapping[str, Any], contents: Contents) -> str:
    """A digest of the tool, the interpreter with its packages, the environment and the working directory."""
    environ = {key: value for key, value in clean_environment(os.environ).items() if key not in _OF_THE_SHELL}
    folders = [folder for folder in facts.get("path", ()) if isinstance(folder, str)]
    said = {
        "tool": [__version__, sys.version, contents.together(_sources())],
        "facts": facts,
        "installed": {folder: [listing(folder), *_settings(folder)] for folder in folders},
        "environ": environ,
        "here": os.getcwd(),
    }
    return digest(json.dumps(said, sort_keys=True, default=str).encode("utf-8", "surrogateescape"))


def _sources() -> Iterator[str]:
    """Every file of masquerade itself."""
    for folder, folders, files in os.walk(PACKAGE):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (os.path.join(folder, name) for name in sorted(files) if not name.endswith(".pyc"))


def _settings(folder: str) -> Iterator[tuple[str, Seen | None]]:
    """Files that the interpreter reads when it starts, and those that say what an installed package holds."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        if name.endswith(".pth") or name.startswith("__editable__") or name in ("sitecustomize.py", "usercustomize.py"):
            yield name, Seen.of(os.path.join(folder, name))
        elif name.endswith(".dist-info"):
            yield name, Seen.of(os.path.join(folder, name, "RECORD"))
