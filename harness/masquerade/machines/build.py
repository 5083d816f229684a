"""Puts the facts of a sheet, and of all that it extends, into the shape of a Machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import cpu, placeholders
from .errors import MachineError, Problem
from .machine import Machine
from .schema import FIXED, GPU_PLATFORMS, REQUIRED, REQUIRED_OF_GPU, UNKNOWN, device_fields
from .sheet import Fact, Sheet

NOT_FOUND = "unknown: no public source was found for it"
_HEALTHY = "no file states a fault of this machine"
_UNSTATED = "this fault does not touch it"
_ALONE = "fewer than two devices: nothing lies between them"

Facts = Mapping[str, Fact]


def check_complete(sheet: Sheet, facts: Facts) -> list[Problem]:
    """What is missing once everything inherited is in, and what has no place on this platform."""
    platform = facts["platform"].value if "platform" in facts else None
    needed = REQUIRED + (REQUIRED_OF_GPU if platform in GPU_PLATFORMS and sheet.count != 0 else ())
    problems = [
        sheet.problem(f"{key}: missing; state it in a [[facts]] block, or extend a base that does")
        for key in needed
        if key not in facts or facts[key].value in (UNKNOWN, None)
    ]
    problems += _builds(sheet, facts, platform)
    if platform in GPU_PLATFORMS:
        fitting = device_fields(platform)
        for key, fact in facts.items():
            if key.startswith("device.") and key[len("device.") :] not in fitting:
                message = f"{key}: a device on {platform} has no such value; it belongs to xpu"
                problems.append(Problem(fact.origin, fact.line, message))
    return problems


def _builds(sheet: Sheet, facts: Facts, platform: object) -> list[Problem]:
    """A torch of another platform than the machine's: no build is for two."""
    own = {"cuda": "cuda", "rocm": "hip", "xpu": "xpu"}
    problems = []
    for of, name in own.items():
        fact = facts.get(f"torch.{name}")
        if fact is not None and fact.value is not None and of != platform and platform in (*GPU_PLATFORMS, "cpu"):
            message = f"torch.{name}: {fact.value!r} is a build for {of}, and the platform is {platform}"
            problems.append(sheet.problem(f"{message}; extend a base of {platform}, or name it in `none`"))
    return problems


def assemble(sheet: Sheet, facts: Facts, count: int | None = None, others: Sequence[Machine] = ()) -> Machine:
    """The machine of a sheet with `count` devices; its own number if None. Raises MachineError if facts are missing."""
    problems = check_complete(sheet, facts)
    if problems:
        raise MachineError(problems)
    return _Builder(sheet, facts, count, others).machine()


