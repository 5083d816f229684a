"""One check, inside the process that runs it: disguise, watch, import, call, and a closing record of how it went.

Everything needed after the subject has run is taken before it runs: a subject may empty modules, replace builtins,
rewrite the globals of its callers or end the process. Nothing here is a list that lies in a frame, since some walk the
frames and clear them.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import importlib.util
import os
import signal
import sys
import time
import weakref
from collections.abc import Callable
from mmap import mmap
from typing import Any, NoReturn

from masquerade.stage import calling, discovery, log
from masquerade.stage.disguise import disguise, watch
from masquerade.watch.reads import Reads, packed
from masquerade.watch.recorder import encoder, recorder, row_reader

#: Taken before a watcher wraps it: the children of a server that wears a machine start with the wrapped one.
_leave = os._exit

#: Characters kept of a message or of a repr.
TEXT = 4000


def tracer() -> Callable[[BaseException], dict[str, Any]]:
    """A function that describes an exception: type, message, stack outermost first, and where a SyntaxError points."""
    row = row_reader()
    string, kind, anything, syntax, limit = str, type, BaseException, SyntaxError, TEXT

    def describe(error: Any) -> dict[str, Any]:
        stack: Any = []
        trace = error.__traceback__
        while trace is not None:
            found = row(trace.tb_frame, trace.tb_lineno)
            if found is not None and (found != 0 or not stack or stack[-1] != 0):
                stack.append(found)
            trace = trace.tb_next
        out: dict[str, Any] = {"type": kind(error).__name__, "module": kind(error).__module__, "stack": stack}
        if kind(error) is syntax or isinstance(error, syntax):
            file, line = error.filename, error.lineno
            if kind(file) is string:
                out["at"] = [file, line if kind(line) is int else 0]
        missing = getattr(error, "name", None)
        if kind(missing) is string:
            out["name"] = missing
        return out

    def message(error: BaseException) -> str:
        try:
            text = string(error)
            cause = error.__cause__
            if cause is not None and kind(text) is string:
                text = f"{text[: limit // 2]}\ncaused by {kind(cause).__name__}: {cause}"
        except anything:
            return "<its text cannot be made>"
        return text[:limit] if kind(text) is string else ""

    describe.message = message  # type: ignore[attr-defined]
    return describe


def jsonable(value: Any, depth: int = 0) -> bool:
    """Whether `value` is made of plain JSON types alone."""
    t = type(value)
    if value is None or t in (str, int, float, bool):
        return True
    if depth > 50:
        return False
    if t in (list, tuple):
        return all(jsonable(item, depth + 1) for item in value)
    return t is dict and all(type(k) is str and jsonable(v, depth + 1) for k, v in value.items())


def result_of(value: Any) -> Any:
    """A returned value as the report holds it."""
    if jsonable(value):
        return value
    try:
        text = repr(value)[:TEXT]
    except BaseException as error:
        text = f"<repr raised {type(error).__name__}>"
    return {"type": f"{type(value).__module__}.{type(value).__qualname__}", "repr": text}


Append = Callable[[bytes], bool]
Prepare = Callable[[dict[str, Any], Append, dict[str, str], Reads], Callable[[], int]]


def run(request: dict[str, Any], memory: mmap, ready: Prepare | None = None, reads: Reads | None = None) -> NoReturn:
    """Run the check that `request` describes and end the process. The log in `memory` tells what happened.

    `ready` takes the place of `prepare` in a process that wears its disguise already, and watches by `reads` what it
    reads.
    """
    leave, getpid, owner = _leave, os.getpid, os.getpid()
    append, close = log.writer(memory)
    phase = {"now": "import"}
    encode, describe = encoder(), tracer()
    message = describe.message  # type: ignore[attr-defined]
    monotonic, sleep = time.monotonic, time.sleep
    collect, run_exit_functions = gc.collect, atexit._run_exitfuncs
    import_module, base, leaving = importlib.import_module, BaseException, SystemExit
    subject: str = request.get("module", "")
    first = tuple(request.get("first") or ())
    function: str = request.get("function") or ""
    settle: float = request.get("settle", 1.0)
    call = calling.Call(request, recorder(append, phase).note)
    answer, oracle = calling.oracle_answer, request.get("oracle")
    reads = Reads() if reads is None else reads
    start_reading, stop_reading, pack = reads.start, reads.stop, packed
    outcome: dict[str, Any] = {"ok": True, "result": None}

    try:
        if "find" in request:
            sys.path[:0] = request.get("path", [])
            close(encode(discovery.find(request["find"])).encode())
            leave(0)
        alive = (ready or prepare)(request, append, phase, reads)
    except base as error:
        outcome = {"ok": False, "tool": True, "error": {**describe(error), "message": message(error)}}
        close(encode(outcome).encode())
        leave(70)

    def failed(error: BaseException) -> None:
        nonlocal outcome
        told = describe(error)
        # The closing record is written before the message is made: a __str__ that never returns loses nothing.
        left, now = isinstance(error, leaving), phase["now"]
        outcome = {"ok": False, "exit": left, "phase": now, "error": told, "result": None, "during": call.stage}
        close(encode(outcome).encode())
        told["message"] = message(error)

    def quietly(do: Callable[[], object]) -> None:
        # contextlib.suppress uses globals and builtins, which the subject may have replaced.
        try:
            do()
        except base:
            return

    lift = limited(request.get("memory_limit"))
    started = monotonic()
    try:
        start_reading()
        for name in first:
            import_module(name)
        module = import_module(subject)
        wait(alive, monotonic() + settle, monotonic, sleep)
        if function:
            phase["now"] = "call"
            value = call.set_up(module)()
            outcome["result"] = result_of(answer(value) if oracle else value)
            wait(alive, monotonic() + settle, monotonic, sleep)
    except base as error:
        lift()
        failed(error)
    lift()
    if getpid() != owner:
        leave(0)  # the subject forked and let both processes return
    quietly(collect)
    outcome["seconds"] = monotonic() - started
    outcome["threads"] = alive()
    outcome["place"], outcome["probes"] = call.place, call.counts()
    if request.get("reads"):
        outcome["reads"] = pack(stop_reading())
    if request.get("measure"):
        outcome["private_bytes"] = private_bytes()
    if not close(encode(outcome).encode()):
        outcome.pop("reads", None)  # more than the log has room for
        close(encode(outcome).encode())
    # Exit functions run after the closing record: the server gives them a moment and takes what they do as events.
    phase["now"] = "exit"
    quietly(run_exit_functions)
    leave(0)
    raise AssertionError("unreachable")


def wait(
    alive: Callable[[], int], deadline: float, monotonic: Callable[[], float], sleep: Callable[[float], None]
) -> None:
    """Wait for the subject's threads, at most until `deadline`."""
    for _ in range(2000):
        if alive() <= 0 or monotonic() >= deadline:
            return
        sleep(0.005)


