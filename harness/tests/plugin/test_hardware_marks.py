"""Hardware marks: run where the hardware is, skip with a reason elsewhere, fail where it is required."""

from __future__ import annotations

import platform
import sys

import pytest

from masquerade.pytest_plugin.conditions import parse

pytestmark = pytest.mark.usefixtures("tool")

ONE = """
    import pytest
    @pytest.mark.{mark}
    def test_one(): pass
"""


def one(pytester: pytest.Pytester, mark: str) -> None:
    pytester.makepyfile(ONE.format(mark=mark))


def test_skips_elsewhere_and_says_what_is_needed_and_what_is_here(pytester, run) -> None:
    one(pytester, 'cuda("sm_90+")')
    result = run("-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*needs cuda sm_90+; here: cuda none (no *nvidia-smi*"])


@pytest.mark.parametrize(
    ("mark", "capability", "passes"),
    [
        ("cuda", "7.5", True),
        ('cuda("sm_90")', "9.0", True),
        ('cuda("sm_90")', "10.0", False),
        ('cuda("sm_90+")', "10.0", True),
        ('cuda("sm_90+")', "8.9", False),
        ('cuda("sm_80", "sm_100+")', "12.0", True),
        ('cuda("sm_80", "sm_100+")', "9.0", False),
    ],
)
def test_an_arch_of_cuda(pytester, run, tool, mark, capability, passes) -> None:
    tool("nvidia-smi", f"NVIDIA Something, {capability}, 580.82.07")
    one(pytester, mark)
    run().assert_outcomes(**{"passed" if passes else "skipped": 1})


def test_archs_of_rocm(pytester, run, tool) -> None:
    tool("rocm_agent_enumerator", "gfx000", "gfx942")
    one(pytester, 'rocm("gfx950", "gfx942")')
    run().assert_outcomes(passed=1)
    one(pytester, 'rocm("gfx950")')
    result = run("-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*needs rocm gfx950; here: rocm gfx942*"])


def test_an_arch_of_xpu_by_the_name_of_the_card(pytester, run, tool) -> None:
    tool("xpu-smi", '{"device_list": [{"device_name": "Intel(R) Arc(TM) B580 Graphics"}]}')
    one(pytester, 'xpu("bmg")')
    run().assert_outcomes(passed=1)
    one(pytester, 'xpu("pvc")')
    run().assert_outcomes(skipped=1)


def test_the_cpu_is_always_here_and_has_flags(pytester, run) -> None:
    one(pytester, "cpu")
    run().assert_outcomes(passed=1)
    one(pytester, f'cpu("{platform.machine()}")')
    run().assert_outcomes(passed=1)
    one(pytester, 'cpu("s390x")')
    result = run("-rs")
    result.stdout.fnmatch_lines([f"*needs cpu s390x; here: cpu {platform.machine()}*"])


def test_hidden_devices_are_not_here(pytester, run, tool, monkeypatch) -> None:
    tool("nvidia-smi", "NVIDIA H200, 9.0, 580.82.07")
    one(pytester, "cuda")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    result = run("-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*CUDA_VISIBLE_DEVICES= hides all of NVIDIA H200 (sm_90)*"])


def test_a_device_named_by_uuid_is_here(pytester, run, tool, monkeypatch) -> None:
    tool("nvidia-smi", "NVIDIA H200, 9.0, 580.82.07")
    one(pytester, "cuda")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-12345678")
    run().assert_outcomes(passed=1)


def test_marks_of_two_platforms_take_either_and_of_one_platform_both(pytester, run, tool) -> None:
    tool("nvidia-smi", "NVIDIA L4, 8.9, 580.82.07")
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.cuda
        class TestIt:
            @pytest.mark.rocm
            def test_either(self): pass

            @pytest.mark.cuda("sm_90+")
            def test_narrowed(self): pass
        """
    )
    result = run("-v")
    result.stdout.fnmatch_lines(["*test_either PASSED*", "*test_narrowed SKIPPED*"])


def test_required_hardware_fails_where_it_would_be_skipped(pytester, run) -> None:
    one(pytester, 'cuda("sm_90+")')
    result = run("--require-hardware", "cuda")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["needs cuda sm_90+; here: cuda none*", "--require-hardware cuda was given*"])
    assert result.ret == 1


def test_required_hardware_of_another_platform_skips_on(pytester, run, tool) -> None:
    tool("nvidia-smi", "NVIDIA L4, 8.9, 580.82.07")
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.rocm
        def test_rocm(): pass
        @pytest.mark.cuda
        def test_cuda(): pass
        """
    )
    run("--require-hardware", "cuda").assert_outcomes(passed=1, skipped=1)


