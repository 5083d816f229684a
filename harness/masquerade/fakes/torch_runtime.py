"""torch on the machine: puts the answers of `torch_c` below torch.cuda and torch.xpu and lets their own Python run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from types import ModuleType
from typing import Any

from masquerade.fakes import (
    torch_c,
    torch_cudnn,
    torch_errors,
    torch_fft,
    torch_graphs,
    torch_guard,
    torch_hooks,
    torch_host,
    torch_kinds,
    torch_streams,
    torch_tensor,
)
from masquerade.fakes.hooks import on_import
from masquerade.fakes.torch_c import Answer, cuda_answers, listed_names, unanswered, xpu_answers
from masquerade.fakes.torch_driver import Runtime
from masquerade.fakes.torch_properties import _CudaDeviceProperties, _XpuDeviceProperties
from masquerade.fakes.world import NoAnswerError, World

#: Set by the server once, so that no child reads the stub file: the names that each prefix has in the installed torch,
#: and those of them that only a build for the platform has.
_names: dict[str, tuple[str, ...]] = {}

#: More names than a fake adds to torch._C.
_ROOM = 400


def prepare(torch: ModuleType) -> None:
    """Do once what every disguise of this torch needs."""
    for prefix in ("cuda", "xpu"):
        _names[prefix] = listed_names(str(torch.__file__), prefix)
    core = torch._C
    _names["accelerator"] = tuple(
        name for name in dir(core) if name.startswith("_accelerator_") or name == "_get_accelerator"
    )
    torch_c.prepare(name for names in _names.values() for name in names)
    for prefix, properties in (("cuda", "_CudaDeviceProperties"), ("xpu", "_XpuDeviceProperties")):
        _names[f"{prefix} alone"] = tuple(
            name for name in (*_names[prefix], properties) if hasattr(core, name) and name not in _EVERYWHERE
        )
    torch_guard.prepare(torch)
    torch_hooks.prepare(torch)
    for kind in ("cuda", "xpu"):
        torch_host.prepare(torch, kind)
        torch_streams.prepare(torch, kind)
        torch_graphs.prepare(torch, kind)
        torch_tensor.prepare(torch, kind)
    torch_kinds.prepare(torch)
    _make_room(core)


def _make_room(core: ModuleType) -> None:
    """Let torch._C's namespace grow here: with no room for a fake's names each child would copy it whole."""
    names, space = [f"_masquerade_room_{number}" for number in range(_ROOM)], vars(core)
    space.update(dict.fromkeys(names))
    for name in names:
        del space[name]


def install(world: World) -> None:
    """Disguise torch now, or as soon as it is imported."""
    on_import("torch", lambda torch: disguise(torch, world))


def disguise(torch: ModuleType, world: World) -> None:
    """Make `torch`, whatever its build, answer as the machine's build on the machine."""
    if not _names:
        prepare(torch)
    cuda_like = world.platform in ("cuda", "rocm")
    _set_version(torch, world)
    _set_build_flags(torch, world)
    _set_management(torch, world)
    for prefix, answers, wanted in (("cuda", cuda_answers, cuda_like), ("xpu", xpu_answers, world.platform == "xpu")):
        device = getattr(torch, prefix, None)
        if device is None:
            continue
        torch_hooks.install(torch, prefix, wanted)
        if wanted:
            _give(torch, device, world, prefix, answers)
        else:
            _take(torch, device, prefix)
    torch_kinds.install(torch, cuda_like)
    torch_streams.install_generic(torch)
    _set_accelerator(torch, world)
    _set_cpu(torch, world)


def _local_version(world: World) -> str:
    """What the wheel of this platform has behind the plus: cu130, rocm7.0, xpu, cpu."""
    cuda: str | None = world.known("torch.cuda")
    hip: str | None = world.known("torch.hip")
    if cuda:
        return "cu" + cuda.replace(".", "")
    if hip:
        return "rocm" + ".".join(hip.split(".")[:2])
    return "xpu" if world.platform == "xpu" else "cpu"


def _set_version(torch: Any, world: World) -> None:
    version = torch.version
    for name in ("cuda", "hip", "xpu"):
        setattr(version, name, world.known(f"torch.{name}"))
    if hasattr(version, "rocm"):
        hip = world.known("torch.hip")
        version.rocm = ".".join(hip.split(".")[:2]) if hip else None
    text = f"{str(torch.__version__).partition('+')[0]}+{_local_version(world)}"
    version.__version__ = text
    torch.__version__ = type(torch.__version__)(text)


def _set_build_flags(torch: ModuleType, world: World) -> None:
    core, cuda_like = torch._C, world.platform in ("cuda", "rocm")
    core._has_cuda, core._has_xpu = cuda_like, world.platform == "xpu"
    if hasattr(core, "_has_cusparselt"):
        core._has_cusparselt = cuda_like
    core._has_mps = False
    torch.cuda.has_magma = core._has_magma = cuda_like
    torch_cudnn.install(torch, world)


