"""Hosts on which a usual answer would be wrong: Triton by another package's name, gfx1250 beside other cards."""

from __future__ import annotations

import importlib.metadata

import pytest
import torch

from blockscale.kernels import dispatch, fp8_block_gemm
from blockscale.platforms import Arch


@pytest.mark.parametrize(
    ("package", "text", "version"),
    [
        ("triton", "3.9.0", (3, 9, 0)),
        ("pytorch-triton", "3.5.0+git7416ffcb", (3, 5, 0)),
        ("pytorch-triton-rocm", "3.2.0+rocm7.0.0", (3, 2, 0)),
        ("triton-rocm", "3.0.0rc1", (3, 0, 0)),
        ("triton-xpu", "3.3.0b1", (3, 3, 0)),
    ],
)
def test_triton_is_found_by_whichever_name_its_package_has(monkeypatch, package, text, version):
    def installed(name):
        if name != package:
            raise importlib.metadata.PackageNotFoundError(name)
        return text

    monkeypatch.setattr(importlib.metadata, "version", installed)
    dispatch.triton_version.cache_clear()
    try:
        assert dispatch.triton_version() == version
        assert dispatch.why_not_triton(None) == ""
    finally:
        dispatch.triton_version.cache_clear()


@pytest.mark.parametrize(("arch", "is_wrong"), [("gfx1250", True), ("gfx942", False)])
def test_where_the_host_does_not_say_its_arch_the_card_is_asked(here, monkeypatch, arch, is_wrong):
    """Of cards that differ there is no one arch, and one of them may be gfx1250, whose native product is NaN."""
    here("rocm", None, ("triton",))
    monkeypatch.setattr(dispatch, "arch_of", lambda tensor: Arch.parse(arch))
    reference = []
    monkeypatch.setattr(fp8_block_gemm, "dequantized_mm", lambda *args: reference.append(args) or torch.ones(()))
    monkeypatch.setattr(fp8_block_gemm, "_cpu_mm", lambda *args: torch.zeros(()))
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    a = torch.ones(2, 128).to(torch.float8_e4m3fn)
    fp8_block_gemm.w8a8_triton_block_scaled_mm(a, a, torch.ones(2, 1), torch.ones(1, 1), [128, 128])
    assert bool(reference) is is_wrong
