"""The oracles: each rule's yes and no, each refusal's reason, explicit requests, switches, and the order."""

from __future__ import annotations

import re

import pytest

from blockscale.kernels import dispatch
from blockscale.oracle.fp8_block_gemm import Fp8BlockGemmProblem, select_fp8_block_gemm_backend
from blockscale.oracle.mxfp4_moe import Mxfp4MoEProblem, select_mxfp4_moe_backend
from blockscale.oracle.ocp_mx_linear import OcpMxLinearProblem, select_ocp_mx_linear_backend

GPT_OSS = {"hidden_size": 2880, "intermediate_size": 2880}
ALIGNED = {"hidden_size": 3072, "intermediate_size": 2816}
DEEPSEEK = {"hidden_size": 7168, "intermediate_size": 2048, "model_family": "deepseek-v4", "activation": "silu"}
ALL = ("triton", "aiter", "deep_gemm", "humming")

MOE = [  # platform, arch, installed, problem, wanted backend
    ("cuda", "sm_90", ALL, GPT_OSS, "TRITON"),
    ("cuda", "sm_100", ALL, GPT_OSS, "TRITON"),
    ("cuda", "sm_120", ALL, GPT_OSS, "TRITON"),
    ("cuda", "sm_75", ALL, GPT_OSS, "EMULATION"),
    ("cuda", "sm_90", (), GPT_OSS, "EMULATION"),
    ("cuda", None, ALL, GPT_OSS, "EMULATION"),
    ("rocm", "gfx950", ALL, GPT_OSS, "TRITON"),  # 2880 is no multiple of 256
    ("rocm", "gfx950", ALL, ALIGNED, "AITER_MXFP4_BF16"),
    ("rocm", "gfx950:sramecc+:xnack-", ALL, ALIGNED, "AITER_MXFP4_BF16"),
    ("rocm", "gfx942", ALL, ALIGNED, "TRITON"),  # where CK's kernel crashes
    ("rocm", "gfx1250", ALL, ALIGNED, "TRITON"),
    ("rocm", "gfx1201", ALL, ALIGNED, "TRITON"),
    ("rocm", "gfx950", ("triton",), ALIGNED, "TRITON"),
    ("rocm", "gfx950", ALL, ALIGNED | {"eplb": True}, "TRITON"),
    ("rocm", "gfx950", ALL, ALIGNED | {"ep_size": 8, "dp_size": 8}, "AITER_MXFP4_BF16"),
    ("rocm", "gfx950", ALL, ALIGNED | {"activation_format": "mxfp4", "activation": "silu"}, "AITER_MXFP4_MXFP4"),
    ("rocm", "gfx950", ALL, ALIGNED | {"activation_format": "mxfp8"}, "TRITON"),
    ("rocm", "gfx950", ALL, DEEPSEEK, "AITER_MXFP4_BF16"),
    ("rocm", "gfx942", ALL, DEEPSEEK, "TRITON_UNFUSED"),
    ("cuda", "sm_100", ALL, DEEPSEEK | {"activation_format": "mxfp8"}, "TRITON"),
    ("cuda", "sm_100", ALL, DEEPSEEK | {"activation_format": "fp8"}, "DEEPGEMM_MXFP4"),
    ("cuda", "sm_121", ALL, DEEPSEEK | {"activation_format": "fp8", "eplb": True}, "DEEPGEMM_MXFP4"),
    ("cuda", "sm_110", ALL, DEEPSEEK | {"activation_format": "fp8"}, "TRITON"),
    ("cuda", "sm_90", ALL, DEEPSEEK | {"activation_format": "fp8"}, "TRITON"),
    ("cuda", "sm_90", ALL, DEEPSEEK, "HUMMING"),
    ("cuda", "sm_90", ALL, DEEPSEEK | {"eplb": True}, "TRITON"),
    ("cuda", "sm_90", ("humming",), GPT_OSS, "HUMMING"),
    ("cuda", "sm_75", ALL, DEEPSEEK, "EMULATION"),
    ("xpu", None, ALL, DEEPSEEK, "XPU"),
    ("xpu", None, (), GPT_OSS, "EMULATION"),
    ("cpu", None, ALL, GPT_OSS, "CPU"),
    ("cpu", None, (), DEEPSEEK, "CPU"),
]


