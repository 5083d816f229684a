"""The marks cuda, rocm, xpu and cpu: which tests run here, which are skipped and why, which must not be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pytest

from masquerade.pytest_plugin.conditions import PLATFORMS, Condition, parse
from masquerade.pytest_plugin.here import hardware

_FAILS: pytest.StashKey[str] = pytest.StashKey()


@dataclass(frozen=True)
class Need:
    """What a test needs of one platform: for each mark, one of its conditions; a bare mark takes any device."""

    platform: str
    marks: tuple[tuple[Condition, ...], ...]

    def met_by(self, archs: Iterable[str]) -> bool:
        archs = frozenset(archs)
        return all(any(condition.accepts(archs) for condition in mark) for mark in self.marks if mark)

    @property
    def everywhere(self) -> bool:
        """Whether every host meets it."""
        return self.platform == "cpu" and not any(self.marks)

    def met(self) -> bool:
        return any(self.met_by(device.archs) for device in hardware(self.platform).devices)

    def __str__(self) -> str:
        told = " and ".join(" or ".join(map(str, mark)) for mark in self.marks if mark)
        return f"{self.platform} {told}".strip()


def _needs(item: pytest.Item) -> tuple[list[Need], list[str]]:
    """What a test needs, one of these platforms; and what is wrong with its marks."""
    marks: dict[str, list[tuple[Condition, ...]]] = {}
    problems = []
    for mark in item.iter_markers():
        if mark.name not in PLATFORMS:
            continue
        row = []
        for text in mark.args:
            try:
                row.append(parse(mark.name, text))
            except ValueError as error:
                problems.append(f"{item.nodeid}: @pytest.mark.{mark.name}: {error}")
        problems += [
            f"{item.nodeid}: @pytest.mark.{mark.name} takes no keyword {key!r}; it takes archs alone"
            for key in mark.kwargs
        ]
        marks.setdefault(mark.name, []).append(tuple(row))
    return [Need(platform, tuple(rows)) for platform, rows in marks.items()], problems


@dataclass(frozen=True)
class Required:
    """One --require-hardware: a platform, and the arch of the agent where one is named."""

    platform: str
    arch: str = ""

    def asks_for(self, need: Need) -> bool:
        return need.platform == self.platform and (not self.arch or need.met_by({self.arch}))

    def __str__(self) -> str:
        return f"--require-hardware {self.platform}{f':{self.arch}' if self.arch else ''}"


def _required(texts: Sequence[str]) -> list[Required]:
    """Raises pytest.UsageError for a platform or arch that is none."""
    out = []
    for text in texts:
        platform, colon, arch = text.partition(":")
        if platform not in PLATFORMS:
            known = ", ".join(PLATFORMS)
            raise pytest.UsageError(f"--require-hardware {text}: no platform {platform!r}; it is one of {known}")
        try:
            if colon and parse(platform, arch).upwards:
                raise ValueError(f"{arch!r} is no one arch; name that of this machine")
        except ValueError as error:
            raise pytest.UsageError(f"--require-hardware {text}: {error}") from None
        out.append(Required(platform, arch))
    return out


def apply(items: Sequence[pytest.Item], required: Sequence[str]) -> None:
    """Skip the tests whose hardware is not here, or mark them to fail; those that need any are marked `hardware`.

    Raises pytest.UsageError for wrong marks.
    """
    asked, problems = _required(required), []
    for item in items:
        needs, wrong = _needs(item)
        problems += wrong
        if needs and not any(need.everywhere for need in needs):
            item.add_marker(pytest.mark.hardware)
        if wrong or not needs or any(need.met() for need in needs):
            continue
        reason = f"needs {' or '.join(map(str, needs))}; here: " + "; ".join(
            f"{need.platform} {hardware(need.platform)}" for need in needs
        )
        asking = next((each for each in asked if any(each.asks_for(need) for need in needs)), None)
        if asking is None:
            item.add_marker(pytest.mark.skip(reason=reason))
        else:
            item.stash[_FAILS] = f"{reason}\n{asking} was given, so this test may not be skipped"
    if problems:
        raise pytest.UsageError("\n".join(dict.fromkeys(problems)))


def something_selected(items: Sequence[pytest.Item], required: Sequence[str]) -> None:
    """Raises pytest.UsageError where no selected test is for a required hardware: such a run would prove nothing."""
    for each in _required(required):
        if not any(each.asks_for(need) for item in items for need in _needs(item)[0]):
            raise pytest.UsageError(f"{each}: no selected test is marked for it, so nothing would run on that hardware")


def fail_if_required(item: pytest.Item) -> None:
    """Fail a test that would be skipped if its hardware were not required."""
    if _FAILS in item.stash:
        pytest.fail(item.stash[_FAILS], pytrace=False)
