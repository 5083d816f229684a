"""What a subject finds beside its own code, and how it is judged: settings of a configuration and of each contract."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

from masquerade.contracts import kinds
from masquerade.contracts.settings import Keys, setting
from masquerade.machines import Machine, default_owners, install, resolve
from masquerade.machines.owners import reassign
from masquerade.machines.schema import PLATFORMS
from masquerade.stage.check import Check
from masquerade.stage.record import Level, default_levels

#: Kinds that a contract must see whatever their level: they carry the end of a call.
_ENDS = ("call-mismatch", "route-mismatch")

Self = TypeVar("Self", bound="Conditions")
Env = Mapping[str, str | None]
Owners = Mapping[str, tuple[str, ...]]


def _united(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    return {**base, **own}


def _owners(base: Owners, own: Owners) -> Owners:
    return reassign(base, own.items())


def _stand_ins(base: Mapping[str, str], own: Mapping[str, str | None]) -> dict[str, str]:
    return {name: adapter for name, adapter in {**base, **own}.items() if adapter is not None}


def _platforms() -> tuple[Machine, ...]:
    return tuple(resolve(name) for name in PLATFORMS)


def with_packages(machine: Machine, present: Iterable[str], absent: Iterable[str]) -> Machine:
    """The machine with these packages present and absent; the machine here, which can have no others, as it is."""
    here, away = tuple(present), tuple(absent)
    return install(machine, here, away) if (here or away) and machine.platform != "here" else machine


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """Settings that the configuration gives for all contracts, and that a contract may give for itself.

    Of two lists the contract's own takes the place of the common one; of tables it adds to it.
    """

    machines: tuple[Machine, ...] = setting(
        kinds.some_of(kinds.machine), "Machines to run on. Without it: cuda, rocm, xpu and cpu.", _platforms
    )
    path: tuple[str, ...] = setting(
        kinds.list_of(kinds.folder), "Folders for the subject's sys.path. Without it: src, if it is there, and `.`.", ()
    )
    env: Env = setting(kinds.variables, "Environment variables of the subject; false unsets one.", dict, _united)
    owners: Owners = setting(
        kinds.owners,
        "Modules of one platform, which must not run on another. `any` gives a module to all platforms.",
        default_owners,
        _owners,
    )
    levels: Mapping[str, Level] = setting(
        kinds.levels, "How grave a kind of finding is: error, warn or off.", default_levels, _united
    )
    present: tuple[str, ...] = setting(kinds.list_of(kinds.module), "Optional packages that are installed.", ())
    absent: tuple[str, ...] = setting(kinds.list_of(kinds.module), "Packages that are not installed.", ())
    stand_ins: Mapping[str, str] = setting(
        kinds.stand_ins,
        "Modules that cannot load here, as compiled extensions, and are replaced: a list of them, whose names can be "
        "held and not called; or a table, where true beside a module says the same, text names a module of yours that "
        "is executed in its place, and false takes a common one away. A contract's own come on top of the common ones.",
        dict,
        _stand_ins,
        key="stand-ins",
    )
    timeout: float = setting(kinds.positive_seconds, "Seconds that a check may take; 60 without it.", 60.0)
    settle: float = setting(
        kinds.seconds, "Seconds that threads may take to end after an import or a call; 1 without it.", 1.0
    )

    def wrong(self) -> Iterator[tuple[Keys, str]]:
        """What does not fit together, as (keys, message)."""
        if both := sorted(set(self.present) & set(self.absent)):
            yield ("absent",), f"both present and absent: {', '.join(both)}"
        if both := sorted(set(self.stand_ins) & set(self.absent)):
            yield ("absent",), f"both replaced by a stand-in and absent: {', '.join(both)}"
        if any(machine.platform == "here" for machine in self.machines):
            if self.present or self.absent:
                yield ("machines",), "the machine here has the packages that are installed: none can be added or hidden"
            if self.stand_ins:
                yield ("machines",), "the machine here has its own modules: no stand-in can take the place of one"

    def variants(self) -> tuple[Machine, ...]:
        """The machines with the packages of these conditions, each once."""
        made = [with_packages(machine, self.present, self.absent) for machine in self.machines]
        return tuple({machine.id: machine for machine in made}.values())

    def amend(
        self: Self,
        path: Iterable[str] = (),
        env: Env = MappingProxyType({}),
        owners: Iterable[tuple[str, tuple[str, ...]]] = (),
        levels: Iterable[tuple[str, Level]] = (),
        present: Iterable[str] = (),
        absent: Iterable[str] = (),
        stand_ins: Mapping[str, str] = MappingProxyType({}),
        timeout: float | None = None,
    ) -> Self:
        """With these on top: folders come first, and of two words on one thing the later counts."""
        here, away = dict.fromkeys((*self.present, *present)), dict.fromkeys((*self.absent, *absent))
        return replace(
            self,
            path=tuple(dict.fromkeys((*path, *self.path))),
            env={**self.env, **env},
            owners=reassign(self.owners, owners),
            levels={**self.levels, **dict(levels)},
            present=tuple(name for name in here if name not in absent),
            absent=tuple(name for name in away if name not in present),
            stand_ins={**self.stand_ins, **stand_ins},
            timeout=timeout or self.timeout,
        )

    def names(self, machine: Machine) -> tuple[str, ...]:
        """What a contract may call one of its variants: with its packages, or as it stands in `machines`."""
        bare = [m.id for m in self.machines if machine.id.startswith(m.id)]
        return tuple(dict.fromkeys((machine.id, *sorted(bare, key=len, reverse=True)[:1])))

    def check(self, subject: str, machine: Machine, label: str, **more: Any) -> Check:
        """A check of `subject` under these conditions. `more` are further fields of it; its `env` goes on top."""
        return Check(
            subject=subject,
            machine=machine,
            label=label,
            owners=self.owners,
            path=self.path,
            stand_ins=self.stand_ins,
            env={**self.env, **more.pop("env", {})},
            timeout=self.timeout,
            settle=self.settle,
            levels={**self.levels, **dict.fromkeys(_ENDS, "error")} if ":" in subject else self.levels,
            **more,
        )