@pytest.mark.parametrize(("platform", "arch", "installed", "problem", "want"), MOE)
def test_mxfp4_moe(here, platform, arch, installed, problem, want):
    here(platform, arch, installed)
    decision = select_mxfp4_moe_backend(Mxfp4MoEProblem(**problem))
    assert decision.name == want
    assert all(reason.endswith(".") for _, reason in decision.refused), decision.refused


def test_a_triton_too_old_for_the_arch_is_refused(here, monkeypatch):
    here("rocm", "gfx1250", ALL)
    monkeypatch.setattr(dispatch, "triton_version", lambda: (3, 6, 0))
    decision = select_mxfp4_moe_backend(Mxfp4MoEProblem(**GPT_OSS))
    assert decision.name == "EMULATION"
    assert refusals(decision)["TRITON"] == "Triton 3.6.0 is too old for gfx1250: it takes 3.7.1 or newer."
    here("rocm", "gfx942", ALL)
    monkeypatch.setattr(dispatch, "triton_version", lambda: (3, 6, 0))
    assert select_mxfp4_moe_backend(Mxfp4MoEProblem(**GPT_OSS)).name == "TRITON"


def refusals(decision):
    return dict(decision.refused)


def test_reasons(here):
    here("rocm", "gfx950", ALL)
    aiter = refusals(select_mxfp4_moe_backend(Mxfp4MoEProblem(**GPT_OSS)))["AITER_MXFP4_BF16"]
    assert aiter == "It needs sizes in multiples of 256, and they are 2880 (hidden) and 2880 (intermediate)."
    here("rocm", "gfx942", ALL)
    reasons = refusals(select_mxfp4_moe_backend(Mxfp4MoEProblem(**ALIGNED)))
    assert reasons["AITER_MXFP4_BF16"] == "It needs gfx950, and this is gfx942."
    here("cuda", "sm_75", ())
    reasons = refusals(select_mxfp4_moe_backend(Mxfp4MoEProblem(**GPT_OSS)))
    assert reasons["AITER_MXFP4_BF16"] == "It needs rocm, and this platform is cuda."
    assert reasons["CPU"] == "It needs cpu, and this platform is cuda."
    here("cuda", None, ALL)
    reasons = refusals(select_mxfp4_moe_backend(Mxfp4MoEProblem(**GPT_OSS)))
    assert reasons["TRITON"] == "It needs to know the arch, which is unknown: nobody knows."


@pytest.mark.parametrize(
    ("value", "want"), [("0", "TRITON"), ("false", "TRITON"), ("1", "AITER_MXFP4_BF16"), ("", "TRITON")]
)
def test_the_aiter_switch_is_read_at_the_call_and_zero_is_false(here, monkeypatch, value, want):
    here("rocm", "gfx950", ALL)
    monkeypatch.setenv("BLOCKSCALE_USE_AITER", value)
    decision = select_mxfp4_moe_backend(Mxfp4MoEProblem(**ALIGNED))
    assert decision.name == want
    if want == "TRITON":
        assert refusals(decision)["AITER_MXFP4_BF16"] == "BLOCKSCALE_USE_AITER=0 switches it off."


def test_the_other_switches(here, monkeypatch):
    here("cuda", "sm_100", ALL)
    problem = Mxfp4MoEProblem(**DEEPSEEK | {"activation_format": "fp8"})
    for value, want in (("off", "TRITON"), ("1", "DEEPGEMM_MXFP4"), ("0", "TRITON")):
        monkeypatch.setenv("BLOCKSCALE_USE_DEEP_GEMM", value)
        assert select_mxfp4_moe_backend(problem).name == want
    monkeypatch.setenv("BLOCKSCALE_USE_HUMMING", "0")
    assert refusals(select_mxfp4_moe_backend(problem))["HUMMING"] == "BLOCKSCALE_USE_HUMMING=0 switches it off."


