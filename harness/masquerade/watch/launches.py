"""Triton kernels: each compile, what it became, and each launch, with the line that asked for it.

The events stand above the driver, fake or real: `compiling` and `compiled`, `launch`, `compile-error` and
`out-of-resources`. What a kernel became is read off its binary's own report and its assembly, once a kernel.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from masquerade.watch import spirv
from masquerade.watch.instructions import families
from masquerade.watch.recorder import Recorder

OnImport = Callable[[str, Callable[[Any], None]], None]

#: Characters kept of a compiler's message.
MESSAGE = 3000

#: What the autotuner drops a configuration for, besides resources: a `tl.static_assert`, and what ptxas refuses.
_DROPPED = ("CompileTimeAssertionFailure", "PTXASError")

_AUTOTUNER = os.path.join("triton", "runtime", "autotuner.py")


def install(recorder: Recorder, on_import: OnImport) -> None:
    """Follow a Triton that is imported later."""
    on_import("triton.compiler.compiler", lambda module: _follow(module, recorder))


def _follow(module: Any, recorder: Recorder) -> None:
    note, clock = recorder.note, time.monotonic
    kernel_class: Any = getattr(module, "CompiledKernel", None)
    # Of another shape, a compiled kernel's launches are not told.
    if not hasattr(kernel_class, "_init_handles") or not hasattr(module, "compile"):
        return
    compile_kernel, init_handles = module.compile, kernel_class._init_handles
    run = getattr(kernel_class, "run", None)
    facts: dict[int, tuple[Any, dict[str, Any]]] = {}

    @functools.wraps(compile_kernel)
    def compile(src: Any, *args: Any, **kwargs: Any) -> Any:
        asked = _asked(src, args, kwargs)
        note("compiling", asked["kernel"], **asked)
        started = clock()
        try:
            kernel = compile_kernel(src, *args, **kwargs)
        except Exception as error:
            raised = type(error).__name__
            pruned = raised in _DROPPED and _tuned(sys._getframe(1))
            note("compile-error", asked["kernel"], raised=raised, message=short(error), pruned=pruned, **asked)
            raise
        finally:
            note("compiled", asked["kernel"], **asked)
        facts[id(kernel)] = kernel, {**asked, **_became(kernel), "seconds": round(clock() - started, 3)}
        return kernel

    def told(kernel: Any) -> dict[str, Any]:
        known = facts.get(id(kernel))
        if known is None or known[0] is not kernel:
            known = facts[id(kernel)] = kernel, {**_asked(kernel.src, (), {}), **_became(kernel), "seconds": 0.0}
        return known[1]

    @functools.wraps(init_handles)
    def handles(self: Any) -> Any:
        try:
            return init_handles(self)
        except Exception as error:
            if type(error).__name__ == "OutOfResources":
                required, limit, what = (getattr(error, name, "?") for name in ("required", "limit", "name"))
                needs = f"it needs {required} of {what}, and the limit is {limit}"
                known = _loaded(self, told(self))
                pruned, raised = _tuned(sys._getframe(1)), type(error).__name__
                note("out-of-resources", known["kernel"], message=needs, raised=raised, pruned=pruned, **known)
            raise
        finally:
            # Before Triton 3.4 the launcher is an attribute that loading sets, and no property.
            if not isinstance(run, property) and "run" in vars(self):
                self.run = watched(self, vars(self)["run"])

    def watched(self: Any, launch: Any) -> Any:
        if getattr(launch, "masquerade_watches", False):
            return launch
        self_facts = told(self)

        def launched(*args: Any, **kwargs: Any) -> Any:
            note("launch", self_facts["kernel"], **_loaded(self, self_facts))
            return launch(*args, **kwargs)

        launched.masquerade_watches = True  # type: ignore[attr-defined]
        return launched

    module.compile = compile
    kernel_class._init_handles = handles
    if isinstance(run, property) and run.fget is not None:
        fget = run.fget
        kernel_class.run = property(lambda self: watched(self, fget(self)))


def _asked(src: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """What is to be compiled: kernel, its place, signature, constants, options."""
    function = getattr(src, "fn", None)
    code = getattr(getattr(function, "fn", None), "__code__", None)
    names = list(getattr(function, "arg_names", ()))
    target = args[0] if args else kwargs.get("target")
    options = args[1] if len(args) > 1 else kwargs.get("options")
    return {
        "kernel": str(getattr(function, "__name__", "") or getattr(src, "name", "") or "kernel"),
        "place": [code.co_filename, code.co_firstlineno] if code is not None else [],
        "target": _target(target),
        "signature": {str(k): str(v) for k, v in dict(getattr(src, "signature", None) or {}).items()},
        "constants": {_name(k, names): repr(v)[:100] for k, v in dict(getattr(src, "constants", None) or {}).items()},
        "options": {str(k): repr(v)[:100] for k, v in dict(options or {}).items() if k in _OPTIONS},
    }


#: Options of a compile that a person chooses.
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "waves_per_eu", "matrix_instr_nonkdim", "kpack")


def _name(key: Any, names: list[str]) -> str:
    """A constant's name: Triton keys them by the argument's place, a tuple."""
    place = key[0] if isinstance(key, tuple) and key else key
    return names[place] if isinstance(place, int) and place < len(names) else str(place)


def _target(target: Any) -> str:
    """`cuda:90`, `hip:gfx942`; Intel's arch is a table of properties, of which the name says most."""
    arch = getattr(target, "arch", "")
    arch = arch.get("name", "") if isinstance(arch, dict) else arch
    return f"{target.backend}:{arch}" if arch else ""


