"""DeepGEMM's scale layout on Blackwell: four e8m0 codes in an int32, rows innermost. On sm_90 it takes fp32 scales."""

from __future__ import annotations

import torch

_ALIGNMENT = 4  # rows, so that a column starts at a multiple of 16 bytes, as TMA needs


def pack_scale(codes: torch.Tensor) -> torch.Tensor:
    """(..., rows, k) e8m0 codes (uint8) to (..., rows, ceil(k / 4)) int32, strides (..., 1, rows padded to 4).

    Byte j of a word holds column 4 * word + j. Padding, of columns and between rows, is zero. ValueError for scales of
    more than a byte, and below two dimensions.
    """
    if codes.dim() < 2 or codes.element_size() != 1:
        got = f"{codes.dtype} of shape {tuple(codes.shape)}"
        raise ValueError(f"codes: got {got}, expected torch.uint8 of shape (..., rows, k)")
    *leading, rows, k = codes.shape
    words, height = -(-k // 4), -(-rows // _ALIGNMENT) * _ALIGNMENT
    bytes_ = codes.new_zeros(*leading, height, words * 4)
    bytes_[..., :rows, :k] = codes
    packed = torch.empty(*leading, words, height, dtype=torch.int32, device=codes.device)
    packed.copy_(bytes_.view(torch.int32).transpose(-1, -2))
    return packed.transpose(-1, -2)[..., :rows, :]


def unpack_scale(packed: torch.Tensor, k: int) -> torch.Tensor:
    """The inverse of `pack_scale`: (..., rows, k) codes. ValueError if `packed` is too narrow for k."""
    if packed.shape[-1] != -(-k // 4):
        raise ValueError(f"packed: got {packed.shape[-1]} columns, expected {-(-k // 4)} for k = {k}")
    rows_first = torch.empty(packed.shape, dtype=torch.int32, device=packed.device).copy_(packed)
    return rows_first.view(torch.uint8)[..., :k].contiguous()
