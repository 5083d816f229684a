"""Puts on a machine's fakes, and the watchers over them: the one list of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from masquerade.watch.recorder import Recorder


def disguise(machine: Mapping[str, Any], folder: str = "") -> None:
    """Make this process answer as `machine` does. `folder` holds the machine's command-line tools, built before.

    The machine `here` wears no fakes.
    """
    if machine["platform"] == "here":
        return
    from masquerade.fakes import amdsmi, host, packages, pynvml, tools, torch_runtime, triton_driver
    from masquerade.fakes.world import World

    world = World(machine)
    host.install(world)
    if folder:
        tools.use(world, folder)
    packages.install(world)
    pynvml.install(world)
    amdsmi.install(world)
    torch_runtime.install(world)
    triton_driver.install(world)


def watch(
    recorder: Recorder, machine: Mapping[str, Any], owners: Mapping[str, Sequence[str]]
) -> Callable[[], int]:
    """Start all watchers; gives a function that counts the subject's live threads."""
    from masquerade.fakes.hooks import on_import
    from masquerade.watch import audit, devices, environment, imports, native, processes, threads

    platform = real_platform() if machine["platform"] == "here" else machine["platform"]
    devices.install(recorder, on_import, platform)
    alive = threads.install(recorder)
    audit.listen(
        {
            **imports.handlers(recorder, owners, platform),
            **native.handlers(recorder, platform),
            **environment.handlers(recorder),
            **processes.handlers(recorder),
        }
    )
    return alive


def real_platform() -> str:
    """The platform of the torch that is really here; `cpu` without one."""
    import sys

    version = getattr(sys.modules.get("torch"), "version", None)
    for platform, name in (("rocm", "hip"), ("cuda", "cuda"), ("xpu", "xpu")):
        if getattr(version, name, None):
            return platform
    return "cpu"


def load() -> None:
    """Import all modules of the child side, so that no child has to."""
    import masquerade.fakes.amdsmi
    import masquerade.fakes.hooks
    import masquerade.fakes.host
    import masquerade.fakes.packages
    import masquerade.fakes.pynvml
    import masquerade.fakes.tools
    import masquerade.fakes.torch_runtime
    import masquerade.fakes.triton_driver
    import masquerade.fakes.world
    import masquerade.watch.audit
    import masquerade.watch.devices
    import masquerade.watch.environment
    import masquerade.watch.imports
    import masquerade.watch.native
    import masquerade.watch.processes
    import masquerade.watch.threads  # noqa: F401