def _set_management(torch: ModuleType, world: World) -> None:
    """What torch.cuda decided while it was imported: which binding of a management library it holds."""
    cuda = torch.cuda
    for name in ("pynvml", "amdsmi"):
        sys.modules.pop(name, None)
        vars(cuda).pop(name, None)
    cuda._HAS_PYNVML, cuda._PYNVML_ERR = False, ModuleNotFoundError("No module named 'pynvml'")
    if hasattr(cuda, "_HAS_AMDSMI"):
        cuda._HAS_AMDSMI, cuda._AMDSMI_ERR = False, ModuleNotFoundError("No module named 'amdsmi'")
    cuda._cached_device_count = None
    library = {"cuda": "pynvml", "rocm": "amdsmi"}.get(world.platform)
    if library and world.management("nvml" if library == "pynvml" else "amdsmi") != "absent":
        # torch.cuda imports the library of its platform at its own import; a module that is not there stays away.
        try:
            module = __import__(library)
        except ImportError:
            return
        setattr(cuda, library, module)
        cuda._HAS_PYNVML = True
        if library == "amdsmi" and hasattr(cuda, "_HAS_AMDSMI"):
            cuda._HAS_AMDSMI = True


def _give(torch: ModuleType, device: Any, world: World, prefix: str, answers: Callable[..., dict[str, Answer]]) -> None:
    """Answer all functions `_cuda_*` or `_xpu_*` of torch._C, and the C++ classes that the Python above stands on."""
    core = torch._C
    runtime = Runtime(world, torch, prefix)

    def on_open() -> None:
        # C++ fills in these names of torch.cuda and torch.xpu at the end of a successful initialization.
        device._get_device_properties = runtime.properties
        device.default_generators = torch_host.default_generators(torch, prefix, len(runtime.start()))
        torch_tensor.install(torch, prefix)

    torch_tensor.wear(world, prefix, runtime)
    torch_guard.install(torch, prefix)
    torch_tensor.install_methods(torch, prefix, runtime)
    torch_host.install(torch, runtime)
    given = answers(runtime, on_open)
    # Straight into the namespace: setattr would look for an interned copy of each name, all over the memory.
    vars(core).update({**unanswered(world, _names[prefix]), **given})
    device._initialized = False
    device._is_in_bad_fork = runtime.in_bad_fork
    device._exchange_device = getattr(core, f"_{prefix}_exchangeDevice")
    device._maybe_exchange_device = getattr(core, f"_{prefix}_maybeExchangeDevice")
    properties = _CudaDeviceProperties if prefix == "cuda" else _XpuDeviceProperties
    name = properties.__name__
    setattr(core, name, properties)
    setattr(device, name, properties)
    torch_streams.install(torch, runtime)
    torch_graphs.install(torch, runtime)
    if prefix == "cuda":
        # Under both names: a reload of torch.cuda takes it from torch._C again.
        core._cudart = device._cudart = _cudart(world, runtime)
        torch_fft.install(torch, runtime)
    else:
        device._cached_device_count = None
        if hasattr(device, "_device_count_zes"):
            # pyzes reads Level Zero's sysman through ctypes inside this function.
            device._device_count_zes = lambda: world.count() if world.management("xpu-smi") != "failing" else -1


def _take(torch: ModuleType, device: Any, prefix: str) -> None:
    """Remove from a torch built for that platform what a build for another one does not have."""
    core = torch._C
    for name in _names[f"{prefix} alone"]:
        delattr(core, name)
    if _names[f"{prefix} alone"]:
        torch_graphs.remove(torch, prefix)
    if prefix == "cuda":
        device._cudart = None
        vars(core).pop("_cudart", None)
    device._is_in_bad_fork = lambda: False
    word = prefix.upper()

    def exchange(index: int) -> int:
        if prefix == "cuda" and index < 0:
            return -1
        error = RuntimeError if prefix == "cuda" else NotImplementedError
        raise error(f"PyTorch was compiled without {word} support")

    device._exchange_device = device._maybe_exchange_device = exchange


#: What torch's CPU build has as well. Source: dir(torch._C) of torch 2.13.0+cpu.
_EVERYWHERE = frozenset(
    [
        "_cuda_beginAllocateCurrentThreadToPool",
        "_cuda_beginAllocateToPool",
        "_cuda_endAllocateToPool",
        "_cuda_isCurrentStreamCapturing",
        "_cuda_releasePool",
        "_xpu_beginAllocateCurrentThreadToPool",
        "_xpu_endAllocateToPool",
        "_xpu_graph_pool_handle",
        "_xpu_isCurrentStreamCapturing",
        "_xpu_releasePool",
    ]
)


