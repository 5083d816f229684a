"""MXFP4 mixture of experts: routed rows through w13, its gated activation and w2, then the weighted sum."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch

from blockscale.formats import fp8, mx
from blockscale.kernels import configs, cpu, dispatch, moe_router
from blockscale.kernels.checks import expect, expect_same_device
from blockscale.kernels.moe_by_expert import Expert, by_expert
from blockscale.kernels.moe_operator import operator, through_operator
from blockscale.kernels.moe_router import Logits, Router, check_logits, route
from blockscale.kernels.moe_routing import local_experts, sort_into_tiles
from blockscale.kernels.mxfp4_moe_checks import ACTIVATION_FORMATS as ACTIVATION_FORMATS
from blockscale.kernels.mxfp4_moe_checks import check_prepared, check_tokens, check_weights
from blockscale.kernels.swiglu import SWIGLU_OAI, SwiGLU

# DeepSeek's rounding for MXFP8, Quark's for MXFP4.
RCEIL, EVEN = mx.ScaleRounding.RCEIL, mx.ScaleRounding.EVEN
E4M3FN, E2M1 = mx.E4M3FN, mx.E2M1


def mxfp4_moe(
    x: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    w13: torch.Tensor,
    w13_scale: torch.Tensor,
    w2: torch.Tensor,
    w2_scale: torch.Tensor,
    *,
    w13_bias: torch.Tensor | None = None,
    w2_bias: torch.Tensor | None = None,
    activation: SwiGLU = SWIGLU_OAI,
    expert_map: torch.Tensor | None = None,
    hidden_pad: int = 0,
    intermediate_pad: int = 0,
    activation_format: str = "bf16",
    fused: bool = True,
    emulate: bool = False,
) -> torch.Tensor:
    """For each token the weighted sum over its experts of w2 @ activation(w13 @ x): (M, H) bf16.

    x: (M, H) bf16. topk_ids: (M, k) int32 or int64, global expert ids; topk_weights: (M, k) float.
    w13: (E, 2 I_p, H_p / 2) and w2: (E, H_p, I_p / 2) uint8, packed e2m1; their scales (E, 2 I_p, H_p / 32) and
    (E, H_p, I_p / 32) e8m0. The weights may be padded: H = H_p - hidden_pad and I = I_p - intermediate_pad, both even,
    and what lies in the padding is not read. Where rows are not interleaved, gates start at row 0 and ups at I_p.
    w13_bias: (E, 2 I_p), w2_bias: (E, H_p), any float dtype. expert_map: (global experts,), local ids, and -1 for
    experts of other ranks, whose share is left out. `fused` computes the activation within the first GEMM, `emulate`
    everything in plain torch on whichever device. Raises ValueError, before anything runs, for what does not fit; on
    the CPU for ids out of range too. While torch compiles it is a custom op, which torch does not look into. It has no
    gradient.
    On a device the same call gives the same bits, and a token's depend on M, k and E, not on the other tokens or where
    they are routed. Beside the answer a device holds, if fused, 2 (H + I) + 200 bytes for each token and expert of its
    own: the rows between the two GEMMs and after them, and how they are sorted.
    """
    if torch.compiler.is_compiling():
        return through_operator(
            _run_name(fused, emulate), x, topk_weights, topk_ids, w13, w13_scale, w2, w2_scale,
            w13_bias=w13_bias, w2_bias=w2_bias, activation=activation, expert_map=expert_map, hidden_pad=hidden_pad,
            intermediate_pad=intermediate_pad, activation_format=activation_format,
        )  # fmt: skip
    return _run(
        x, topk_weights, topk_ids, w13, w13_scale, w2, w2_scale, w13_bias, w2_bias, activation, expert_map, hidden_pad,
        intermediate_pad, activation_format, fused, emulate,
    )  # fmt: skip


def mxfp4_moe_from_logits(
    x: torch.Tensor,
    logits: torch.Tensor,
    router: Router,
    w13: torch.Tensor,
    w13_scale: torch.Tensor,
    w2: torch.Tensor,
    w2_scale: torch.Tensor,
    *,
    correction: torch.Tensor | None = None,
    w13_bias: torch.Tensor | None = None,
    w2_bias: torch.Tensor | None = None,
    activation: SwiGLU = SWIGLU_OAI,
    expert_map: torch.Tensor | None = None,
    hidden_pad: int = 0,
    intermediate_pad: int = 0,
    activation_format: str = "bf16",
    fused: bool = True,
    emulate: bool = False,
) -> torch.Tensor:
    """`mxfp4_moe` of the experts that a router chooses: (M, H) bf16.

    logits: (M, E) bf16, fp16 or fp32, E being the global experts where there is an expert_map; these, `router` and
    `correction` as `moe_router.route` has them, the rest as `mxfp4_moe`. On a Hopper card few tokens' experts are
    chosen in the kernel that gathers their rows, elsewhere by one of its own. While torch compiles it is two custom
    ops. Raises ValueError for what either function does not take.
    """
    check_logits(logits, router, correction)
    expect(w13.dim() == 3, "w13", f"{w13.dim()} dimensions", "three, (experts, rows, columns / 2)")
    experts = w13.shape[0] if expert_map is None else expert_map.numel()
    wanted = f"({x.shape[0] if x.dim() else 0}, {experts}), x's tokens and one for each expert"
    expect(tuple(logits.shape) == (*x.shape[:1], experts), "logits", f"shape {tuple(logits.shape)}", wanted)
    expect_same_device(x=x, logits=logits)
    given = {
        "w13_bias": w13_bias, "w2_bias": w2_bias, "activation": activation, "expert_map": expert_map,
        "hidden_pad": hidden_pad, "intermediate_pad": intermediate_pad, "activation_format": activation_format,
        "fused": fused, "emulate": emulate,
    }  # fmt: skip
    if torch.compiler.is_compiling() or x.device.type == "cpu":
        return mxfp4_moe(x, *route(logits, router, correction), w13, w13_scale, w2, w2_scale, **given)
    later = Logits(logits, router, correction)
    return _run(x, *moe_router.empty(logits, router), w13, w13_scale, w2, w2_scale, **given, logits=later)


def _run(
    x: torch.Tensor, topk_weights: torch.Tensor, topk_ids: torch.Tensor, w13: torch.Tensor, w13_scale: torch.Tensor,
    w2: torch.Tensor, w2_scale: torch.Tensor, w13_bias: torch.Tensor | None, w2_bias: torch.Tensor | None,
    activation: SwiGLU, expert_map: torch.Tensor | None, hidden_pad: int, intermediate_pad: int, activation_format: str,
    fused: bool, emulate: bool, logits: Logits | None = None,
) -> torch.Tensor:  # fmt: skip
    """`mxfp4_moe` itself. With `logits` its experts are still to be chosen, and the first two are memory for them."""
    expect(isinstance(activation, SwiGLU), "activation", repr(activation), "a SwiGLU, such as swiglu.SWIGLU_OAI")
    scales = {"w13_scale": w13_scale, "w2_scale": w2_scale}
    w13_scale, w2_scale = (s.view(torch.uint8) if s.dtype == torch.float8_e8m0fnu else s for s in scales.values())
    check_weights(w13, w13_scale, w2, w2_scale, w13_bias, w2_bias, hidden_pad, intermediate_pad)
    check_tokens(x, topk_weights, topk_ids, w13, w13.shape[2] * 2 - hidden_pad, expert_map, activation_format)
    if x.shape[0] == 0:
        return torch.empty_like(x)
    intermediate = w2.shape[2] * 2 - intermediate_pad
    if (
        fused
        and not emulate
        and activation_format == "bf16"
        and _suits_hopper(x, intermediate, w13, w13_scale, w2, w2_scale)
    ):
        return _hopper(
            x, topk_weights, topk_ids, w13, w13_scale, w2, w2_scale, w13_bias, w2_bias, activation, expert_map,
            intermediate, logits=logits,
        )  # fmt: skip
    if logits is not None:
        topk_weights, topk_ids = route(*logits)
    problem = _Problem(
        x, topk_weights.float(), local_experts(topk_ids, expert_map), w13, w13_scale, w2, w2_scale,
        None if w13_bias is None else w13_bias.float(), None if w2_bias is None else w2_bias.float(),
        activation, w2.shape[2] * 2 - intermediate_pad, activation_format,
    )  # fmt: skip
    if emulate or not dispatch.runs_on_triton(x):
        return _dequantized(problem)
    return _triton(x, problem, fused)


def _run_name(fused: bool, emulate: bool) -> str:
    return "emulated" if emulate else "fused" if fused else "unfused"


for _fused, _emulate in ((True, False), (False, False), (True, True)):
    operator(_run_name(_fused, _emulate))(partial(mxfp4_moe, fused=_fused, emulate=_emulate))


class _Problem(NamedTuple):
    """The arguments, checked: `local` experts (M, k) with -1 for other ranks', `intermediate` without padding."""

    x: torch.Tensor
    topk_weights: torch.Tensor
    local: torch.Tensor
    w13: torch.Tensor
    w13_scale: torch.Tensor
    w2: torch.Tensor
    w2_scale: torch.Tensor
    w13_bias: torch.Tensor | None
    w2_bias: torch.Tensor | None
    activation: SwiGLU
    intermediate: int
    activation_format: str

    def used_rows(self, gates_first: bool = False) -> torch.Tensor:
        """The rows of w13 that are not padding, in their order, or all gates before all ups."""
        used = torch.arange(2 * self.intermediate, device=self.w13.device)
        if not self.activation.interleaved:
            used[self.intermediate :] += self.w13.shape[1] // 2 - self.intermediate
        elif gates_first:
            used = used.view(-1, 2).T.flatten()
        return used


