"""`here`: make blockscale believe in a platform, an arch and installed libraries, without a fake of any driver."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from blockscale.kernels import dispatch
from blockscale.platforms import Arch, Inventory, Platform, current, libraries


@pytest.fixture
def here(monkeypatch):
    def become(platform, arch=None, installed=()):
        class Stand(Platform):
            name = platform
            device_type = "cpu"

            def _inventory(self):
                return Inventory((Arch.parse(arch),) if arch else None, "nobody knows")

        stand = Stand()
        monkeypatch.setattr(current, "resolve", lambda: stand)
        monkeypatch.setattr(libraries, "_installed", lambda module: module in installed)
        version = (3, 9, 0) if "triton" in installed else None
        monkeypatch.setattr(dispatch, "triton_version", lambda: version)

    return become


@pytest.fixture
def experts():
    """Makes small layers of MXFP4 experts, with tokens and their routing."""

    def make(experts=3, inner=96, hidden=160, count=7, top_k=2, bias=False, seed=0):
        generator = torch.Generator().manual_seed(seed)

        def drawn(*shape, low=0, high=256):
            return torch.randint(low, high, shape, generator=generator).to(torch.uint8)

        def biases(*shape):
            return torch.randn(*shape, generator=generator).bfloat16() if bias else None

        ids = [torch.randperm(experts, generator=generator)[:top_k] for _ in range(count)]
        return SimpleNamespace(
            x=torch.randn(count, hidden, generator=generator).bfloat16(),
            topk_weights=torch.rand(count, top_k, generator=generator),
            topk_ids=torch.stack(ids) if ids else torch.zeros(0, top_k, dtype=torch.int64),
            w13=drawn(experts, 2 * inner, hidden // 2),
            w13_scale=drawn(experts, 2 * inner, hidden // 32, low=119, high=123),
            w2=drawn(experts, hidden, inner // 2),
            w2_scale=drawn(experts, hidden, inner // 32, low=119, high=123),
            w13_bias=biases(experts, 2 * inner),
            w2_bias=biases(experts, hidden),
        )

    return make