def test_every_oracle_reads_the_switch(here, monkeypatch):
    monkeypatch.setenv("BLOCKSCALE_USE_AITER", "0")
    here("rocm", "gfx950", ALL)
    assert select_ocp_mx_linear_backend(OcpMxLinearProblem(4096, 4096)).name == "TRITON_NATIVE"
    monkeypatch.setenv("BLOCKSCALE_USE_AITER", "1")
    assert select_ocp_mx_linear_backend(OcpMxLinearProblem(4096, 4096)).name == "AITER"


def test_a_switch_that_is_no_boolean(here, monkeypatch):
    here("rocm", "gfx950", ALL)
    monkeypatch.setenv("BLOCKSCALE_USE_AITER", "maybe")
    with pytest.raises(ValueError, match="BLOCKSCALE_USE_AITER: got 'maybe', expected 1 or 0"):
        select_mxfp4_moe_backend(Mxfp4MoEProblem(**ALIGNED))


def test_padding(here):
    here("rocm", "gfx950", ALL)
    decision = select_mxfp4_moe_backend(Mxfp4MoEProblem(**GPT_OSS))
    assert decision.padding.padded(2880, 2880) == (3072, 3072)
    silu = select_mxfp4_moe_backend(Mxfp4MoEProblem(**DEEPSEEK))
    assert (silu.name, silu.padding.padded(2000, 7100)) == ("AITER_MXFP4_BF16", (2048, 7168))
    here("cuda", "sm_90", ALL)
    assert select_mxfp4_moe_backend(Mxfp4MoEProblem(**GPT_OSS)).padding.padded(360, 2880) == (384, 2880)
    here("cpu")
    assert select_mxfp4_moe_backend(Mxfp4MoEProblem(**GPT_OSS)).padding.padded(360, 2880) == (384, 2880)


@pytest.mark.parametrize("platform", ["cuda", "rocm", "xpu", "cpu"])
def test_lora_is_not_implemented_and_says_so_alike(here, platform):
    here(platform, {"cuda": "sm_90", "rocm": "gfx950"}.get(platform), ALL)
    problem = Mxfp4MoEProblem(**GPT_OSS, lora=True)
    for backend in (None, "TRITON"):
        with pytest.raises(NotImplementedError, match=r"^MXFP4 MoE with LoRA is not implemented on any platform\.$"):
            select_mxfp4_moe_backend(problem, backend)


def test_explicit_backend(here):
    here("rocm", "gfx942", ALL)
    assert select_mxfp4_moe_backend(Mxfp4MoEProblem(**ALIGNED), "EMULATION").name == "EMULATION"
    with pytest.raises(
        ValueError, match=r"'AITER_MXFP4_BF16', which cannot serve: It needs gfx950, and this is gfx942\."
    ):
        select_mxfp4_moe_backend(Mxfp4MoEProblem(**ALIGNED), "AITER_MXFP4_BF16")
    with pytest.raises(ValueError, match="got 'MARLIN', expected one of AITER_MXFP4_BF16, AITER_MXFP4_MXFP4, CPU"):
        select_mxfp4_moe_backend(Mxfp4MoEProblem(**ALIGNED), "MARLIN")


def test_nothing_left_lists_every_reason(here):
    here("cuda", "sm_90", ALL)
    problem = Mxfp4MoEProblem(**GPT_OSS | {"activation": "relu2", "is_act_and_mul": False})
    with pytest.raises(NotImplementedError) as error:
        select_mxfp4_moe_backend(problem)
    lines = str(error.value).splitlines()
    assert [re.match(r"  (\w+): .*\.$", line)[1] for line in lines[1:]] == [
        "AITER_MXFP4_BF16", "AITER_MXFP4_MXFP4", "TRITON", "TRITON_UNFUSED", "HUMMING", "XPU", "CPU", "EMULATION",
    ]  # fmt: skip
    assert "the layer has relu2 (is_act_and_mul False)" in lines[-1]