def test_an_arch_may_be_required(pytester, run, tool) -> None:
    tool("rocm_agent_enumerator", "gfx942")
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.rocm("gfx942")
        def test_ours(): pass
        @pytest.mark.rocm("gfx950")
        def test_the_other_agents(): pass
        """
    )
    run("--require-hardware", "rocm:gfx942").assert_outcomes(passed=1, skipped=1)
    run("--require-hardware", "rocm:gfx950").assert_outcomes(passed=1, errors=1)
    run("--require-hardware", "rocm").assert_outcomes(passed=1, errors=1)


def test_required_hardware_that_no_test_uses_is_an_error(pytester, run) -> None:
    one(pytester, "cpu")
    result = run("--require-hardware", "cuda")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--require-hardware cuda: no selected test is marked for it*"])


@pytest.mark.parametrize(
    ("mark", "told"),
    [
        ('cuda("90")', "@pytest.mark.cuda: '90' is no arch of CUDA; write sm_90*"),
        ("cuda(90)", "@pytest.mark.cuda: 90 is no text*"),
        ('rocm("gfx950+")', "@pytest.mark.rocm: 'gfx950+': the archs of rocm have no order*"),
        ('rocm("mi300x")', "@pytest.mark.rocm: 'mi300x' is no arch of ROCm; write gfx950"),
        ('xpu("bgm")', "@pytest.mark.xpu: 'bgm' is no known arch of xpu; did you mean bmg*"),
        ('cpu("avx512")', "@pytest.mark.cpu: 'avx512' is no known arch of cpu; did you mean *"),
        ('cuda(arch="sm_90")', "@pytest.mark.cuda takes no keyword 'arch'*"),
    ],
)
def test_a_bad_condition_is_a_usage_error_that_names_mark_and_test(pytester, run, mark, told) -> None:
    one(pytester, mark)
    result = run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*::test_one: {told}"])


def test_all_bad_conditions_are_told_at_once(pytester, run) -> None:
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.cuda("a")
        def test_a(): pass
        @pytest.mark.rocm("b")
        def test_b(): pass
        """
    )
    told = run().stderr.str()
    assert "::test_a: " in told and "::test_b: " in told


@pytest.mark.parametrize("text", ["gpu", "cuda:sm_90+", "rocm:mi300x", "cuda:"])
def test_a_bad_requirement_is_a_usage_error(pytester, run, text) -> None:
    one(pytester, "cuda")
    result = run("--require-hardware", text)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"--require-hardware {text}: " in result.stderr.str()


def test_torch_is_not_imported_to_look(pytester, run) -> None:
    pytester.makepyfile(
        """
        import sys, pytest
        @pytest.mark.cuda
        def test_one(): pass
        def test_two(): assert "torch" not in sys.modules
        """
    )
    run().assert_outcomes(passed=1, skipped=1)


def test_on_xdist_workers_too(pytester, run) -> None:
    pytest.importorskip("xdist")
    one(pytester, 'cuda("sm_90+")')
    run("-n", "2").assert_outcomes(skipped=1)
    run("-n", "2", "--require-hardware", "cuda").assert_outcomes(errors=1)


def test_later_archs_count_by_number() -> None:
    assert parse("cuda", "sm_90+").accepts({"sm_103"})
    assert not parse("cuda", "sm_103+").accepts({"sm_90"})
    assert not parse("cuda", "sm_90+").accepts({sys.platform})


def test_the_tests_that_need_hardware_are_chosen_by_one_mark(pytester, run) -> None:
    pytester.makepyfile(
        """
        import pytest

        def test_plain(): pass

        @pytest.mark.cpu
        def test_any_cpu(): pass

        @pytest.mark.cpu
        @pytest.mark.cuda
        def test_any_cpu_or_cuda(): pass

        @pytest.mark.cpu("amx_tile")
        def test_amx(): pass

        @pytest.mark.cuda
        def test_cuda(): pass

        @pytest.mark.parametrize("way", [1, pytest.param(2, marks=pytest.mark.xpu)])
        def test_ways(way): pass
        """
    )
    with_hardware = ["test_amx", "test_cuda", "test_ways[2]"]
    without = ["test_plain", "test_any_cpu", "test_any_cpu_or_cuda", "test_ways[1]"]
    for expression, names in (("hardware", with_hardware), ("not hardware", without)):
        told = run("-m", expression, "--co", "-q", "--strict-markers").outlines
        assert [line.partition("::")[2] for line in told if "::" in line] == names