def _suits_hopper(x: torch.Tensor, intermediate: int, *weights: torch.Tensor) -> bool:
    """Whether this runs on an sm_90, and its kernel can serve."""
    arch = dispatch.arch_of(x) if dispatch.runs_on_triton(x) else None
    if arch is None or arch.name != "sm_90":
        return False
    from blockscale.kernels.triton import mxfp4_moe_hopper_launch as hopper

    return hopper.serves(x.shape[1], intermediate, *weights)


@dispatch.on_its_device
def _hopper(
    x: torch.Tensor, topk_weights: torch.Tensor, topk_ids: torch.Tensor, *rest: Any, logits: Logits | None
) -> torch.Tensor:
    """`rest` as the launcher has it, but for the configuration, which is chosen here."""
    from blockscale.kernels.triton import mxfp4_moe_hopper_launch as hopper

    assignments = topk_ids.numel()
    per_expert = -(-assignments // len(rest[0]))
    config = configs.choose("mxfp4_moe_hopper", dispatch.arch_of(x), per_expert, assignments, x.shape[1])
    return hopper.mxfp4_moe(x, topk_weights, topk_ids, *rest, config, logits)


@dispatch.on_its_device
def _triton(x: torch.Tensor, p: _Problem, fused: bool) -> torch.Tensor:
    """`x` is the problem's, and says where this runs."""
    from blockscale.kernels.triton import mxfp4_moe as kernel

    experts, hidden, top_k = p.w13.shape[0], x.shape[1], p.local.shape[1]
    per_expert = -(-p.local.numel() // experts)
    config = configs.choose("mxfp4_moe", dispatch.arch_of(x), per_expert, p.w13.shape[1], hidden)
    tiles = sort_into_tiles(p.local, experts, config.pop("BLOCK_M"))
    row_weight = p.topk_weights.flatten().contiguous()
    first = partial(
        kernel.grouped_gemm, _rounded(x, p.activation_format), p.w13, p.w13_scale, p.w13_bias, tiles=tiles, k=hidden,
        top_k=top_k, config=config,
    )  # fmt: skip
    if fused:
        inner = first(row_weight, n=2 * p.intermediate, activation=p.activation)
    else:
        columns = first(torch.ones_like(row_weight), n=p.w13.shape[1], activation=None)[:, p.used_rows()].float()
        inner = p.activation(*p.activation.gate_and_up(columns)).to(x.dtype)
    rows = kernel.grouped_gemm(
        _rounded(inner, p.activation_format), p.w2, p.w2_scale, p.w2_bias, row_weight, tiles=tiles, n=hidden,
        k=p.intermediate, top_k=1, activation=None, config=config,
    )  # fmt: skip
    return kernel.sum_slots(rows, p.local.contiguous())


def _dequantized(p: _Problem) -> torch.Tensor:
    """In plain torch, each expert's weights dequantized to bf16 in its turn, into the memory of the last one's."""
    hidden, used = p.x.shape[1], p.used_rows(gates_first=True)
    last: list[torch.Tensor | None] = [None, None]

    def weights(expert: int) -> Expert:
        w13 = _weight(p.w13[expert].index_select(0, used), p.w13_scale[expert].index_select(0, used), hidden, last[0])
        w2 = _weight(p.w2[expert, :hidden], p.w2_scale[expert, :hidden], p.intermediate, last[1])
        last[:] = w13, w2
        w13_bias = None if p.w13_bias is None else p.w13_bias[expert][used]
        w2_bias = None if p.w2_bias is None else p.w2_bias[expert][:hidden]
        return Expert(w13[:, :hidden], w2[:, : p.intermediate], w13_bias, w2_bias)

    rounded = partial(_rounded, activation_format=p.activation_format)
    return by_expert(p.x, p.topk_weights, p.local, len(p.w13), weights, p.activation, rounded)


def prepared_moe(
    x: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    w13: torch.Tensor,
    w2: torch.Tensor,
    *,
    w13_bias: torch.Tensor | None = None,
    w2_bias: torch.Tensor | None = None,
    activation: SwiGLU = SWIGLU_OAI,
    expert_map: torch.Tensor | None = None,
    hidden_pad: int = 0,
    intermediate_pad: int = 0,
    activation_format: str = "bf16",
) -> torch.Tensor:
    """`mxfp4_moe` in plain torch for weights in the CPU's layout: (M, H) bf16.

    w13: (E, 2 I_p, H_p) bf16, `layouts.cpu.mxfp4_w13`'s, and w2: (E, H_p, I_p) bf16, `mxfp4_weight`'s. Gates come
    before ups in w13 and in w13_bias (E, 2 I_p), whatever the activation says. The rest is as `mxfp4_moe` has it, what
    it raises too. The same call gives the same bits: without intermediate_pad those that the weights as loaded give.
    """
    if torch.compiler.is_compiling():
        return through_operator(
            "prepared", x, topk_weights, topk_ids, w13, x.new_empty(0), w2, x.new_empty(0),
            w13_bias=w13_bias, w2_bias=w2_bias, activation=activation, expert_map=expert_map, hidden_pad=hidden_pad,
            intermediate_pad=intermediate_pad, activation_format=activation_format,
        )  # fmt: skip
    check_prepared(w13, w2, w13_bias, w2_bias, hidden_pad, intermediate_pad)
    hidden, intermediate = w2.shape[1] - hidden_pad, w2.shape[2] - intermediate_pad
    check_tokens(x, topk_weights, topk_ids, w13, hidden, expert_map, activation_format)
    if x.shape[0] == 0:
        return torch.empty_like(x)

    def weights(expert: int) -> Expert:
        biases = None if w13_bias is None else w13_bias[expert], None if w2_bias is None else w2_bias[expert][:hidden]
        return Expert(w13[expert, :, :hidden], w2[expert, :hidden, :intermediate], *biases)

    rounded = partial(_rounded, activation_format=activation_format)
    local = local_experts(topk_ids, expert_map)
    return by_expert(x, topk_weights.float(), local, len(w13), weights, activation, rounded)


@operator("prepared")
def _prepared(
    x: torch.Tensor, topk_weights: torch.Tensor, topk_ids: torch.Tensor, w13: torch.Tensor, w13_scale: torch.Tensor,
    w2: torch.Tensor, w2_scale: torch.Tensor, **named: Any,
) -> torch.Tensor:  # fmt: skip
    """As a run of the operator, which has scales."""
    return prepared_moe(x, topk_weights, topk_ids, w13, w2, **named)


def _weight(packed: torch.Tensor, scale: torch.Tensor, columns: int, out: torch.Tensor | None) -> torch.Tensor:
    """bf16 of one expert's weight (N, K / 2), the blocks that hold the first `columns` of K; into `out` if given."""
    blocks = -(-columns // mx.BLOCK)
    return cpu.dequantize_mxfp4(packed[:, : blocks * mx.BLOCK // 2], scale[:, :blocks], out)


def _rounded(x: torch.Tensor, activation_format: str) -> torch.Tensor:
    """x as a GEMM in this format sees it, in bf16, which holds every such value."""
    if activation_format == "bf16":
        return x
    if activation_format in ("mxfp8", "mxfp4"):
        padded = torch.nn.functional.pad(x, (0, -x.shape[1] % mx.BLOCK))
        mxfp8 = activation_format == "mxfp8"
        quantized = mx.quantize(padded, *((RCEIL, E4M3FN) if mxfp8 else (EVEN, E2M1)))
        return mx.dequantize(*quantized, torch.bfloat16)[:, : x.shape[1]].contiguous()
    elements, scale = fp8.quantize_groups(x, 128, torch.float8_e4m3fn, torch.float8_e8m0fnu)
    return fp8.dequantize_groups(elements, scale, 128).bfloat16()
