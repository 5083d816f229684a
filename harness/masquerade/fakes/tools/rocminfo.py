"""rocminfo and rocm_agent_enumerator. Both ask ROCr: ROCR_VISIBLE_DEVICES holds for them, and HIP's variable does not.

Lines whose values a machine's file does not hold are left out. Source of the format: ROCm/rocminfo, and its outputs in
public bug reports.
"""

from __future__ import annotations

from typing import Any

from .. import visible
from ..world import Device, World

LOADED = "\x1b[37mROCk module is loaded\x1b[0m\n"
NOT_LOADED = "\x1b[31mROCk module is NOT loaded, possibly no GPU devices\x1b[0m\n"
NO_KFD = "Unable to open /dev/kfd read-write: No such file or directory\n"


def answer(world: World, name: str, arguments: list[str]) -> tuple[str, int]:
    """What the tool writes, and its exit status."""
    devices = _agents(world)
    if name == "rocm_agent_enumerator":
        # The first line is printed whatever there is, as an older tool did.
        key = "gcn_arch_name" if "-name" in arguments else "arch"
        found = [str(device.known(key) or device.known("arch", "")) for device in devices]
        return "".join(line + "\n" for line in (found if key == "gcn_arch_name" else ["gfx000", *found])), 0
    if not _has_kfd(world):
        # The module is there where a container was not given the node.
        return (LOADED if "/sys/module/amdgpu" in world.known("host.paths", []) else NOT_LOADED) + NO_KFD, 255
    text = LOADED + _HEAD + _cpu(world)
    for number, device in enumerate(devices, 2):
        text += _agent(number) + _gpu(device, number - 1)
    return text + "*** Done ***             \n", 0


def _has_kfd(world: World) -> bool:
    return "/dev/kfd" in world.known("host.dev", [])


def _agents(world: World) -> list[Device]:
    """The GPUs that ROCr shows; none where its driver is not there."""
    if not _has_kfd(world):
        return []
    environ = {key: value for key, value in world.environ.items() if key == "ROCR_VISIBLE_DEVICES"}
    devices = world.devices if world.platform == "rocm" else world.cards("rocm")
    return [devices[index] for index in visible.indices("rocm", devices, environ)]


_HEAD = """\
=====================    
HSA System Attributes    
=====================    
System Timestamp Freq.:  1000.000000MHz
Sig. Max Wait Duration:  18446744073709551615 (0xFFFFFFFFFFFFFFFF) (timestamp count)
Machine Model:           LARGE                              
System Endianness:       LITTLE                             

==========               
HSA Agents               
==========               
"""  # noqa: W291 - the tool pads its lines


def _agent(number: int) -> str:
    stars = f"{'*' * 7:<25}\n"
    return stars + f"{f'Agent {number}':<25}\n" + stars


def _row(depth: int, name: str, value: Any = "") -> str:
    if value is None:
        return ""
    return f"{'  ' * depth}{name + ':':<25}" + (f"{value!s:<35}" if value != "" else "") + "\n"


def _heading(name: str) -> str:
    return f"    {name:<25}\n"


def _hex(value: int | None, unit: str = "") -> str | None:
    return None if value is None else f"{value}({value:#x}){unit}"


def _cpu(world: World) -> str:
    name = world.known("host.cpu.model_name") or "CPU"
    rows = [
        ("Name", name),
        ("Uuid", "CPU-XX"),
        ("Marketing Name", name),
        ("Vendor Name", "CPU"),
        ("Feature", "None specified"),
        ("Profile", "FULL_PROFILE"),
        ("Float Round Mode", "NEAR"),
        ("Max Queue Number", "0(0x0)"),
        ("Queue Type", "MULTI"),
        ("Node", 0),
        ("Device Type", "CPU"),
        ("Compute Unit", world.known("host.cpu.cores")),
    ]
    return _agent(1) + "".join(_row(1, *row) for row in rows) + _row(1, "ISA Info")


def _gpu(device: Device, node: int) -> str:
    cache, clock, chip = device.known("l2_cache_size"), device.known("clock_rate"), device.known("pci_device_id")
    bus = str(device.known("pci_bus_id", ""))
    serial = device.known("serial")
    memory, shared = device.known("total_memory"), device.known("shared_memory_per_block")
    group = device.known("max_threads_per_block")
    text = "".join(
        _row(1, *row)
        for row in (
            ("Name", device.known("arch")),
            ("Uuid", f"GPU-{int(str(serial), 16):016x}" if serial else "GPU-XX"),
            ("Marketing Name", device.known("name")),
            ("Vendor Name", "AMD"),
            ("Feature", "KERNEL_DISPATCH"),
            ("Profile", "BASE_PROFILE"),
            ("Float Round Mode", "NEAR"),
            ("Queue Type", "MULTI"),
            ("Node", node),
            ("Device Type", "GPU"),
        )
    )
    if cache:
        text += _row(1, "Cache Info") + _row(2, "L2", _hex(cache // 1024, " KB"))
    text += "".join(
        _row(1, *row)
        for row in (
            ("Chip ID", _hex(int(chip, 16)) if chip else None),
            ("Max Clock Freq. (MHz)", clock // 1000 if clock else None),
            ("BDFID", _bdfid(bus) if bus else None),
            ("Internal Node ID", node),
            ("Compute Unit", device.known("multi_processor_count")),
            ("Features", "KERNEL_DISPATCH"),
            ("Wavefront Size", _hex(device.known("warp_size"))),
            ("Workgroup Max Size", _hex(group)),
            ("Max Work-item Per CU", _hex(device.known("max_threads_per_multi_processor"))),
        )
    )
    text += _row(1, "Pool Info")
    if memory:
        text += _pool(1, "GLOBAL; FLAGS: COARSE GRAINED", memory // 1024, "TRUE")
    if shared:
        text += _pool(2 if memory else 1, "GROUP", shared // 1024, "FALSE")
    isa = device.known("gcn_arch_name") or device.known("arch")
    text += _row(1, "ISA Info") + _heading("ISA 1")
    return text + _row(3, "Name", f"amdgcn-amd-amdhsa--{isa}") + _row(3, "Machine Models", "HSA_MACHINE_MODEL_LARGE")


def _pool(number: int, segment: str, size: int, allocatable: str) -> str:
    head = _heading(f"Pool {number}")
    return head + _row(3, "Segment", segment) + _row(3, "Size", _hex(size, " KB")) + _row(3, "Allocatable", allocatable)


def _bdfid(bus: str) -> int:
    """Bus, device and function in one number."""
    _, number, rest = bus.split(":")
    slot, _, function = rest.partition(".")
    return int(number, 16) << 8 | int(slot, 16) << 3 | int(function)
