"""/proc/cpuinfo of a machine, as the kernel of its architecture prints it.

Lines whose values a machine's file does not hold are left out. Sources: show_cpuinfo() in the Linux kernel's
arch/{x86/kernel/cpu/proc.c, arm64/kernel/cpuinfo.c, powerpc/kernel/setup-common.c, s390/kernel/processor.c,
riscv/kernel/cpu.c}.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .world import World

PROBE = "open('/proc/cpuinfo')"


def says_nothing(world: World) -> bool:
    """Whether the machine's file leaves its CPU open, apart from the architecture."""
    return not any(
        world.known(f"host.cpu.{key}") for key in ("vendor_id", "model_name", "flags", "implementer", "part")
    )


def render(world: World, count: int) -> str:
    """The text, with one processor per core; `count` of them where the machine's file does not say how many.

    Raises UnknownValueError where flags are asked for and unknown: their absence would be an answer.
    """
    machine = str(world.get("host.machine", PROBE))
    write = _WRITERS.get(machine)
    if write is None:
        raise_for = f"host.cpu of a {machine}"
        return str(world.get(raise_for, PROBE))
    cores = world.known("host.cpu.cores")
    return write(world, cores if isinstance(cores, int) and cores > 0 else count)


def _lines(pairs: list[tuple[str, Any]], pad: Callable[[str], str]) -> str:
    """`name<pad>: value`, without the pairs whose value is None."""
    return "".join(f"{pad(name)}: {value}\n" for name, value in pairs if value is not None)


def _tabs(name: str) -> str:
    """Tabs up to column 16, as x86 and arm64 print them."""
    return name + ("\t\t" if len(name) < 8 else "\t")


def _flags(world: World) -> str:
    return " ".join(world.get("host.cpu.flags", PROBE))


def _x86(world: World, count: int) -> str:
    flags = _flags(world)
    vendor, model = world.known("host.cpu.vendor_id"), world.known("host.cpu.model_name")
    processors = []
    for number in range(count):
        pairs = [
            ("processor", number),
            ("vendor_id", vendor),
            ("model name", model),
            ("physical id", 0),
            ("siblings", count),
            ("core id", number),
            ("cpu cores", count),
            ("apicid", number),
            ("initial apicid", number),
            ("fpu", "yes"),
            ("fpu_exception", "yes"),
            ("wp", "yes"),
            ("flags", flags),
        ]
        processors.append(_lines(pairs, _tabs) + "power management:\n\n")
    return "".join(processors)


def _arm(world: World, count: int) -> str:
    """`CPU architecture` is 8 for every 64-bit one."""
    flags = _flags(world)
    implementer, part = world.known("host.cpu.implementer"), world.known("host.cpu.part")
    processors = []
    for number in range(count):
        head = _lines([("processor", number), ("Features", flags), ("CPU implementer", implementer)], _tabs)
        # The kernel writes this one without a tab, and so do all that read it.
        processors.append(head + "CPU architecture: 8\n" + _lines([("CPU part", part)], _tabs) + "\n")
    return "".join(processors)


def _power(world: World, count: int) -> str:
    """There is no line of flags: the name of the processor ends with `altivec supported`."""
    model = world.get("host.cpu.model_name", PROBE)
    return "".join(f"processor\t: {number}\ncpu\t\t: {model}\n\n" for number in range(count))


def _s390(world: World, count: int) -> str:
    vendor = world.known("host.cpu.vendor_id") or "IBM/S390"
    head = f"vendor_id       : {vendor}\n# processors    : {count}\nfeatures\t: {_flags(world)} \n"
    numbers = "".join(f"\ncpu number      : {number}\n" for number in range(count))
    return head + numbers


def _riscv(world: World, count: int) -> str:
    """The flags are the parts of the line isa, which the kernel joins into one word: rv64imafdcv_zba."""
    isa = "_".join(world.get("host.cpu.flags", PROBE))
    model = world.known("host.cpu.model_name")
    processors = []
    for number in range(count):
        pairs = [("processor", number), ("hart", number), ("model name", model), ("isa", isa)]
        processors.append(_lines(pairs, lambda name: name + ("\t" if len(name) >= 8 else "\t\t")) + "\n")
    return "".join(processors)


_WRITERS: dict[str, Callable[[World, int], str]] = {
    "x86_64": _x86,
    "aarch64": _arm,
    "ppc64le": _power,
    "s390x": _s390,
    "riscv64": _riscv,
}
