"""What accelerators this host really has, by the kernel's files and the vendors' tools. Opens no device."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TOOL_SECONDS = 20.0


@dataclass(frozen=True)
class Accelerators:
    """What there is of one vendor: the devices that a driver serves, and what was looked for in vain."""

    vendor: str
    platform: str
    devices: tuple[str, ...]
    missing: tuple[str, ...]


def look(root: Path = Path("/")) -> tuple[Accelerators, ...]:
    """The accelerators of the host whose file system begins at `root`; tools are those on PATH."""
    return _nvidia(root), _amd(root), _intel(root)


def _nvidia(root: Path) -> Accelerators:
    query = ("nvidia-smi", "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader")
    devices = [line.strip() for line in _lines(query) if line.count(",") == 2]
    if not devices:
        about = (root / "proc/driver/nvidia/gpus").glob("*/information")
        devices = [model for file in sorted(about) for model in _values(file, "Model:")]
    found = list((root / "dev").glob("nvidia[0-9]*"))
    return _accelerators(
        "NVIDIA", "cuda", devices, "0x10de", root, {"/dev/nvidia0": bool(found), "nvidia-smi": _has(query[0])}
    )


def _amd(root: Path) -> Accelerators:
    """Source of the arch: gfx_target_version of the amdkfd driver, major * 10000 + minor * 100 + stepping."""
    devices = []
    for file in sorted((root / "sys/class/kfd/kfd/topology/nodes").glob("*/properties")):
        for version in _values(file, "gfx_target_version "):
            number = int(version) if version.isdigit() else 0
            if number:  # a CPU's node says 0
                devices.append(f"gfx{number // 10000}{number // 100 % 100:x}{number % 100:x}")
    if not devices:
        devices = [line for line in _lines(("rocm_agent_enumerator",)) if line.startswith("gfx") and line != "gfx000"]
    marks = {"/dev/kfd": (root / "dev/kfd").exists(), "rocm_agent_enumerator": _has("rocm_agent_enumerator")}
    return _accelerators("AMD", "rocm", devices, "0x1002", root, marks)


def _intel(root: Path) -> Accelerators:
    listed = _parsed("\n".join(_lines(("xpu-smi", "discovery", "-j"))))
    entries = listed.get("device_list", []) if isinstance(listed, dict) else []
    devices = [str(entry.get("device_name", "unknown")) for entry in entries if isinstance(entry, dict)]
    nodes = [node for node in (root / "sys/class/drm").glob("renderD*") if _text(node / "device/vendor") == "0x8086"]
    if not devices:
        devices = [f"Intel GPU {_text(node / 'device/device')} (/dev/dri/{node.name})" for node in sorted(nodes)]
    return _accelerators(
        "Intel", "xpu", devices, "0x8086", root, {"/dev/dri/renderD*": bool(nodes), "xpu-smi": _has("xpu-smi")}
    )


def _accelerators(
    vendor: str, platform: str, devices: Iterable[str], pci: str, root: Path, marks: dict[str, bool]
) -> Accelerators:
    missing = [f"no {mark}" for mark, there in marks.items() if not there]
    cards = _cards(root, pci)
    if not cards:
        missing.append(f"no {vendor} card on the PCI bus")
    elif not (devices := tuple(devices)):
        missing.append(f"{cards} {vendor} card(s) on the PCI bus, which no driver serves")
    return Accelerators(vendor, platform, tuple(devices), tuple(missing))


def _cards(root: Path, vendor: str) -> int:
    """Display controllers (0x03) and processing accelerators (0x12). Source: base classes of the PCI ID database."""
    buses = (root / "sys/bus/pci/devices").glob("*")
    return sum(_text(card / "vendor") == vendor and _text(card / "class")[:4] in ("0x03", "0x12") for card in buses)


def _has(tool: str) -> bool:
    return shutil.which(tool) is not None


def _lines(command: tuple[str, ...]) -> list[str]:
    """What a vendor's tool prints; nothing if it is not there, fails or hangs."""
    program = shutil.which(command[0])
    if program is None:
        return []
    try:
        done = subprocess.run(
            [program, *command[1:]],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TOOL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []


def _values(file: Path, key: str) -> list[str]:
    return [line.removeprefix(key).strip() for line in _text(file).splitlines() if line.startswith(key)]


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
