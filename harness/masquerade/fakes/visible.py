"""Which devices the drivers show under CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES, ZE_AFFINITY_MASK and their like."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class HasValues(Protocol):
    """A device, as far as the variables can name it."""

    def known(self, key: str, default: Any = None) -> Any: ...


def indices(platform: str, devices: Sequence[HasValues], environ: Mapping[str, str]) -> list[int]:
    """Places in `devices` that the driver of `platform` shows, in its order."""
    if platform == "cuda":
        return _cuda(devices, environ)
    if platform == "rocm":
        return _hip(devices, environ)
    if platform == "xpu":
        return _level_zero(devices, environ)
    return list(range(len(devices)))


def _cuda(devices: Sequence[HasValues], environ: Mapping[str, str]) -> list[int]:
    """The CUDA driver. Sources: CUDA Programming Guide, section 5.2; torch.cuda._parse_visible_devices."""
    order = list(range(len(devices)))
    if environ.get("CUDA_DEVICE_ORDER", "").upper() == "PCI_BUS_ID":
        order.sort(key=lambda index: str(devices[index].known("pci_bus_id", "")).lower())
    text = environ.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return order
    shown = _named_by(text, order, devices)
    return shown if len(set(shown)) == len(shown) else []  # a device named twice leaves none


def names_one_twice(devices: Sequence[HasValues], environ: Mapping[str, str]) -> bool:
    """Whether CUDA_VISIBLE_DEVICES names a device twice, which CUDA's runtime calls an invalid device ordinal."""
    shown = _named_by(environ.get("CUDA_VISIBLE_DEVICES", ""), list(range(len(devices))), devices)
    return len(set(shown)) < len(shown)


def _named_by(text: str, order: list[int], devices: Sequence[HasValues]) -> list[int]:
    """The devices that CUDA_VISIBLE_DEVICES names, as often as it does."""
    prefix = next((p for p in ("GPU-", "MIG-") if text.startswith(p)), "")
    shown: list[int] = []
    for token in text.split(","):
        if prefix:
            place = _one_with_prefix(token.strip(), [str(devices[i].known("uuid", "")) for i in order], prefix)
        else:
            place = _leading_number(token.strip())
        if not 0 <= place < len(order):
            break  # what stands right of an invalid entry is not looked at
        shown.append(order[place])
    return shown


def _one_with_prefix(token: str, uuids: list[str], prefix: str) -> int:
    # `GPU-` alone names none: so the driver on an H200, while torch's own count over NVML takes it for one.
    named = token.startswith(prefix) and token != prefix
    found = [index for index, uuid in enumerate(uuids) if uuid.startswith(token)] if named else []
    return found[0] if len(found) == 1 else -1


def _leading_number(token: str) -> int:
    """What strtol reads: `1gpu2` is 1; -1 where there is no number."""
    match = re.match(r"[+-]?[0-9]+", token)
    return int(match.group()) if match else -1


def _hip(devices: Sequence[HasValues], environ: Mapping[str, str]) -> list[int]:
    """HIP over ROCr. Source: ROCm/clr rocclr/device/rocm/rocdevice.cpp, Device::init.

    An empty HIP_VISIBLE_DEVICES counts as unset, and CUDA_VISIBLE_DEVICES is read in its place.
    """
    agents = _rocr(devices, environ)
    text = environ.get("HIP_VISIBLE_DEVICES") or environ.get("CUDA_VISIBLE_DEVICES") or ""
    if not text:
        return agents
    shown: list[int] = []
    for token in text.split(","):
        if "GPU-" in token:
            matching = [place for place, index in enumerate(agents) if token in _rocr_uuid(devices[index])]
            token = str(matching[0]) if matching else token
        if not re.fullmatch(r"0|[1-9][0-9]*", token) or int(token) >= len(agents):
            break
        if agents[int(token)] not in shown:
            shown.append(agents[int(token)])
    return shown


