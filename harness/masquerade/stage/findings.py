"""From what a child left in its log, and what the server saw of its end, to a record with findings."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from masquerade.machines.owners import told_missing
from masquerade.machines.packages import MANAGEMENT
from masquerade.stage.blame import (
    CommandPlaces,
    Frame,
    Places,
    actor,
    blamed,
    chain,
    frames,
    past_decorators,
    probe_name,
)
from masquerade.stage.launches import compiler_message, compiling, launches
from masquerade.stage.places import INNOCENT
from masquerade.stage.record import SEVERITY, Finding, Level, Line, Phase, Probe, Record, Touch, default_levels
from masquerade.stage.restored import without_restored
from masquerade.stage.torchs_build import without_torchs_build
from masquerade.watch.reads import unpacked

TOUCHES: tuple[Touch, ...] = ("clean", "queried", "fork-poison", "device-init")

#: Kinds that are judged while importing alone: a call may start processes and threads and load its own libraries.
IMPORT_ONLY = frozenset({"env-mutation", "subprocess", "thread", "native-load"})

#: The owner of what no platform may execute.
NOBODY = "nobody"


@dataclass(frozen=True)
class Context:
    """What a reply is judged against: which check it answers, on which machine, and where files lie."""

    id: str
    subject: str
    action: str
    machine: str
    platform: str
    timeout: float
    path: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    levels: Mapping[str, Level] = field(default_factory=default_levels)
    owners: Mapping[str, Sequence[str]] = field(default_factory=dict)


#: What the fields of an event, and of the exception in a closing record, must be. A child may write anything there.
_SHAPES = {
    **dict.fromkeys(("kind", "what", "phase", "level", "file", "module", "owner", "message", "raised"), str),
    **dict.fromkeys(("stack", "origin", "places", "at"), list),
    **dict.fromkeys(("facts", "probes"), dict),
}


def _shaped(text: str) -> dict[str, Any] | None:
    """The JSON object that `text` is, without the fields that are not what they must be; None if it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return _keep(found) if isinstance(found, dict) else None


def _keep(found: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if isinstance(value, _SHAPES.get(key, object))}


def parse(texts: Iterable[str]) -> tuple[list[dict[str, Any]], int]:
    """The events of a log, and how many rows were none."""
    rows = [_shaped(text) for text in texts]
    events = [row for row in rows if row is not None and "kind" in row and "what" in row]
    return events, len(rows) - len(events)


