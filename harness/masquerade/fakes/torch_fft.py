"""The cache of cuFFT plans, whose size torch.backends.cuda asks C++ for. A build without CUDA counts no device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from masquerade.fakes.torch_driver import Runtime
from masquerade.fakes.world import NoAnswerError

#: Plans that the cache holds at most until somebody sets another number; read on an H200 (fixtures/recordings).
_MAX_SIZE = 4096


def install(torch: Any, runtime: Runtime) -> None:
    """Answer for the cache of each device: no plan is in it, for nothing runs on a faked device."""
    cache = torch.backends.cuda.cuFFTPlanCache
    most: dict[int, int] = {}

    def asked(answer: Callable[..., Any]) -> Callable[..., Any]:
        def ask(index: int, *value: int) -> Any:
            if runtime.world.platform != "cuda":
                raise NoAnswerError(runtime.world.id, "torch.backends.cuda.cufft_plan_cache")
            runtime.work()  # C++ sets the device
            return answer(index, *value)

        return ask

    size, max_size = vars(cache)["size"], vars(cache)["max_size"]
    size.getter = asked(lambda index: 0)
    max_size.getter = asked(lambda index: most.get(index, _MAX_SIZE))
    max_size.setter = asked(most.__setitem__)
    torch._cufft_clear_plan_cache = asked(lambda index: None)
