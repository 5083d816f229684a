"""What torch imports at the first operation that is dispatched to Python: nothing for a faked tensor, as on a card."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

LOADED = """
import sys, torch

def loaded():
    return [name for name in ("torch.distributed.tensor", "sympy", "torch._dynamo") if name in sys.modules]
"""

FAKED = (
    LOADED
    + """
def answer():
    x = torch.ones(4, 4, device=torch.accelerator.current_accelerator())
    y = torch.nn.Parameter((x @ x).relu_().view(2, 8))
    torch.isnan(y).any().item()
    return [list(y.shape), y.device.type, loaded()]
"""
)

OWN = (
    LOADED
    + """
class Own(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return args[0]

def answer():
    before = loaded()
    torch.ops.aten.detach.default(torch.Tensor._make_wrapper_subclass(Own, (2,)))
    return [before, "torch.distributed.tensor" in loaded(), hasattr(torch.distributed, "tensor")]
"""
)

#: A DTensor is dispatched in C++, on its own road: a mesh of one, over tensors of the host.
DTENSOR = """
import torch
FIRST

def answer():
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    a = distribute_tensor(torch.arange(6.0).reshape(2, 3), mesh, [Shard(0)])
    b = distribute_tensor(torch.ones(3, 2), mesh, [Replicate()])
    c = torch.stack([(a @ b + 1).relu(), a[:, :2]])
    d = c.sum()
    parts = [str(each) for each in (*c.placements, *d.placements)]
    return [type(c) is DTensor, isinstance(d, DTensor), parts, c.to_local().tolist(), d.full_tensor().item()]
"""


@pytest.mark.parametrize("machine", ["h200", "mi300x", "b580"])
def test_operations_on_faked_tensors_import_nothing(ask: Callable[..., Any], machine: str) -> None:
    shape, device, loaded = ask(FAKED, on=machine)
    assert (shape, device) == ([2, 8], "xpu" if machine == "b580" else "cuda")
    assert loaded == []


@pytest.mark.parametrize("machine", ["h200", "spr", "here"])
def test_a_tensor_of_the_subjects_own_kind_imports_what_torch_does(ask: Callable[..., Any], machine: str) -> None:
    assert ask(OWN, on=machine) == [[], True, True]


@pytest.mark.parametrize("first", ["", "torch.ones(2, device='cuda').add_(1)"])
def test_distributed_tensors_are_what_they_are_without_a_disguise(ask: Callable[..., Any], first: str) -> None:
    want = ask(DTENSOR.replace("FIRST", ""), on="here")
    assert want[:2] == [True, True]
    assert ask(DTENSOR.replace("FIRST", first), on="h200") == want
