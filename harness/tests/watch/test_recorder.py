"""The recorder: every event once, with its stack, in JSON that needs nothing of the subject's interpreter."""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masquerade.watch import recorder as module
from masquerade.watch.recorder import encoder, recorder, stack_reader

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_what_is_encoded_is_json(value: Any) -> None:
    assert json.loads(encoder()(value)) == value


def test_what_json_has_no_word_for() -> None:
    encode = encoder()
    odd = [float("nan"), float("inf"), (1, 2), {1}, object]
    assert json.loads(encode(odd)) == [None, None, [1, 2], "<set>", "<type>"]


def notes(phase: str = "import") -> tuple[module.Recorder, list[dict[str, Any]]]:
    written: list[dict[str, Any]] = []
    made = recorder(lambda event: written.append(json.loads(event)) is None, {"now": phase})
    return made, written


def test_an_event_has_its_stack_innermost_last() -> None:
    made, written = notes()

    def inner() -> None:
        made.note("touch", "x", level="queried")

    inner()
    (event,) = written
    assert {key: event[key] for key in ("kind", "what", "phase", "level")} == {
        "kind": "touch", "what": "x", "phase": "import", "level": "queried",
    }  # fmt: skip
    (outer, last) = event["stack"][-2:]
    assert last[0] == outer[0] == __file__ and last[2] == "inner" and last[3] == __name__
    assert outer[2] == "test_an_event_has_its_stack_innermost_last"


def test_the_same_event_is_written_once_and_another_line_is_another_event() -> None:
    made, written = notes()
    for _ in range(3):
        made.note("touch", "x", level="queried")
    made.note("touch", "x", level="queried")
    assert len(written) == 2


def test_a_flood_of_one_kind_leaves_room_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVENTS", 10)
    made, written = notes()
    for number in range(50):
        made.note("touch", f"x{number}", level="queried")
    made.note("touch", "grave", level="device-init")
    assert [event["what"] for event in written] == [*(f"x{n}" for n in range(10)), "grave"]


def test_a_deep_stack_keeps_both_of_its_ends() -> None:
    read = stack_reader()

    def down(depth: int) -> list[Any]:
        return read(sys._getframe()) if depth == 0 else down(depth - 1)

    rows = down(500)
    assert len(rows) == 2 * module.ENDS and rows[-1][2] == "down" and rows[0][2] != "down"


def test_import_machinery_is_one_zero_and_masquerade_itself_is_left_out() -> None:
    source = "def f(read, frame): return read(frame())"
    inside: dict[str, Any] = {"__name__": "fake"}
    exec(compile(source, module.HERE[0] + "x.py", "exec"), inside)
    machinery: dict[str, Any] = {"__name__": "_frozen_importlib"}
    source = "def g(f, *args): return h(f, *args)\ndef h(f, *args): return f(*args)"
    exec(compile(source, "<frozen importlib._x>", "exec"), machinery)
    rows = machinery["g"](inside["f"], stack_reader(), sys._getframe)
    assert rows[-1] == 0 and rows[-2][2] == "test_import_machinery_is_one_zero_and_masquerade_itself_is_left_out"


def test_a_thread_remembers_who_started_it() -> None:
    made, written = notes()

    def work() -> None:
        made.origins[threading.get_ident()] = [["/app/main.py", 3, "<module>", "main"]]
        made.note("touch", "x")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert written[0]["origin"] == [["/app/main.py", 3, "<module>", "main"]]


def test_a_replaced_frame_function_hides_the_stack_and_not_the_event(monkeypatch: pytest.MonkeyPatch) -> None:
    made, written = notes()
    made.note("touch", "before")
    monkeypatch.setattr(sys, "_getframe", lambda depth=0: 1 / 0)
    made.note("touch", "after")
    monkeypatch.undo()
    assert [event["what"] for event in written] == ["before", "after"] and written[1]["stack"]
