"""The faked machines answer like the recorded ones: every probe, on the release of torch of the recording."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .agreement import differences, level
from .recorder.probes import load
from .recordings import FOLDER, Recording, exceptions, recordings
from .replay import Replay, installed, replay

#: The interpreter whose torch wears the fakes.
PYTHON = os.environ.get("MASQUERADE_TEST_PYTHON", sys.executable)

ALL = recordings()

#: The part of a recording's probes that may differ, each for a reason.
SHARE = 0.03


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "recording" not in metafunc.fixturenames:
        return
    worlds = metafunc.config.getoption("world")
    chosen = [recording for recording in ALL if recording.machine.platform in worlds]
    if "probe" in metafunc.fixturenames:
        listed = {probe.id for probe in load()}
        rows = [(recording, probe) for recording in chosen for probe in recording.asked if probe in listed]
        metafunc.parametrize(("recording", "probe"), rows, ids=[f"{found.name}: {probe}" for found, probe in rows])
    else:
        metafunc.parametrize("recording", chosen, ids=[recording.name for recording in chosen])


Ask = Callable[[Recording], Replay]


@pytest.fixture(scope="module")
def ask(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """The faked machine's answers to the probes that were chosen; asked once."""
    told: dict[str, Replay] = {}
    wanted: dict[str, list[str]] = {}
    for item in request.session.items:
        found = getattr(item, "callspec", None)
        if found is not None and "probe" in found.params and item.path == Path(__file__):
            wanted.setdefault(found.params["recording"].name, []).append(found.params["probe"])

    def ask(recording: Recording) -> Replay:
        if recording.name not in told:
            folder = tmp_path_factory.mktemp(recording.machine.id)
            told[recording.name] = replay(recording.machine, PYTHON, wanted[recording.name], folder)
        return told[recording.name]

    return ask


@pytest.fixture(scope="module")
def beside() -> Callable[[str], str | None]:
    """The release of a package beside the interpreter that wears the fakes."""
    known: dict[str, str | None] = {}
    return lambda package: known.setdefault(package, installed(PYTHON, package))


def test_the_fake_answers_as_the_machine(
    recording: Recording, probe: str, ask: Ask, beside: Callable[[str], str | None]
) -> None:
    for package in ("torch", "triton") if recording.asked[probe]["group"] == "Triton" else ("torch",):
        if beside(package) != recording.version(package):
            pytest.skip(f"recorded with {package} {recording.version(package)}; {package} {beside(package)} is here")
    told = ask(recording)
    found = list(differences(recording.asked[probe], told.rows[probe], told.touch.get(probe)))
    reason = recording.exceptions.get(probe)
    if found and reason:
        pytest.xfail(f"{reason} ({'; '.join(found)})")
    assert not found, "\n".join(found)
    assert not reason, "it agrees: take it out of exceptions.toml"


def test_exceptions_are_few(recording: Recording) -> None:
    assert set(recording.exceptions) <= set(recording.asked), "an exception for a probe that was not recorded"
    assert all(reason.strip() for reason in recording.exceptions.values())
    assert len(recording.exceptions) <= SHARE * len(recording.asked)


def test_exceptions_are_of_recordings() -> None:
    assert set(exceptions()) <= {recording.name for recording in ALL}


def test_a_recording_is_whole(recording: Recording) -> None:
    """Made of this list of probes by a recorder that sees: nothing was reached at its start, and a device by init."""
    assert not [id for id, row in recording.asked.items() if "unfinished" in row]
    assert len(recording.asked) >= 120 and len(recording.asked) >= 0.9 * _applicable(recording)
    assert {level({**row, "steps": [], "child": ""}) for row in recording.asked.values()} == {"clean"}
    assert level(recording.asked["None"]) == "clean"
    if recording.document["platform"] in ("cuda", "rocm"):
        assert level(recording.asked["torch.cuda.init()"]) in ("fork-poison", "device-init")


def _applicable(recording: Recording) -> int:
    return sum(recording.document["platform"] in probe.platforms for probe in load())


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.json")), ids=lambda file: file.stem)
def test_a_recording_names_nobody(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    uuids = set(re.findall(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", text))
    assert uuids <= {"00000000-0000-0000-0000-000000000000"}  # that of a probe which names no card
    assert not re.findall(r"\b[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d|/home/|/root/|/Users/", text)


def test_the_list_is_long() -> None:
    assert len(load()) >= 120
