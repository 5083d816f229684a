"""What each kernel promises on a device: the same bits twice, for a row whatever its neighbours, on any stream, on any
card, and in a graph; what torch.compile sees of it."""

from __future__ import annotations

import pytest
import torch

from blockscale.kernels.fp8_quantization import per_token_group_quant_fp8

from .calls import CALLS, EVERY_CALL, same_bits
from .ways import Way, by

pytestmark = pytest.mark.usefixtures("as_in_service")


def runtime(device):
    """torch.cuda or torch.xpu."""
    return torch.get_device_module(device.type)


@EVERY_CALL
@by("device")
def test_the_same_bits_twice(call, path):
    given = call.given(path)
    first = call(given)
    for _ in range(5):
        torch.randn(1 << 20, device=path.device)  # moves what memory the next call gets
        assert same_bits(call(given), first)


@EVERY_CALL
@by("device")
def test_a_row_does_not_depend_on_its_neighbours(call, path):
    """Other tokens, routed elsewhere, beside the same ones at the same places."""
    given, others = call.given(path), call.given(path, seed=1)
    count = len(given[call.per_token[0]])
    kept = torch.arange(count, device=path.device) % 3 == 0
    mixed = dict(given)
    for name in call.per_token:
        where = kept.view(-1, *[1] * (given[name].dim() - 1))
        codes = (tensor.view(torch.uint8) if tensor.itemsize == 1 else tensor for tensor in (given[name], others[name]))
        mixed[name] = torch.where(where, *codes).view(given[name].dtype)
    got, want = call(mixed), call(given)
    for out, wanted in zip(got, want, strict=True):
        assert torch.equal(out.view(torch.uint8)[kept], wanted.view(torch.uint8)[kept])
    assert count == 1 or not same_bits(got, want)


@by("device")
def test_groups_are_quantized_each_by_itself(path):
    """Whatever the batch: a row alone gives the bits that it gives among others."""
    x = CALLS["quantization"].given(path)["x"]
    elements, scale = per_token_group_quant_fp8(x, 128)
    for row in (0, 13, 32):
        alone = per_token_group_quant_fp8(x[row : row + 1], 128)
        assert same_bits(alone, (elements[row : row + 1], scale[row : row + 1]))


@EVERY_CALL
@by("device")
def test_on_a_stream_of_its_own(call, path):
    """Operands are made on the stream, late: work that went to another stream would read what was there before."""
    given = call.given(path)
    want = call(given)
    torch_device = runtime(path.device)
    stream = torch_device.Stream()
    stream.wait_stream(torch_device.current_stream())
    with torch_device.stream(stream):
        late = {name: torch.zeros_like(tensor) for name, tensor in given.items()}
        busy = torch.randn(4096, 4096, device=path.device)
        for _ in range(20):
            busy = (busy @ busy).clamp(-1, 1)
        for name, tensor in given.items():
            late[name].copy_(tensor)
        got = call(late)
        copies = tuple(out.clone() for out in got)
    torch_device.current_stream().wait_stream(stream)
    assert same_bits(copies, want)


@EVERY_CALL
@pytest.mark.cuda
@pytest.mark.rocm
def test_in_a_graph(call, device):
    """A replay with other operands in the same places gives the bits of a plain call."""
    path = Way("device", device)
    given, others = call.given(path), call.given(path, seed=1)
    static = {name: tensor.clone() for name, tensor in given.items()}
    call(static)  # compiles, before the capture
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = call(static)
    for operands in (given, others, given):
        for name, tensor in operands.items():
            static[name].copy_(tensor)
        for out in captured:
            out.view(torch.uint8).fill_(0xAA)
        graph.replay()
        assert same_bits(captured, call(operands))


@EVERY_CALL
@by("device")
def test_on_a_second_card(call, path):
    """The tensors say where a kernel runs, not the current device."""
    torch_device = runtime(path.device)
    if torch_device.device_count() < 2:
        name = torch_device.get_device_name(path.device)
        pytest.skip(f"needs a second device; here: one {path.device.type} device, {name}")
    want = call(call.given(path))
    second = torch.device(path.device.type, (path.device.index + 1) % torch_device.device_count())
    got = call(call.given(Way("device", second)))
    assert torch_device.current_device() == path.device.index
    assert all(out.device == second for out in got)
    assert same_bits(tuple(out.cpu() for out in got), tuple(out.cpu() for out in want))


OPERATORS = ("fp8 gemm, 16 rows", "fp8 gemm, portable, 50 rows", "mx linear, 300 rows", "moe, 200 tokens", "moe, silu")


@pytest.mark.parametrize("name", OPERATORS)
@by("device")
def test_torch_compile_finds_no_break(name, path):
    """fullgraph=True fails at a break. The operators are called as they are, so the bits are the same."""
    call = CALLS[name]
    given = call.given(path)
    torch.compiler.reset()
    compiled = torch.compile(lambda given: call.run(**given) * 2, fullgraph=True, backend="aot_eager")
    assert same_bits((compiled(given),), (call.run(**given) * 2,))


@pytest.mark.parametrize("name", ["fp8 gemm, 100 rows"])
@by("device")
def test_inductor_compiles_around_an_operator(name, path):
    call = CALLS[name]
    given = call.given(path)
    torch.compiler.reset()
    compiled = torch.compile(lambda given: torch.relu(call.run(**given)), fullgraph=True)
    assert same_bits((compiled(given),), (torch.relu(call.run(**given)),))
