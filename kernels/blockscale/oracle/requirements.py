"""The requirements that backends state, as factories; each answers with a sentence or, if it is met, with nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from blockscale.kernels.dispatch import why_not_triton
from blockscale.oracle.selection import Requirement
from blockscale.platforms import current_platform
from blockscale.platforms.libraries import Library


def platform(*names: str) -> Requirement[Any]:
    """This platform is one of these."""

    def why_not(problem: Any) -> str:
        if current_platform.name in names:
            return ""
        return f"It needs {_either(names)}, and this platform is {current_platform.name}."

    return why_not


def arch(*names: str, families: tuple[str, ...] = ()) -> Requirement[Any]:
    """The arch is known and is one of these names, or belongs to one of these families."""

    def why_not(problem: Any) -> str:
        here = current_platform.arch
        if here is None:
            return f"It needs to know the arch, which is unknown: {current_platform.why_no_arch}."
        if here.name in names or any(here.in_family(family) for family in families):
            return ""
        return f"It needs {_either((*names, *families))}, and this is {here}."

    return why_not


def not_arch(name: str, because: str) -> Requirement[Any]:
    """The arch is not this one."""

    def why_not(problem: Any) -> str:
        here = current_platform.arch
        return because if here is not None and here.name == name else ""

    return why_not


def library(needed: Library) -> Requirement[Any]:
    """The library is installed and serves this arch."""
    return lambda problem: needed.why_not()


def triton() -> Requirement[Any]:
    """Triton is installed, and new enough for the arch where that is known."""
    return lambda problem: why_not_triton(current_platform.arch)


def switched_on(switch: Callable[[], bool], name: str) -> Requirement[Any]:
    """The environment does not switch it off; read when asked."""
    return lambda problem: "" if switch() else f"{name} switches it off."


def holds(condition: Callable[[Any], bool], otherwise: str) -> Requirement[Any]:
    """A condition on the problem; `otherwise` is the reason, with the problem's fields in braces."""
    return lambda problem: "" if condition(problem) else otherwise.format(**vars(problem))


def cuda_build(*oldest: int) -> Requirement[Any]:
    """torch is built for this CUDA or a newer one; its build says so, and no driver is asked."""

    def why_not(problem: Any) -> str:
        import torch

        built, needed = torch.version.cuda or "", ".".join(map(str, oldest))
        if tuple(int(part) for part in built.split(".") if part.isdigit()) >= oldest:
            return ""
        return f"It needs a torch for CUDA {needed} or newer, and this one is for {built or 'none'}."

    return why_not


def _either(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
