"""The gated activations of MoE layers: gpt-oss's SwiGLU and DeepSeek's SiLU."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class SwiGLU:
    """gate * sigmoid(alpha * gate) * (up + shift), with gate and up clamped at `limit` first where there is one.

    `interleaved` says how w13's rows lie: g0, u0, g1, u1, ... or all gates before all ups.
    """

    name: str
    interleaved: bool
    alpha: float = 1.0
    limit: float | None = None
    shift: float = 0.0

    def __call__(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        """Elementwise on tensors of one shape, in their dtype."""
        if self.limit is not None:
            gate, up = gate.clamp(max=self.limit), up.clamp(-self.limit, self.limit)
        return gate * torch.sigmoid(self.alpha * gate) * (up + self.shift)

    def inner(self, columns: torch.Tensor, pad: int) -> torch.Tensor:
        """(..., I) fp32 of what w13 gives, (..., 2 I) with `pad` of I being padding: zero there, whatever w13 held."""
        inner = self(*self.gate_and_up(columns.float()))
        return torch.nn.functional.pad(inner[..., : inner.shape[-1] - pad], (0, pad))

    def gate_and_up(self, columns: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The two halves, as views, of a tensor (..., 2 I) whose last dimension runs over w13's rows."""
        if self.interleaved:
            return columns[..., 0::2], columns[..., 1::2]
        gate, up = columns.chunk(2, dim=-1)
        return gate, up


SWIGLU_OAI = SwiGLU("swigluoai", interleaved=True, alpha=1.702, limit=7.0, shift=1.0)
"""gpt-oss."""

SILU = SwiGLU("silu", interleaved=False)
"""DeepSeek-V3 and V4, Qwen, Mixtral."""
