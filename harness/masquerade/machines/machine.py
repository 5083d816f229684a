"""A machine: what a host with certain devices would answer, and who says so."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_SHAPE = ("torch", "devices", "other_devices", "interconnect", "peer_access",
          "driver", "management", "packages", "host", "fault")  # fmt: skip


@dataclass(frozen=True, eq=True)
class Machine:
    """What one machine answers. Sizes are bytes, clock rates kHz, bus widths bits, power limits watts.

    Any leaf may be the text "unknown": nobody has read it off such a machine. None means that it does not exist there.
    `platform` is cuda, rocm, xpu, cpu or here; `arch` is sm_90, gfx950, bmg, x86_64 and the like.
    """

    id: str
    platform: str
    arch: str = ""
    summary: str = ""
    aliases: tuple[str, ...] = ()
    torch: Mapping[str, Any] = field(default_factory=dict)
    devices: tuple[Mapping[str, Any], ...] = ()
    other_devices: tuple[Mapping[str, Any], ...] = ()
    interconnect: str | None = None
    peer_access: bool | str | None = None
    driver: Mapping[str, Any] = field(default_factory=dict)
    management: Mapping[str, str] = field(default_factory=dict)
    packages: Mapping[str, Any] = field(default_factory=dict)
    host: Mapping[str, Any] = field(default_factory=dict)
    fault: Mapping[str, Any] | None = None
    _sources: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    def __hash__(self) -> int:
        return hash((self.id, self.platform))

    def to_json(self) -> dict[str, Any]:
        """The machine as the child sees it: plain JSON, a fresh copy each time (docs/architecture.md has the shape)."""
        if self.platform == "here":
            return {"id": self.id, "platform": self.platform}
        shape: dict[str, Any] = {"id": self.id, "platform": self.platform, "arch": self.arch}
        for name in _SHAPE:
            value = copy.deepcopy(getattr(self, name))
            shape[name] = list(value) if isinstance(value, tuple) else value
        return shape

    def sources(self) -> dict[str, str]:
        """Where each leaf of the JSON was read: dotted key (`devices.0.total_memory`) -> a readable source."""
        return dict(self._sources)


#: The machine that one has: no fake is installed, only the watchers.
HERE = Machine(id="here", platform="here", summary="the machine that this runs on: no fakes, only watchers")
