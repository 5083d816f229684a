"""The CPU path on hosts of either byte order."""

from __future__ import annotations

import sys

import torch

from blockscale.formats import e2m1
from blockscale.kernels import cpu


def test_the_even_element_comes_first_on_every_host():
    """A word's halves lie in memory as the host's byte order has them: the other order's word has them exchanged."""
    packed = torch.arange(256, dtype=torch.uint8).view(4, 64)
    want = torch.stack([e2m1.decode(packed & 0xF), e2m1.decode(packed >> 4)], -1).flatten(-2)
    here, elsewhere = sys.byteorder, {"little": "big", "big": "little"}[sys.byteorder]
    assert torch.equal(cpu._e2m1_to_bf16(packed, here).float(), want)
    assert torch.equal(cpu._e2m1_to_bf16(packed).float(), want)
    exchanged = cpu._e2m1_to_bf16(packed, elsewhere).float().unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
    assert torch.equal(exchanged, want)