def _cudart(world: World, runtime: Runtime) -> Any:
    """The module torch._C._cudart, as far as torch's Python calls it."""

    def memory_info(index: int) -> tuple[int, int]:
        total = runtime.device(index).get("total_memory", "torch.cuda.mem_get_info")
        return (total, total)

    class cudaError(int):
        success = 0

    def error_string(error: int) -> str:
        if world.platform != "cuda":
            return "no error" if int(error) == 0 else f"error {int(error)}"
        with suppress(Exception):
            runtime.work()  # the runtime starts the driver even here: so recorded on an H200
        return torch_errors.CODES.get(int(error), ("", "unrecognized error code"))[1]

    def ok(*args: Any) -> cudaError:
        return cudaError(0)

    answers: dict[str, Any] = {
        "cudaError": cudaError,
        "cudaGetErrorString": error_string,
        "cudaMemGetInfo": memory_info,
        "cudaProfilerStart": ok,
        "cudaProfilerStop": ok,
        "cudaHostRegister": ok,
        "cudaHostUnregister": ok,
    }

    def __getattr__(name: str) -> Any:
        if name in ("cudaStreamCreate", "cudaStreamDestroy"):
            raise NoAnswerError(world.id, f"torch.cuda.cudart().{name}")
        raise AttributeError(f"module 'torch._C._cudart' has no attribute '{name}'")

    module = ModuleType("torch._C._cudart")
    vars(module).update(answers, __getattr__=__getattr__)
    return module


def _set_accelerator(torch: ModuleType, world: World) -> None:
    """torch.accelerator asks C++ hooks that only a build for the platform has: its torch._C functions are answered."""
    core = torch._C
    if world.platform == "cpu":
        if hasattr(core, "_accelerator_getAccelerator"):
            core._accelerator_getAccelerator = lambda: None
        return
    kind = "xpu" if world.platform == "xpu" else "cuda"
    module = getattr(torch, kind)

    def call(name: str) -> Callable[..., Any]:
        return lambda *args: getattr(core, f"_{kind}_{name}")(*args)

    def opened(then: Callable[..., Any]) -> Callable[..., Any]:
        def answer(*args: Any) -> Any:
            module._lazy_init()
            return then(*args)

        return answer

    answers: dict[str, Answer] = {
        "_accelerator_getAccelerator": lambda: torch.device(kind),
        "_accelerator_hooks_device_count": call("getDeviceCount"),
        "_accelerator_hooks_set_current_device": call("setDevice"),
        "_accelerator_hooks_get_current_device": call("getDevice"),
        "_accelerator_hooks_exchange_device": call("exchangeDevice"),
        "_accelerator_hooks_maybe_exchange_device": call("maybeExchangeDevice"),
        "_accelerator_setDeviceIndex": opened(call("setDevice")),
        "_accelerator_getDeviceIndex": opened(call("getDevice")),
        "_accelerator_exchangeDevice": opened(call("exchangeDevice")),
        "_accelerator_maybeExchangeDevice": opened(call("maybeExchangeDevice")),
        "_accelerator_synchronizeDevice": opened(lambda index: None),
        "_accelerator_getStream": opened(lambda index: torch_streams.generic(torch, module.current_stream(index))),
        "_accelerator_setStream": opened(lambda stream: module.set_stream(stream)),
        "_accelerator_getMemoryInfo": opened(lambda index: module.mem_get_info(index)),
        "_accelerator_getDeviceStats": lambda index: getattr(core, f"_{kind}_memoryStats")(index),
        "_accelerator_isAllocatorInitialized": lambda: module.is_initialized(),
        "_accelerator_emptyCache": lambda: None,
        "_accelerator_emptyHostCache": lambda: None,
        "_accelerator_resetAccumulatedStats": lambda index: None,
        "_accelerator_resetPeakStats": lambda index: None,
        "_get_accelerator": lambda *a: torch.device(kind),
    }
    if str(torch.__version__).startswith("2.11."):
        # The first release that asks; later ones know an answer for CUDA, which nobody has recorded.
        answers["_accelerator_getDeviceCapability"] = opened(_no_capability)
    given = unanswered(world, _names["accelerator"])
    given.update((name, answer) for name, answer in answers.items() if name in given)
    vars(core).update(given)


def _no_capability(index: int) -> Any:
    raise RuntimeError("Backend doesn't support getting device capabilities.")


def _set_cpu(torch: ModuleType, world: World) -> None:
    """The host's processor: the level that kernels are chosen by, and capabilities, which torch._C._cpu tells.

    torch 2.13 and 2.14 have both as `_get_cpu_capability`: a word in torch._C, a table in torch._C._cpu.
    """

    def level() -> str:
        return str(world.get("host.torch_cpu.get_cpu_capability", "torch.backends.cpu.get_cpu_capability"))

    torch._C._get_cpu_capability = level
    cpu = getattr(torch._C, "_cpu", None)
    if cpu is None:
        return
    known = world.known("host.torch_cpu") or {}
    for name in dir(cpu):
        if name.startswith("_is_") or name in known:

            def answer(*args: Any, _name: str = name) -> Any:
                # A copy: each call of the real functions makes a new table.
                return copy(world.get(f"host.torch_cpu.{_name}", f"torch.cpu.{_name}"))

            setattr(cpu, name, answer)