def test_what_follows_an_unmet_requirement_is_not_asked(here, monkeypatch):
    """On CUDA nobody may look for AITER: a probe hoisted before the platform check would be seen here."""
    from blockscale.platforms import libraries

    here("cuda", "sm_90", ALL)
    asked = []
    monkeypatch.setattr(libraries, "_installed", lambda module: asked.append(module) or True)
    select_mxfp4_moe_backend(Mxfp4MoEProblem(**GPT_OSS))
    assert "aiter" not in asked


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model_family": "llama"}, "model_family: got 'llama', expected one of gpt-oss, deepseek-v4"),
        ({"activation_format": "int8"}, "activation_format: got 'int8', expected one of bf16, mxfp8"),
        ({"hidden_size": 0}, "hidden_size: got 0, expected at least 1"),
        ({"ep_size": 0}, "ep_size: got 0, expected at least 1"),
        ({"hidden_pad": 2880}, "hidden_pad: got 2880, expected 0 to 2879: a part of the size"),
        ({"intermediate_pad": -1}, "intermediate_pad: got -1, expected 0 to 2879: a part of the size"),
    ],
)
def test_bad_problem(fields, message):
    with pytest.raises(ValueError, match=message):
        Mxfp4MoEProblem(**GPT_OSS | fields)


FP8 = [
    ("cuda", "sm_90", ALL, {}, "DEEP_GEMM"),
    ("cuda", "sm_90", ("triton",), {}, "TRITON"),
    ("cuda", "sm_90", ALL, {"n": 100}, "TRITON"),
    ("cuda", "sm_90", ALL, {"e8m0_scales": True}, "TRITON"),
    ("cuda", "sm_90", ALL, {"block_k": 100}, "EMULATION"),
    ("cuda", "sm_80", ALL, {}, "TRITON"),
    ("rocm", "gfx1250", ALL, {}, "UPCAST"),
    ("rocm", "gfx942", ALL, {}, "TRITON"),
    ("rocm", "gfx1201", ALL, {}, "TRITON"),
    ("xpu", None, ("triton",), {}, "TRITON"),
    ("cpu", None, ALL, {}, "CPU"),
    ("rocm", None, (), {}, "EMULATION"),
]


@pytest.mark.parametrize(("platform", "arch", "installed", "fields", "want"), FP8)
def test_fp8_block_gemm(here, platform, arch, installed, fields, want):
    here(platform, arch, installed)
    problem = Fp8BlockGemmProblem(**{"n": 4096, "k": 7168} | fields)
    assert select_fp8_block_gemm_backend(problem).name == want


def test_triton_is_never_chosen_for_fp8_on_gfx1250(here):
    here("rocm", "gfx1250", ALL)
    with pytest.raises(
        ValueError, match=r"'TRITON', which cannot serve: On gfx1250 the native FP8 block GEMM gives NaN\."
    ):
        select_fp8_block_gemm_backend(Fp8BlockGemmProblem(4096, 7168), "TRITON")


OCP = [
    ("rocm", "gfx950", ALL, "AITER"),
    ("rocm", "gfx950", ("triton",), "TRITON_NATIVE"),
    ("rocm", "gfx942", ALL, "TRITON"),
    ("rocm", "gfx1250", ALL, "TRITON_NATIVE"),
    ("cuda", "sm_103", ALL, "TRITON_NATIVE"),
    ("cuda", "sm_110", ALL, "TRITON_NATIVE"),
    ("cuda", "sm_90", ALL, "TRITON"),
    ("xpu", None, ALL, "TRITON"),
    ("cpu", None, ALL, "CPU"),
    ("cuda", "sm_90", (), "EMULATION"),
]


@pytest.mark.parametrize(("platform", "arch", "installed", "want"), OCP)
def test_ocp_mx_linear(here, platform, arch, installed, want):
    here(platform, arch, installed)
    assert select_ocp_mx_linear_backend(OcpMxLinearProblem(8192, 8192)).name == want