def _became(kernel: Any) -> dict[str, Any]:
    """What a compiled kernel is: resources that the compiler tells, and the matrix instructions of its assembly."""
    metadata, assembly = kernel.metadata, kernel.asm
    found = next((assembly[name] for name in ("amdgcn", "ptx", "spv") if name in assembly), b"")
    return {
        "target": _target(metadata.target),
        "num_warps": metadata.num_warps,
        "num_stages": metadata.num_stages,
        "num_ctas": getattr(metadata, "num_ctas", 1),
        "shared": metadata.shared,
        "instructions": families(found) if isinstance(found, str) else spirv.families(found),
        "triton": str(getattr(sys.modules.get("triton"), "__version__", "")),
    }


def _limit() -> dict[str, int]:
    """The shared memory that a block may have on the current device, where the driver tells."""
    try:
        driver = sys.modules["triton.runtime.driver"].driver.active
        properties = driver.utils.get_device_properties(driver.get_current_device())
        return {"shared_limit": int(properties["max_shared_mem"])}
    except Exception:
        return {}


def _loaded(kernel: Any, known: dict[str, Any]) -> dict[str, Any]:
    """`known` with what the driver tells of a kernel that Triton has asked it to load, and of the device."""
    out = {**known, **_limit()}
    for name, attribute in (("registers", "n_regs"), ("spills", "n_spills")):
        value = getattr(kernel, attribute, -1)
        if isinstance(value, int) and value >= 0:
            out[name] = value
    return out


def _tuned(frame: FrameType | None) -> bool:
    """Whether the autotuner tries a configuration: it drops what does not fit and goes on."""
    while frame is not None:
        if frame.f_code.co_name == "_bench" and frame.f_code.co_filename.endswith(_AUTOTUNER):
            return True
        frame = frame.f_back
    return False


def short(error: BaseException) -> str:
    """A compiler's message in one paragraph: of the kernel's source, which it quotes, one line alone."""
    text = f"{error}"
    cause = error.__cause__
    if cause is not None and f"{cause}" not in text:
        text += f"\n{cause}"
    lines = text.splitlines()
    pointed = [place for place, line in enumerate(lines) if line.strip() == "^"]
    if pointed and lines[0].startswith("at "):
        row = lines[0].removeprefix("at ").partition(":")[0]
        says = " ".join(line.strip() for line in lines[pointed[0] + 1 :] if line.strip())
        text = f"{says} (line {row} of the kernel: {lines[pointed[0] - 1].strip()})"
    return text[:MESSAGE]
