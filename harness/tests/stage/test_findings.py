"""From a child's events to findings. Nothing that a child left is trusted to be well formed."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from masquerade.stage.findings import Context, dumped_stack, judge
from masquerade.stage.record import SEVERITY, Record, default_levels

FACTS = {"torch_folders": ["/site/torch"], "stdlib": ["/lib/python3.11"], "path": ["/site"]}
CONTEXT = Context("import:pkg.a@h100", "pkg.a", "import", "h100", "cuda", 5.0, ("/app",), FACTS)
SUBJECT = {"kind": "subject", "what": "pkg.a", "places": ["/app/pkg"]}
MINE = ["/app/pkg/a.py", 3, "<module>", "pkg.a"]
TORCH = ["/site/torch/cuda/__init__.py", 9, "current_device", "torch.cuda"]
DONE = {"ok": True, "result": None}


def event(kind: str, what: str, *stack: Any, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "what": what, "phase": "import", "stack": list(stack) or [MINE], **more}


def touch(
    level: str = "device-init", what: str = "torch._C._cuda_getDevice", *stack: Any, **more: Any
) -> dict[str, Any]:
    return event("touch", what, *(stack or (MINE, TORCH)), level=level, **more)


def record(*events: Any, closing: Any = DONE, context: Context = CONTEXT, **reply: Any) -> Record:
    rows = [row if isinstance(row, str) else json.dumps(row) for row in (SUBJECT, *events)]
    told = closing if isinstance(closing, str) or closing is None else json.dumps(closing)
    return judge(context, {"events": rows, "closing": told, "exit": 0, **reply})


def kinds(made: Record) -> list[tuple[str, str]]:
    return [(finding.kind, finding.what) for finding in made.findings]


def on(platform: str) -> Context:
    return dataclasses.replace(CONTEXT, platform=platform)


def test_nothing_happened() -> None:
    made = record()
    assert (made.verdict, made.findings, made.touch, made.notes) == ("ok", (), "clean", ())


def test_a_child_without_a_closing_record_is_never_ok() -> None:
    for closing in (None, "", "{", "[]", "3", "[" * 100_000):
        assert record(closing=closing).verdict == "exit", closing
        assert record(closing=closing, exit=-9).worst.what == "SIGKILL"
        assert record(closing=closing, exit=-9, timed_out=True).worst.what == "5 s"


def test_a_touch_is_named_by_the_function_of_torch_and_blamed_in_the_subject() -> None:
    made = record(touch())
    (finding,) = made.findings
    assert (finding.kind, finding.what) == ("device-init", "torch.cuda.current_device")
    assert str(finding.blame) == "pkg/a.py:3"
    assert made.touch == "device-init"


def test_queries_are_told_as_a_level_and_are_no_finding() -> None:
    made = record(touch("queried"), touch("clean"))
    assert (made.verdict, made.touch) == ("ok", "queried")


def test_one_line_that_poisons_and_opens_is_one_finding_the_graver() -> None:
    assert kinds(record(touch("fork-poison"), touch("device-init"), touch("fork-poison"))) == [
        ("device-init", "torch.cuda.current_device")
    ]


@pytest.mark.parametrize(
    "platform, probe, fine",
    [
        ("cuda", "torch.cuda._lazy_init", True),
        ("rocm", "torch.cuda._lazy_init", True),
        ("xpu", "torch.cuda._lazy_init", False),
        ("cpu", "torch.cuda._lazy_init", False),
        ("xpu", "torch.xpu._lazy_init", True),
        ("cuda", "torch.xpu._lazy_init", False),
        ("cuda", "torch._C._accelerator_getDeviceIndex", True),
        ("cpu", "torch._C._accelerator_getDeviceIndex", False),
        ("here", "torch.xpu._lazy_init", True),
    ],
)
def test_a_call_may_open_its_own_platforms_device(platform: str, probe: str, fine: bool) -> None:
    made = record(touch("device-init", probe, MINE, phase="call"), context=on(platform))
    assert (made.verdict == "ok") == fine
    assert made.touch == "device-init"
    assert record(touch("device-init", probe, MINE), context=on(platform)).verdict == "device-init"


def test_what_a_foreign_module_does_to_a_device_is_told_with_its_import() -> None:
    vendor = ["/site/vendor/__init__.py", 2, "<module>", "vendor"]
    foreign = event("forbidden-import", "vendor", [*MINE], 0, file=vendor[0], module="vendor", owner="rocm")
    made = record(foreign, touch("device-init", "torch._C._cuda_init", MINE, 0, vendor, TORCH))
    assert kinds(made) == [("forbidden-import", "vendor")]
    assert made.findings[0].message == "vendor was executed; it belongs to rocm, and it touches a device"


def test_processes_and_threads_of_a_call_are_nobodys_fault() -> None:
    rows = [event(kind, "x", phase="call") for kind in ("subprocess", "thread", "env-mutation", "native-load")]
    assert record(*rows).verdict == "ok"
    assert record(*[{**row, "phase": "import"} for row in rows]).verdict == "env-mutation"


def test_what_torch_or_platform_do_of_themselves_is_nobodys_fault() -> None:
    inductor = ["/site/torch/_inductor/config.py", 3, "<module>", "torch._inductor.config"]
    uname = ["/lib/python3.11/platform.py", 3, "processor", "platform"]
    assert record(event("env-mutation", "TORCHINDUCTOR_CACHE_DIR", MINE, inductor)).verdict == "ok"
    assert record(event("subprocess", "uname", MINE, uname)).verdict == "ok"
    assert record(event("env-mutation", "HOME", MINE, uname)).verdict == "env-mutation"


def test_the_worst_comes_first_and_gives_the_verdict() -> None:
    made = record(event("subprocess", "true"), event("forbidden-native", "libcuda.so.1"), touch())
    assert [finding.kind for finding in made.findings] == ["device-init", "forbidden-native", "subprocess"]
    assert made.verdict == "device-init" and made.failed


def test_a_finding_of_level_error_outranks_a_graver_kind_of_level_warn() -> None:
    levels = {**default_levels(), "device-init": "warn", "subprocess": "error", "thread": "off"}
    context = dataclasses.replace(CONTEXT, levels=levels)
    made = record(touch(), event("subprocess", "true"), event("thread", "run"), context=context)
    assert made.verdict == "subprocess" and made.failed
    assert [finding.kind for finding in made.findings] == ["device-init", "subprocess"]


def test_an_exception_of_the_import_and_of_the_call() -> None:
    error = {"type": "KeyError", "stack": [MINE], "message": "'x'"}
    made = record(closing={"ok": False, "phase": "import", "error": error})
    assert kinds(made) == [("import-error", "KeyError")] and str(made.worst.blame) == "pkg/a.py:3"
    assert kinds(record(closing={"ok": False, "phase": "call", "error": error})) == [("call-mismatch", "KeyError")]
    assert kinds(record(closing={"ok": False, "exit": True, "phase": "call", "error": error})) == [("exit", "KeyError")]


def test_a_missing_module_that_a_platform_owns_is_told_as_its() -> None:
    owned = dataclasses.replace(CONTEXT, owners={"rocm": ("aiter", "mine.rocm"), "any": ("pynvml",)})

    def told(name: str) -> tuple[str, str]:
        error = {"type": "ModuleNotFoundError", "name": name, "message": f"No module named '{name}'", "stack": [MINE]}
        (found,) = record(closing={"ok": False, "phase": "import", "error": error}, context=owned).findings
        return found.message, found.missing

    says = "belongs to rocm and is not there:"
    assert told("aiter") == (f"No module named 'aiter'; aiter {says} --present aiter shows who executes it", "aiter")
    assert told("mine.rocm")[0].endswith(f"; mine.rocm {says} --present mine.rocm shows who executes it")
    for others in ("aiter.ops", "mine", "pynvml", "numpy"):
        assert told(others) == (f"No module named '{others}'", "")


def test_a_management_library_that_torch_itself_asks_is_no_stand_in_of_the_subject() -> None:
    def stand_ins(what: str, *stack: Any) -> tuple[str, ...]:
        return record(event("stand-in", what, *stack)).stand_ins

    assert stand_ins("pynvml", MINE, TORCH) == stand_ins("amdsmi", MINE, TORCH) == ()
    assert stand_ins("pynvml", MINE) == ("pynvml",)
    assert stand_ins("pkg._C", MINE, TORCH) == ("pkg._C",)


def test_a_foreign_module_that_is_itself_what_is_imported_is_told_so() -> None:
    def foreign(module: str) -> str:
        row = event("forbidden-import", "pkg", module=module, owner="rocm", file="/app/pkg/a.py")
        return record(row).findings[0].message

    assert foreign("pkg.a").endswith("; it is what this check imports: leave it out where it is not rocm's")
    assert foreign("pkg.b") == "pkg.b was executed; it belongs to rocm"


def test_a_full_log_proves_nothing_clean() -> None:
    made = record(full=True)
    assert made.verdict == "crash" and "event log full" in made.worst.what
    assert "the event log was full: later events are missing" in made.notes
    assert record(touch(), full=True).verdict == "device-init"


def test_rows_that_are_spoilt_are_counted() -> None:
    made = record("{", "[]", '{"kind": 3, "what": "x"}', '{"kind": "touch"}', "[" * 100_000, damaged=2)
    assert made.notes == ("7 rows of the event log were spoilt",)
    assert made.verdict == "ok"


def test_threads_that_still_run_are_told() -> None:
    assert record(closing={"ok": True, "threads": 1}).notes == ("1 thread still ran when the check ended",)
    assert record(closing={"ok": True, "threads": 2}).notes == ("2 threads still ran when the check ended",)


def test_the_dumped_stack_of_a_timeout_is_its_blame() -> None:
    output = (
        "going\n\nCurrent thread 0x00007f (most recent call first):\n"
        '  File "/lib/python3.11/threading.py", line 8 in wait\n  File "/app/pkg/a.py", line 3 in <module>\n'
        '  File "<frozen importlib._bootstrap>", line 241 in _call_with_frames_removed\n'
    )
    assert dumped_stack(output)[0][:3] == ["/app/pkg/a.py", 3, "<module>"]
    made = record(closing=None, timed_out=True, output=output)
    assert str(made.worst.blame) == "pkg/a.py:3"


def test_the_line_that_ended_the_process_is_blamed() -> None:
    made = record(event("leaving", "os._exit"), closing=None, exit=3, output="some\nlast words\n")
    assert kinds(made) == [("exit", "status 3")] and str(made.worst.blame) == "pkg/a.py:3"
    assert made.worst.message.endswith("last words: last words")
    assert record(event("leaving", "os._exit", forked=True), closing=None).worst.blame is None


KEYS = ["kind", "what", "stack", "origin", "phase", "level", "file", "module", "owner", "places", "forked", "isolated"]
WORDS = st.sampled_from([*KEYS, "x"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5)
    | st.sampled_from([*SEVERITY, "touch", "subject", "leaving", "call", "device-init", "queried"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=8,
)  # fmt: skip
EVENTS = st.fixed_dictionaries(
    {"kind": st.sampled_from([*SEVERITY, "touch", "subject", "leaving", "joined"]), "what": st.text(max_size=5)},
    optional={
        "stack": VALUES,
        "origin": VALUES,
        "phase": VALUES,
        "level": VALUES | st.sampled_from(["device-init", "fork-poison"]),
        "file": VALUES,
        "module": VALUES,
        "owner": VALUES,
        "places": VALUES,
        "forked": VALUES,
    },
)
CLOSINGS = st.fixed_dictionaries(
    {},
    optional={
        "ok": VALUES,
        "error": VALUES
        | st.fixed_dictionaries({}, optional={"type": VALUES, "stack": VALUES, "at": VALUES, "message": VALUES}),
        "exit": VALUES,
        "phase": VALUES,
        "result": VALUES,
        "threads": VALUES,
    },
)


@settings(max_examples=400, deadline=None)
@given(st.lists(EVENTS, max_size=5), CLOSINGS | VALUES, st.booleans())
@example([{"kind": "forbidden-import", "what": "v", "file": []}], {}, False)
@example([{"kind": "subject", "what": "v", "places": 3}], {}, False)
@example([{"kind": "touch", "what": "v", "level": {}, "stack": 7}], {}, False)
def test_any_json_that_a_child_leaves_becomes_a_record(events: list[Any], closing: Any, timed_out: bool) -> None:
    rows = [json.dumps(row) for row in events]
    made = judge(CONTEXT, {"events": rows, "closing": json.dumps(closing), "exit": 1, "timed_out": timed_out})
    json.dumps(made.to_json())
    if not (isinstance(closing, dict) and closing.get("ok")):
        assert made.verdict != "ok"


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300))
def test_any_output_is_searched_for_a_stack(output: str) -> None:
    dumped_stack(output)
