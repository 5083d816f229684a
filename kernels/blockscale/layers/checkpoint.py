"""Expert weights from checkpoints in gpt-oss's and DeepSeek-V4's naming, stacked as the kernels read them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch


class ExpertWeights(NamedTuple):
    """Plain MXFP4 weights of one MoE layer: packed e2m1, e8m0 codes, and biases where the model has them."""

    w13: torch.Tensor  # (E, 2 I, H / 2) uint8
    w13_scale: torch.Tensor  # (E, 2 I, H / 32) uint8
    w2: torch.Tensor  # (E, H, I / 2) uint8
    w2_scale: torch.Tensor  # (E, H, I / 32) uint8
    w13_bias: torch.Tensor | None = None  # (E, 2 I)
    w2_bias: torch.Tensor | None = None  # (E, H)


def read(path: str | Path) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file, or of all those in a folder. Raises FileNotFoundError if there is none."""
    from safetensors.torch import load_file

    path = Path(path)
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    if not files or not files[0].exists():
        raise FileNotFoundError(f"{path}: no safetensors file there")
    return {name: tensor for file in files for name, tensor in load_file(file).items()}


def gpt_oss_experts(tensors: Mapping[str, torch.Tensor], layer: int) -> ExpertWeights:
    """gpt-oss: `model.layers.N.mlp.experts.gate_up_proj_blocks` and its like; rows are interleaved.

    Blocks are (E, rows, columns / 32, 16). KeyError naming what is missing.
    """
    prefix = f"model.layers.{layer}.mlp.experts."
    w13, w2 = (_get(tensors, f"{prefix}{name}_blocks").flatten(-2) for name in ("gate_up_proj", "down_proj"))
    w13_scale, w2_scale = (_get(tensors, f"{prefix}{name}_scales") for name in ("gate_up_proj", "down_proj"))
    biases = (tensors.get(f"{prefix}{name}_bias") for name in ("gate_up_proj", "down_proj"))
    return ExpertWeights(w13, w13_scale, w2, w2_scale, *biases)


def deepseek_v4_experts(tensors: Mapping[str, torch.Tensor], layer: int) -> ExpertWeights:
    """DeepSeek-V4: `layers.N.ffn.experts.E.w1.weight` and `.scale`: w1 gates, w3 ups, w2 down; gates before ups.

    Weights are int8 bytes and scales float8_e8m0fnu. KeyError naming what is missing.
    """
    prefix = f"layers.{layer}.ffn.experts."
    count = 0
    while f"{prefix}{count}.w1.weight" in tensors:
        count += 1
    if not count:
        raise KeyError(f"{prefix}0.w1.weight is not in the checkpoint")

    def stacked(kind: str) -> tuple[torch.Tensor, torch.Tensor]:
        w1, w2, w3 = (
            torch.stack([_get(tensors, f"{prefix}{e}.{w}.{kind}").view(torch.uint8) for e in range(count)])
            for w in ("w1", "w2", "w3")
        )
        return torch.cat([w1, w3], dim=1), w2

    (w13, w2), (w13_scale, w2_scale) = stacked("weight"), stacked("scale")
    return ExpertWeights(w13, w13_scale, w2, w2_scale)


def _get(tensors: Mapping[str, torch.Tensor], name: str) -> torch.Tensor:
    if name not in tensors:
        raise KeyError(f"{name} is not in the checkpoint")
    return tensors[name]
