"""Calls into humming by its public interface (humming-kernels 0.1.19), imported in the calls alone: it asks CUDA."""

from __future__ import annotations

import json
from typing import Any

import torch

from blockscale.kernels.moe_operator import operator
from blockscale.kernels.moe_routing import local_experts, sort_into_tiles, weighted_sum
from blockscale.kernels.swiglu import SwiGLU

_INDEXED = {"gemm_type": "indexed", "use_f16_accum": False, "use_batch_invariant": False}
_LOCKS = 2048  # int32 by which the blocks of one launch agree on who adds when: as many as humming's own layer has


def prepare(
    weight: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, str]:
    """One GEMM's weights in humming's order: weights, scales, bias, and the layout's name, which is humming's own.

    weight: (E, N, K / 2) uint8, packed e2m1; scale: (E, N, K / 32) e8m0 codes; bias: (E, N). humming pads them itself.
    """
    from humming.schema import HummingInputSchema, HummingWeightSchema
    from humming.transform import prepare_and_transform_humming_tensors

    tensors = {"weight": weight.view(torch.int32), "weight_scale": scale.view(torch.float8_e8m0fnu)}
    if bias is not None:
        tensors["bias"] = bias.bfloat16()
    config, made = prepare_and_transform_humming_tensors(
        tensors=tensors,
        shape_n=weight.shape[1],
        shape_k=weight.shape[2] * 2,
        weight_schema=HummingWeightSchema(
            b_dtype="float4e2m1", bs_dtype="float8e8m0", weight_scale_group_size=32, weight_scale_type="group"
        ),
        input_schema=HummingInputSchema(),
        num_experts=weight.shape[0],
        pad_n_to_multiple=256,
        pad_k_to_multiple=128,
        has_bias=bias is not None,
        torch_dtype=torch.bfloat16,
        device=weight.device,
    )
    return made["weight"], made["weight_scale"], made.get("bias"), config.to_str()


@operator("humming")
def mxfp4_moe(
    x: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    w13: torch.Tensor,
    w13_scale: torch.Tensor,
    w2: torch.Tensor,
    w2_scale: torch.Tensor,
    *,
    w13_bias: torch.Tensor | None,
    w2_bias: torch.Tensor | None,
    activation: SwiGLU,
    expert_map: torch.Tensor | None,
    hidden_pad: int,
    intermediate_pad: int,
    activation_format: str,
    layouts: tuple[str, str],
) -> torch.Tensor:
    """The MoE by humming's indexed GEMM: (M, H) as x. Weights, scales, biases and layouts are `prepare`'s.

    The padding is multiplied by zero, so it may hold anything but NaN.
    """
    if not x.shape[0]:
        return torch.empty_like(x)
    local = local_experts(topk_ids, expert_map)
    experts = json.loads(layouts[0])["num_experts"]
    # How many assignments this rank may expect: what humming tunes for.
    expected = -(-local.numel() * experts // (experts if expert_map is None else len(expert_map)))
    call = _Indexed(local, experts, expected)
    padded = torch.nn.functional.pad(x, (0, hidden_pad))
    columns = call(padded, w13, w13_scale, w13_bias, layouts[0], local.shape[1])
    inner = activation.inner(columns, intermediate_pad).to(x.dtype)
    rows = call(inner, w2, w2_scale, w2_bias, layouts[1], 1)
    return weighted_sum(rows, topk_weights, local)[:, : x.shape[1]].to(x.dtype)


class _Indexed:
    """One layer's two GEMMs, each over tiles of its own size."""

    def __init__(self, local: torch.Tensor, experts: int, expected: int) -> None:
        self._local, self._experts, self._expected = local, experts, expected

    def __call__(
        self, x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor | None, layout: str, k: int
    ) -> torch.Tensor:
        """(assignments, N): row i is row i // k of x through its expert. Other ranks' rows are not written."""
        from humming import ops

        config = json.loads(layout)
        tuning = _tuning(config, self._expected, x.device)
        tiles = sort_into_tiles(self._local, self._experts, tuning["block_shape"][0])
        out = x.new_empty(self._local.numel(), config["shape_n"] - config["pad_shape_n"])
        return ops.humming_gemm(
            layer_config=layout,
            compute_config=json.dumps(_INDEXED),
            tuning_config=json.dumps(tuning),
            inputs=x.contiguous(),
            weight=weight,
            weight_scale=scale,
            bias=bias,
            outputs=out,
            sorted_ids=tiles.rows,
            expert_ids=tiles.experts,
            num_tokens_padded=((tiles.experts < self._experts).sum() * tiles.size).int(),
            locks=torch.zeros(_LOCKS, dtype=torch.int32, device=x.device),
            top_k=k,
            valid_shape_m=self._expected,
        )


def _tuning(config: dict[str, Any], rows: int, device: torch.device) -> dict[str, Any]:
    """humming's own choice for so many rows: (more than, up to, configuration) of which one holds them."""
    from humming.tune import get_heuristics_config

    choices = get_heuristics_config(config, gemm_type="indexed", device=device)
    return next(choice for above, upto, choice in choices if above < rows <= upto)
