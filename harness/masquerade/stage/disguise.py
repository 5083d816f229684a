"""Puts on a machine's fakes, and the watchers over them: the one list of both."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from masquerade.watch.reads import Reads
from masquerade.watch.recorder import Recorder

#: The fakes, in the order in which they are put on. Each has install(world).
FAKES = ("host", "packages", "replaced", "pynvml", "amdsmi", "torch_runtime", "triton_driver")

WATCHERS = ("audit", "devices", "environment", "exits", "imports", "launches", "native",
            "processes", "standins", "threads")  # fmt: skip


def load() -> None:
    """Import all modules of the child side, so that no child has to."""
    for name in ("world", "hooks", "tools", *FAKES):
        import_module(f"masquerade.fakes.{name}")
    for name in WATCHERS:
        import_module(f"masquerade.watch.{name}")


def disguise(machine: Mapping[str, Any], folder: str = "") -> None:
    """Make this process answer as `machine` does. `folder` holds the machine's command-line tools, built before.

    The machine `here` wears no fakes.
    """
    if machine["platform"] == "here":
        return
    from masquerade.fakes import tools
    from masquerade.fakes.world import World

    world = World(machine)
    for name in FAKES:
        import_module(f"masquerade.fakes.{name}").install(world)
    if folder:
        tools.use(world, folder)


def watch(
    recorder: Recorder, machine: Mapping[str, Any], owners: Mapping[str, Sequence[str]], reads: Reads | None = None
) -> Callable[[], int]:
    """Start all watchers; gives a function that counts the subject's live threads."""
    from masquerade.fakes.hooks import on_import
    from masquerade.watch import (
        audit,
        devices,
        environment,
        exits,
        imports,
        launches,
        native,
        processes,
        standins,
        threads,
    )

    platform = real_platform() if machine["platform"] == "here" else machine["platform"]
    devices.install(recorder, on_import, platform)
    launches.install(recorder, on_import)
    exits.install(recorder)
    alive = threads.install(recorder)
    audit.listen(
        imports.handlers(recorder, owners, platform),
        native.handlers(recorder, platform),
        environment.handlers(recorder),
        processes.handlers(recorder),
        standins.handlers(recorder),
        *((reads.handlers(),) if reads is not None else ()),
    )
    return alive


def real_platform() -> str:
    """The platform of the torch that is really here, which need not be imported; `cpu` without one."""
    version = getattr(sys.modules.get("torch"), "version", None)
    built = vars(version) if version is not None else _version_file()
    for platform, name in (("rocm", "hip"), ("cuda", "cuda"), ("xpu", "xpu")):
        if built.get(name):
            return platform
    return "cpu"


def _version_file() -> dict[str, str]:
    """What torch/version.py sets to a text."""
    try:
        spec = importlib.util.find_spec("torch")
        folder = os.path.dirname(spec.origin or "") if spec is not None else ""
        with open(os.path.join(folder, "version.py"), encoding="utf-8") as file:
            return dict(re.findall(r"^(\w+)\b[^=\n]*= *['\"]([^'\"\n]+)", file.read(), re.MULTILINE))
    except (OSError, ImportError, ValueError):
        return {}
