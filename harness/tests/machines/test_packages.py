"""Vendor packages: each described in full, owned by a platform only where no other platform has it."""

from __future__ import annotations

import re

import pytest

from masquerade.machines import default_owners, known_packages
from masquerade.machines.schema import PLATFORMS

PACKAGES = known_packages()


@pytest.mark.parametrize("name", PACKAGES)
def test_is_described_in_full(name: str) -> None:
    package = PACKAGES[name]
    assert re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", name)
    assert package.distribution and len(package.source.split()) >= 2
    assert package.platforms and set(package.platforms) <= set(PLATFORMS)
    assert package.on_import in ("clean", "queried", "fork-poison", "device-init")
    assert package.owner is None or package.platforms == (package.owner,)


def test_owners() -> None:
    owners = default_owners()
    assert set(owners) == {"cuda", "rocm", "xpu"}
    assert {"aiter", "amdsmi"} <= set(owners["rocm"])
    assert {"pynvml", "flashinfer", "deep_gemm", "humming", "cutlass", "tensorrt", "cudnn"} <= set(owners["cuda"])
    assert {"vllm_xpu_kernels"} <= set(owners["xpu"])
    everything = [name for names in owners.values() for name in names]
    assert len(everything) == len(set(everything))


@pytest.mark.parametrize(
    "name", ["quark", "triton", "triton_kernels", "flash_attn", "cupy", "intel_extension_for_pytorch"]
)
def test_what_several_platforms_have_belongs_to_none(name: str) -> None:
    assert PACKAGES[name].owner is None
    assert all(name not in names for names in default_owners().values())


def test_aiter_opens_the_device_when_imported() -> None:
    assert PACKAGES["aiter"].on_import == "device-init"
    assert PACKAGES["amdsmi"].on_import == PACKAGES["pynvml"].on_import == "clean"