#: Bytes kept back from a check with a memory limit, so that its end can be told after it has taken all.
_RESERVE = 8 << 20


def limited(allowed: int | None) -> Callable[[], None]:
    """Let this process take `allowed` bytes of private memory on top of what it has.

    Gives a function that sets the reserve free; the limit itself stays.
    """
    if not allowed:
        return lambda: None
    import resource

    reserve = [bytearray(_RESERVE)]  # never touched: it takes no page
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        held = next(int(row.split()[1]) * 1024 for row in file if row.startswith("VmData:"))
    resource.setrlimit(resource.RLIMIT_DATA, (held + allowed, held + allowed))
    return reserve.clear


def private_bytes() -> int:
    """Memory of this process that it shares with nobody."""
    # Unbuffered and undecoded: what is measured should not be the measuring.
    file = os.open("/proc/self/smaps_rollup", os.O_RDONLY)
    text = os.read(file, 8192)
    os.close(file)
    return sum(int(row.split()[1]) * 1024 for row in text.splitlines() if row.startswith(b"Private_"))


def places(name: str) -> list[str]:
    """The folders of the subject's top-level package, or its file: what its own code is told by. Imports nothing."""
    try:
        spec = importlib.util.find_spec(name.partition(".")[0])
    except (ImportError, ValueError, AttributeError):
        spec = None
    if spec is None:
        return []
    found = list(spec.submodule_search_locations or ()) or [spec.origin or ""]
    return [os.path.abspath(place) for place in found if place]


def name_subject(request: dict[str, Any], append: Append) -> None:
    """Write down where the subject's own code lies."""
    append(encoder()({"kind": "subject", "what": request["module"], "places": places(request["module"])}).encode())


def forget_exits() -> None:
    """What was registered before the subject is not run at its end; what the subject registers is."""
    atexit._clear()
    # Finalizers of weakref hang on one exit function, which the first of them registers: torch's, in a server.
    for held in weakref.finalize._registry.values():  # type: ignore[attr-defined]
        if held.atexit:
            held.atexit = False
    weakref.finalize._registered_with_atexit = False  # type: ignore[attr-defined]


def enter(request: dict[str, Any]) -> None:
    """Environment, path and limits of a check."""
    forget_exits()
    calling.change_environment(request.get("env", {}))
    sys.path[:0] = request.get("path", [])
    sys.argv[:] = [""]


def prepare(request: dict[str, Any], append: Append, phase: dict[str, str], reads: Reads) -> Callable[[], int]:
    """Environment, path, fakes, watchers: all that comes before the subject. Gives the count of its live threads."""
    enter(request)
    disguise(request["machine"], folder=request.get("tools", ""))
    name_subject(request, append)
    alive = watch(recorder(append, phase), request["machine"], request.get("owners", {}), reads)
    take_signals()
    return alive


def take_signals() -> None:
    """Handle the signals that end a process as a fresh interpreter does."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
