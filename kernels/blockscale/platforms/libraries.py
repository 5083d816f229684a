"""Vendor libraries: found by find_spec, supported by platform and arch. None is ever imported to find out."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from blockscale.platforms.current import current_platform


@dataclass(frozen=True)
class Library:
    """A vendor's library and where it works: `archs` are arch names, `families` names of `arch.FAMILIES`."""

    module: str
    platform: str
    archs: frozenset[str] = frozenset()
    families: frozenset[str] = frozenset()

    def why_not(self) -> str:
        """Why this library cannot serve here, as a sentence; empty if it can. Opens no device, imports no library."""
        if current_platform.name != self.platform:
            return f"{self.module} is a library for {self.platform}, and this is {current_platform.name}."
        # A top-level name: find_spec of a dotted one would import the parent.
        if not _installed(self.module):
            return f"{self.module} is not installed."
        arch = current_platform.arch
        if arch is None:
            return f"{self.module} needs to know the arch: {current_platform.why_no_arch}."
        if arch.name not in self.archs and not any(arch.in_family(family) for family in self.families):
            return f"{self.module} serves {', '.join(sorted(self.archs | self.families))}, and this is {arch}."
        return ""


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:  # a module in sys.modules without a spec: somebody put it there, so it is there
        return True


# Archs that the AITER kernels used here are built and tuned for (its tuned tables hold gfx942, gfx950 and gfx1250).
AITER = Library("aiter", "rocm", archs=frozenset({"gfx942", "gfx950", "gfx1250"}))
# DeepGEMM's README: sm_90 and the sm_100 family; the sm_120 family since its 2.5 releases.
DEEP_GEMM = Library("deep_gemm", "cuda", archs=frozenset({"sm_90"}), families=frozenset({"sm_100", "sm_120"}))
# humming's README: bf16 activations from sm_80 on.
HUMMING = Library("humming", "cuda", families=frozenset({"sm_80", "sm_90", "sm_100", "sm_110", "sm_120"}))


def is_aiter_found_and_supported() -> bool:
    """Whether AITER is installed and this is a ROCm host whose arch it serves. HIP stays closed."""
    return not AITER.why_not()


def is_deep_gemm_found_and_supported() -> bool:
    """Whether DeepGEMM is installed and this is a CUDA host whose arch it serves. CUDA stays closed."""
    return not DEEP_GEMM.why_not()


def is_humming_found_and_supported() -> bool:
    """Whether humming is installed and this is a CUDA host whose arch it serves. CUDA stays closed."""
    return not HUMMING.why_not()
