"""Hosts on which a usual answer would be wrong: Triton by another package's name."""

from __future__ import annotations

import importlib.metadata

import pytest

from blockscale.kernels import dispatch


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
