"""Matrix instructions by family, from lines as compilers write them."""

from __future__ import annotations

import pytest

from masquerade.watch.instructions import families

PTX = [
    ("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%r1,%r2}, %rd1, %rd2, 1, 1, 1, 0, 1;", "wgmma bf16"),
    ("@%p1 wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e5m2 {%r1}, %rd1, %rd2;", "wgmma e4m3 x e5m2"),
    ("tcgen05.mma.cta_group::1.kind::f8f6f4 [ %r294 + 0 ], %rd136, %rd137, %r27, %p6;", "tcgen05 f8f6f4"),
    ("tcgen05.mma.cta_group::2.kind::mxf4.block_scale.block32 [ %r468 + 0 ], %rd150;", "tcgen05 mxf4 block-scaled"),
    ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 { %r1 }, { %r2 }, { %r3 }, { %r1 };", "mma.sync bf16"),
    ("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32 { %r1 }, { %r2 };", "mma.sync s8"),
    (
        "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0 { %r1 };",
        "mma.sync mxf4nvf4 block-scaled e2m1",
    ),
]
AMD = [
    ("v_mfma_f32_32x32x8bf16_1k v[0:15], v[32:33], v[66:67], 0", "mfma bf16"),
    ("v_mfma_f32_32x32x8f16 v[0:15], v[36:37], v[32:33], 0", "mfma f16"),
    ("v_mfma_f32_32x32x8_bf16 v[0:15], v[102:103], v[70:71], v[0:15]", "mfma bf16"),
    ("v_mfma_f32_32x32x16_fp8_bf8 v[0:15], v[2:3], v[4:5], 0", "mfma fp8 x bf8"),
    ("v_mfma_i32_32x32x16_i8 v[0:15], v[84:85], v[76:77], v[0:15]", "mfma i8"),
    ("v_mfma_f32_32x32x64_f8f6f4 v[0:15], v[68:75], v[60:67], 0", "mfma e4m3"),
    ("v_mfma_scale_f32_32x32x64_f8f6f4 v[0:15], v[12:15], v[56:59], 0, v5, v6 cbsz:4 blgp:4", "mfma block-scaled e2m1"),
    ("v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[1:8], v[9:16], 0, v5, v6 cbsz:4", "mfma block-scaled e2m1 x e4m3"),
    ("v_wmma_f32_16x16x16_fp8_fp8 v[106:113], v[130:131], v[142:143], v[106:113]", "wmma fp8"),
    ("v_wmma_f32_16x16x16_bf16_w32 v[0:7], v[1:8], v[9:16], 0", "wmma bf16"),
    ("v_wmma_i32_16x16x64_iu8 v[0:7], v[38:45], v[14:21], 0 neg_lo:[1,1,0]", "wmma iu8"),
    (
        "v_wmma_scale_f32_16x16x128_f8f6f4 v[0:7], v[32:39], v[8:15], 0, v1, v2 "
        "matrix_a_fmt:MATRIX_FMT_FP4 matrix_b_fmt:MATRIX_FMT_BF8",
        "wmma block-scaled e2m1 x e5m2",
    ),
]


@pytest.mark.parametrize(("line", "family"), PTX + AMD)
def test_a_family(line: str, family: str) -> None:
    assert families(f"\tadd.s32 %r1, %r2;\n\t{line}\n\t{line}\n") == {family: 2}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\tfma.rn.f32 %f1, %f2, %f3, %f4;\n\tv_fma_f32 v1, v2, v3, v4\n",
        "\twgmma.fence.sync.aligned;\n\twgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;\n",
        "\ttcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 128;\n",
        "// mma.sync in a comment about v_mfma\n",
    ],
)
def test_none_is_an_answer(text: str) -> None:
    assert families(text) == {}