def _rocr(devices: Sequence[HasValues], environ: Mapping[str, str]) -> list[int]:
    """ROCr, below HIP. Source: ROCm/ROCR-Runtime core/runtime/amd_filter_device.cpp. Set and empty shows no device."""
    text = environ.get("ROCR_VISIBLE_DEVICES")
    if text is None:
        return list(range(len(devices)))
    uuids = [_rocr_uuid(device).upper() for device in devices]
    shown: list[int] = []
    for token in (part.strip().upper() for part in text.split(",")[: len(devices)]):
        if token.startswith("G"):
            place = _one_with_prefix(token, uuids, "GPU-") if 5 <= len(token) <= 20 else -1
        else:
            place = _number(token)
        if not 0 <= place < len(devices) or place in shown:
            break  # here a repeated device ends the list
        shown.append(place)
    return shown


def _rocr_uuid(device: HasValues) -> str:
    """`GPU-` and sixteen hexadecimal digits: the unique id, which is the asic serial number."""
    serial = device.known("serial")
    if isinstance(serial, str) and serial:
        digits = serial.lower()
        return "GPU-" + (digits[2:] if digits.startswith("0x") else digits).rjust(16, "0")
    uuid = str(device.known("uuid", ""))
    return uuid if uuid.startswith("GPU-") else ""


def _number(token: str) -> int:
    """strtol with base 0, of the whole token; -1 for anything else."""
    try:
        return int(token, 8) if re.fullmatch(r"0[0-7]+", token) else int(token, 0)
    except ValueError:
        return -1


def _level_zero(devices: Sequence[HasValues], environ: Mapping[str, str]) -> list[int]:
    """Level Zero, then SYCL on top of it: both filter and keep the driver's order."""
    shown = _affinity(len(devices), environ)
    selector = environ.get("ONEAPI_DEVICE_SELECTOR", "")
    if not selector.strip():
        return shown
    kept = _selected(selector, len(shown))
    return [index for place, index in enumerate(shown) if place in kept]


def _affinity(count: int, environ: Mapping[str, str]) -> list[int]:
    """ZE_AFFINITY_MASK. Source: intel/compute-runtime ExecutionEnvironment::parseAffinityMask.

    Entries out of range are skipped. `0.1` names a tile: with tiles shown as devices (FLAT, the default) it is skipped,
    with ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE it keeps its card.
    """
    text = environ.get("ZE_AFFINITY_MASK", "")
    if text in ("", "default"):
        return list(range(count))
    composite = environ.get("ZE_FLAT_DEVICE_HIERARCHY") == "COMPOSITE"
    named = {_leading_number(entry.split(".")[0].strip()) for entry in text.split(",") if composite or "." not in entry}
    return [index for index in range(count) if index in named]


def _selected(selector: str, count: int) -> set[int]:
    """ONEAPI_DEVICE_SELECTOR over `count` Level Zero GPUs. Source: intel/llvm sycl/doc/EnvironmentVariables.md."""
    terms = [term.strip() for term in selector.split(";") if term.strip()]
    accepted: set[int] = set()
    discarded: set[int] = set()
    if all(term.startswith("!") for term in terms):
        accepted = set(range(count))
    for term in terms:
        backend, colon, names = term.lstrip("!").partition(":")
        if not colon or not names or ":" in names:
            why = "Too many colons (:)" if ":" in names else f"Incomplete selector! Try '{backend}:*' instead."
            raise RuntimeError(f'Error parsing selector string "{selector}"  {why}')
        if backend.strip().lower() in ("*", "level_zero"):
            (discarded if term.startswith("!") else accepted).update(_named(names, count))
    return accepted - discarded


def _named(names: str, count: int) -> set[int]:
    found: set[int] = set()
    for name in (part.strip().lower() for part in names.split(",")):
        if name in ("*", "gpu"):
            found.update(range(count))
        elif name.isdigit() and int(name) < count:
            found.add(int(name))
    return found