class Judge:
    """Turns one reply into findings."""

    def __init__(self, context: Context, reply: Mapping[str, Any]) -> None:
        self.context, self.reply = context, reply
        events, self.bad = parse(reply.get("events") or ())
        self.events = without_restored(events)
        self.closing = self._closing()
        self.places = self._places()
        self.events = without_torchs_build(self.events, self.places)
        self.foreign = {event.get("file") for event in self.events if event["kind"] == "forbidden-import"}
        #: Files of foreign modules whose code touched a device.
        self.touching = {
            file
            for event in self.events
            if event["kind"] == "touch" and event.get("level") in ("device-init", "fork-poison")
            for file in self._foreign_files(event)
        }

    def _closing(self) -> dict[str, Any] | None:
        text = self.reply.get("closing")
        return _shaped(text) if text else None

    def _places(self) -> Places:
        facts = self.context.facts
        subject: tuple[str, ...] = ()
        for event in self.events:
            if event["kind"] == "subject":
                subject = tuple(place for place in event.get("places", ()) if isinstance(place, str))
                break
        path = (*self.context.path, *facts.get("path", ()))
        kind = CommandPlaces if self.context.action == "run" else Places
        torch, stdlib = tuple(facts.get("torch_folders", ())), tuple(facts.get("stdlib", ()))
        return kind(subject, path, torch, stdlib, facts.get("python", ""))

    def record(self) -> Record:
        findings = [*self._from_events()]
        findings += [finding for finding in self._from_end() if not self._told(finding, findings)]
        if self.reply.get("full") and not findings:
            why = "more happened than the log holds: this is not called clean"
            findings = [self._abrupt("crash", "event log full", why)]
        closing = self.closing or {}
        order = {kind: place for place, kind in enumerate(SEVERITY)}
        findings.sort(key=lambda finding: order.get(finding.kind, 99))
        levels = self.context.levels
        return Record(
            id=self.context.id,
            subject=self.context.subject,
            action=self.context.action,  # type: ignore[arg-type]
            machine=self.context.machine,
            platform=self.context.platform,
            findings=tuple(finding for finding in findings if levels.get(finding.kind, "error") != "off"),
            seconds=float(self.reply.get("seconds", 0.0)),
            result=closing.get("result"),
            touch=self._touch(),
            output=str(self.reply.get("output", "")),
            notes=tuple(self._notes()),
            levels=dict(levels),
            launches=launches(self.events, self.places),
            place=self._place(closing.get("place")),
            probes=self._probes(),
            stand_ins=self._stand_ins(),
            private_bytes=private if isinstance(private := closing.get("private_bytes"), int) else None,
            reads=(unpacked(closing["reads"]),) if "reads" in closing else None,
        )

    def _notes(self) -> Iterable[str]:
        lost = self.bad + int(self.reply.get("damaged") or 0)
        if lost:
            yield f"{lost} rows of the event log were spoilt"
        if self.reply.get("full"):
            yield "the event log was full: later events are missing"
        yield from self.reply.get("notes") or ()
        alive = (self.closing or {}).get("threads")
        if isinstance(alive, int) and alive > 0:
            yield f"{alive} thread{'s' if alive > 1 else ''} still ran when the check ended"

    def _touch(self) -> Touch:
        levels = [event.get("level") for event in self.events if event["kind"] == "touch"]
        return max((level for level in TOUCHES if level in levels), key=TOUCHES.index, default="clean")

    def _place(self, place: Any) -> Line | None:
        if isinstance(place, list) and len(place) == 2 and isinstance(place[0], str) and isinstance(place[1], int):
            return self.places.line(Frame(place[0], past_decorators(*place), "", ""))
        return None

    def _probes(self) -> dict[str, Probe]:
        """The counted functions; none where the count never began."""
        counts = (self.closing or {}).get("probes")
        callers: dict[str, dict[Line, None]] = {}
        for event in self.events:
            frame = blamed(frames(event.get("stack") or ()), self.places) if event["kind"] == "probe" else None
            if frame is not None:
                callers.setdefault(event["what"], {})[self.places.line(frame)] = None
        return {
            name: Probe(count, tuple(callers.get(name, ())))
            for name, count in (counts.items() if isinstance(counts, dict) else ())
            if isinstance(count, int)
        }

    def _stand_ins(self) -> tuple[str, ...]:
        """The stand-ins that were executed; of a package and what lies below it the package.

        A management library that torch itself asks is nothing that the subject relies on.
        """
        names = {
            event["what"]
            for event in self.events
            if event["kind"] == "stand-in"
            and not (event["what"] in MANAGEMENT and actor(frames(event.get("stack") or ()), self.places) == "torch")
        }
        return tuple(sorted(name for name in names if not any(name.startswith(f"{other}.") for other in names)))

    def _finding(self, kind: str, what: str, event: Mapping[str, Any], message: str = "") -> Finding:
        stack = self.places.outer(frames(event.get("stack") or ()))
        origin = self.places.outer(frames(event.get("origin") or ()))
        frame = blamed(stack, self.places) or blamed(origin, self.places)
        whole = (*origin, *stack)
        return Finding(
            kind=kind,
            what=what[:300],
            phase=self._phase_of(event),
            blame=self.places.line(frame) if frame else None,
            chain=chain(whole, self.places),
            stack=tuple(f"{self.places.relative(f.file)}:{f.line} in {f.function}" for f in whole),
            message=message,
        )

    def _phase_of(self, event: Mapping[str, Any]) -> Phase:
        """Import or call. Exit functions run after the call of a check that has one."""
        phase = event.get("phase")
        return "call" if phase == "call" or (phase == "exit" and self.context.action == "call") else "import"

    def _foreign_files(self, event: Mapping[str, Any]) -> set[str]:
        return {frame.file for frame in frames(event.get("stack") or ()) if frame.file in self.foreign}

    def _inside_foreign(self, event: Mapping[str, Any]) -> bool:
        """Whether a touch is a foreign module's doing: then the import of that module is the fault, and mends both."""
        return bool(self._foreign_files(event))

    def _own(self, probe: str) -> bool:
        """Whether a device call belongs to the platform of the machine."""
        platform = self.context.platform
        if platform == "here":
            return True
        if "xpu" in probe:
            return platform == "xpu"
        if "cuda" in probe:
            return platform in ("cuda", "rocm")
        return platform != "cpu"

    def _from_events(self) -> list[Finding]:
        found: dict[tuple[str, str, str, str], Finding] = {}
        for event in self.events:
            finding = self._judge(event)
            if finding is None:
                continue
            touch = finding.kind in ("device-init", "fork-poison")
            key = ("touch" if touch else finding.kind, finding.what, str(finding.blame), finding.phase)
            known = found.get(key)
            if known is None or SEVERITY.index(finding.kind) < SEVERITY.index(known.kind):
                found[key] = finding
        return list(found.values())

    def _judge(self, event: Mapping[str, Any]) -> Finding | None:
        kind, what = event["kind"], event["what"]
        if kind == "touch":
            level = event.get("level")
            if level not in ("device-init", "fork-poison"):
                return None
            if self._phase_of(event) == "call" and self._own(what):
                return None
            if self._inside_foreign(event):
                return None
            return self._finding(level, probe_name(frames(event.get("stack") or ()), self.places, what), event)
        if kind not in SEVERITY:
            return None
        if kind in IMPORT_ONLY:
            if self._phase_of(event) == "call":
                return None
            doer = actor(frames(event.get("stack") or ()), self.places)
            if doer == "torch" or (doer in INNOCENT and kind == "subprocess"):
                return None
        message = ""
        if kind == "forbidden-import":
            owner = event.get("owner", "?")
            message = f"{event.get('module', what)} was executed"
            message += f"; it belongs to {owner}" if owner != NOBODY else ", which is forbidden here"
            if event.get("file") in self.touching:
                message += ", and it touches a device"
            if self.context.action == "import" and event.get("module") == self.context.subject:
                message += f"; it is what this check imports: leave it out where it is not {owner}'s"
        if event.get("pruned") is True:
            return None
        if kind == "compile-error":
            message = compiler_message(event, str(self.reply.get("output", "")))
        if kind in ("out-of-resources", "subprocess"):
            message = str(event.get("message", ""))
        return self._finding(kind, what, event, message)

    def _from_end(self) -> list[Finding]:
        """What the end of the process says: an exception, an exit, a signal, the time limit."""
        closing, reply = self.closing, self.reply
        if closing is not None:
            error = closing.get("error")
            if closing.get("ok") is True:
                return []
            if isinstance(error, dict):
                return [self._exception(closing, _keep(error))]
        if reply.get("timed_out"):
            slow = compiling(self.events)
            why = f"the time limit was over while {slow['what']} was compiled" if slow else "the time limit was over"
            return [self._abrupt("timeout", f"{self.context.timeout:g} s", why)]
        status = int(reply.get("exit", 0))
        if status < 0:
            return [self._abrupt("crash", _signal_name(-status), f"ended by signal {-status}")]
        return [self._abrupt("exit", f"status {status}", "the process was ended before the import was done")]

    def _told(self, end: Finding, findings: list[Finding]) -> bool:
        """Whether an exception that ended the check was told already, as a kernel that does not compile or fit."""
        return end.kind in ("call-mismatch", "import-error") and any(
            event.get("raised") == end.what and (finding.kind, finding.what) == (event["kind"], event["what"])
            for event in self.events
            if event["kind"] in ("compile-error", "out-of-resources")
            for finding in findings
            if finding.blame == end.blame
        )

    def _exception(self, closing: Mapping[str, Any], error: Mapping[str, Any]) -> Finding:
        name = str(error.get("type", "?"))
        phase: Phase = "call" if closing.get("phase") == "call" else "import"
        kind = "exit" if closing.get("exit") else "call-mismatch" if phase == "call" else "import-error"
        message = str(error.get("message", ""))
        missing = ""
        if name == "ModuleNotFoundError":
            module = str(error.get("name") or "")
            if says := told_missing(module, self.context.owners, "--present {}"):
                missing, message = module, f"{message}; {says}"
        during = closing.get("during")
        if isinstance(during, str) and during:
            name, message = during, f"{name}: {message}"
        event = {"stack": error.get("stack"), "phase": phase}
        finding = replace(self._finding(kind, name, event, message), missing=missing)
        at = error.get("at")
        if isinstance(at, list) and len(at) == 2 and isinstance(at[0], str) and isinstance(at[1], int) and at[1]:
            line = self.places.line(Frame(at[0], at[1], "", ""))
            if self.places.in_subject(at[0]):
                finding = _with(finding, line)
        return finding

    def _abrupt(self, kind: str, what: str, message: str) -> Finding:
        """A finding without an exception. Its blame is the last known line: an event just before, or a dumped stack."""
        left = [event for event in self.events if event["kind"] == "leaving" and not event.get("forked")]
        rows = dumped_stack(str(self.reply.get("output", "")))
        last: Mapping[str, Any] = {"stack": rows} if rows or not left else left[-1]
        words = [line for line in str(self.reply.get("output", "")).splitlines() if line.strip()]
        text = f"{message}; last words: {words[-1][:200]}" if words and kind == "exit" else message
        return self._finding(kind, what, {**last, "phase": self._phase()}, text)

    def _phase(self) -> Phase:
        return "call" if any(event.get("phase") == "call" for event in self.events) else "import"


def _with(finding: Finding, line: Line) -> Finding:
    return replace(finding, blame=line, chain=(*finding.chain, line))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def dumped_stack(output: str) -> list[list[Any]]:
    """The stack that faulthandler wrote at the end of `output`, as rows of the log; [] without one."""
    rows: list[list[Any]] = []
    for line in output.splitlines():
        if "(most recent call first)" in line:
            rows = []
            continue
        match = re.fullmatch(r'  File "(.+)", line (\d+) in (.+)', line)
        if match:
            module = os.path.splitext(os.path.basename(match[1]))[0]
            rows.append([match[1], int(match[2]), match[3], module])
    return [row for row in reversed(rows) if not row[0].startswith("<frozen")]


def judge(context: Context, reply: Mapping[str, Any]) -> Record:
    """The record of one check. `reply` is the server's frame; nothing in it is trusted to be well formed."""
    return Judge(context, reply).record()