class _Builder:
    def __init__(self, sheet: Sheet, facts: Facts, count: int | None, others: Sequence[Machine]) -> None:
        self.sheet = sheet
        self.facts = facts
        self.platform: str = facts["platform"].value
        default = 1 if self.platform in GPU_PLATFORMS else 0
        self.count = next(number for number in (count, sheet.count, default) if number is not None)
        self.others = others
        self.sources: dict[str, str] = {}

    def take(self, key: str, as_key: str = "") -> Any:
        """The value of a key; its source is noted under `as_key`."""
        fact = self.facts.get(key, Fact(UNKNOWN, NOT_FOUND))
        self.sources[as_key or key] = fact.source
        return list(fact.value) if isinstance(fact.value, list) else fact.value

    def between(self, key: str) -> Any:
        """What holds between two devices: None where there are none."""
        if self.count < 2 and key not in self.facts:
            self.sources[key] = _ALONE
            return None
        return self.take(key)

    def section(self, name: str) -> dict[str, Any]:
        """The fixed leaves below a section, nested as their keys are."""
        tree: dict[str, Any] = {}
        for key in FIXED:
            if key.startswith(name + "."):
                *parents, leaf = key[len(name) + 1 :].split(".")
                place = tree
                for parent in parents:
                    place = place.setdefault(parent, {})
                place[leaf] = self.take(key)
        return tree

    def machine(self) -> Machine:
        platform, arch = self.take("platform"), self.take("arch")
        devices = [self.device(index) for index in range(self.count)]
        return Machine(
            id=self.sheet.id,
            platform=platform,
            arch=arch,
            summary=self.sheet.summary,
            aliases=self.sheet.aliases,
            torch=self.section("torch"),
            devices=tuple(devices),
            other_devices=tuple(self.other_devices()),
            interconnect=self.between("interconnect"),
            peer_access=self.between("peer_access"),
            driver=self.section("driver"),
            management=self.section("management"),
            packages={"present": {}, "absent": []},
            host=self.host(devices),
            fault=self.fault(),
            _sources=self.sources,
        )

    def device(self, index: int) -> dict[str, Any]:
        device = {name: self.take(f"device.{name}", f"devices.{index}.{name}") for name in device_fields(self.platform)}
        if isinstance(device["market_name"], str):
            device["market_name"] = device["market_name"].replace("{name}", device["name"])
        made = placeholders.identity(self.platform, self.sheet.id, index, device.get("device_id"))
        for name, value in made.items():
            if f"device.{name}" not in self.facts:
                device[name] = value
                self.sources[f"devices.{index}.{name}"] = placeholders.SOURCE
        return device

    def other_devices(self) -> list[dict[str, Any]]:
        devices: list[dict[str, Any]] = []
        for machine in self.others:
            sources = machine.sources()
            for index, device in enumerate(machine.devices):
                place = f"other_devices.{len(devices)}"
                self.sources |= {f"{place}.{name}": sources[f"devices.{index}.{name}"] for name in device}
                self.sources[f"{place}.vendor"] = f"the vendor of {machine.platform} devices"
                # In one host with the machine's own devices, so on a bus of its own.
                bus = placeholders.bus_id(self.count + len(devices))
                devices.append({**device, "pci_bus_id": bus, "vendor": _VENDORS[machine.platform]})
        return devices

    def host(self, devices: list[dict[str, Any]]) -> dict[str, Any]:
        host = self.section("host")
        for name in ("dev", "paths"):
            if host[name] != UNKNOWN:
                host[name] = placeholders.expand(host[name], self.count, devices)
        prefix = "host.env."
        host["env"] = {key[len(prefix) :]: self.take(key) for key in self.facts if key.startswith(prefix)}
        host["torch_cpu"] = self.torch_cpu(host)
        return {name: host[name] for name in _HOST}

    def torch_cpu(self, host: dict[str, Any]) -> dict[str, Any]:
        flags = None if host["cpu"]["flags"] == UNKNOWN else host["cpu"]["flags"]
        prefix = "host.torch_cpu._get_cpu_capability."
        stated = {key[len(prefix) :]: self.take(key) for key in self.facts if key.startswith(prefix)}
        answers = cpu.torch_answers(host["machine"], flags, stated)
        for name, value in answers.items():
            key = f"host.torch_cpu.{name}"
            if isinstance(value, dict):
                for capability in value:
                    self.sources.setdefault(f"{key}.{capability}", cpu.SOURCE)
            elif key in self.facts:
                answers[name] = self.take(key)
            else:
                self.sources[key] = NOT_FOUND if value == UNKNOWN else cpu.SOURCE
        return answers

    def fault(self) -> dict[str, Any] | None:
        if "fault.kind" not in self.facts:
            self.sources["fault"] = _HEALTHY
            return None
        fault: dict[str, Any] = {}
        for name in ("kind", "count", "count_warning", "init_error", "properties_error", "management_error"):
            if name == "init_error" and "fault.init_error.message" in self.facts:
                fault[name] = {leaf: self.take(f"fault.init_error.{leaf}") for leaf in ("type", "message")}
            elif f"fault.{name}" in self.facts:
                fault[name] = self.take(f"fault.{name}")
            else:
                fault[name] = None
                self.sources[f"fault.{name}"] = _UNSTATED
        return fault


_HOST = ("machine", "system", "cpu", "torch_cpu", "dev", "paths", "env", "tools")
_VENDORS = {"cuda": "nvidia", "rocm": "amd", "xpu": "intel"}
