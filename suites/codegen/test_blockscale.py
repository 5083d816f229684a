"""What a change of a kernel or of its configuration is told as. The contracts themselves are in masquerade.toml."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from masquerade.cli import main
from masquerade.contracts import Configuration, collect, load, run
from masquerade.stage import Stage

HERE = Path(__file__).parent
KERNELS = HERE.parents[1] / "kernels"

pytest.importorskip("triton")


@pytest.fixture
def edited(tmp_path: Path) -> Path:
    """A copy of blockscale."""
    ignored = shutil.ignore_patterns("__pycache__", "tests")
    shutil.copytree(KERNELS / "blockscale", tmp_path / "blockscale", ignore=ignored)
    return tmp_path


def replaced(root: Path, file: str, old: str, new: str) -> None:
    path = root / "blockscale" / file
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def told(stage: Stage, path: Path, *ids: str) -> dict[str, list[str]]:
    """The messages of these cases, with blockscale from `path`."""
    configuration: Configuration = load(file=HERE / "masquerade.toml").amended(path=(str(path),))
    cases = [case for case in collect(configuration.contracts, stage.discover) if case.id in ids]
    return {case.id: [f.message for f in record.findings] for case, record in run(configuration, stage, cases)}


def test_operands_that_are_widened_before_the_dot_lose_the_native_instruction(stage: Stage, edited: Path) -> None:
    kernel = "kernels/triton/fp8_block_gemm.py"
    replaced(edited, kernel, "tl.dot(a, tl.trans(b))", "tl.dot(a.to(tl.bfloat16), tl.trans(b).to(tl.bfloat16))")
    found = told(stage, edited, *(f"codegen/fp8-block-gemm-tiles/small@{machine}" for machine in ("h200", "mi355x")))
    for machine, says in (
        ("h200", "sm_90 lost native fp8 matrix instructions: _gemm has wgmma bf16, and had wgmma e4m3"),
        ("mi355x", "gfx950 lost native fp8 matrix instructions: _gemm has mfma bf16, and had mfma e4m3"),
    ):
        messages = [message.partition(" (")[0] for message in found[f"codegen/fp8-block-gemm-tiles/small@{machine}"]]
        assert [message for message in messages if "native" in message] == [says]  # and not the requirement besides


def test_scaled_operands_that_are_dequantized_lose_the_block_scaled_instruction(stage: Stage, edited: Path) -> None:
    native = "x_scales, multiplies_mxfp4(arch), config)"
    replaced(edited, "kernels/ocp_mx_linear.py", native, "x_scales, False, config)")
    [found] = told(stage, edited, "codegen/ocp-mx-linear/decode@mi355x").values()
    assert (
        "gfx950 lost block-scaled matrix instructions and native fp4 matrix instructions: "
        "_gemm has mfma bf16, and had mfma block-scaled e2m1"
    ) in [message.partition(" (")[0] for message in found]


def test_a_scan_lists_launches_and_what_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE)
    kernel = "blockscale.kernels.triton.fp8_block_gemm:fp8_block_gemm"
    paths = ["--path", "../../kernels", "--path", "."]
    how = [
        "--factory",
        "blockscale_launches:fp8_block_gemm_tiles",
        "--env",
        "TRITON_DEFAULT_FP_FUSION=1",
        "--report",
        "json:-",
        "-j",
        "1",
    ]
    done = CliRunner().invoke(main, ["scan", kernel, *how, *paths, "--on", "h200,mi300x,mi355x,rtx5090"])
    assert done.exit_code == 1, done.output
    checks = {check["machine"]: check for check in json.loads(done.stdout)["checks"]}
    assert {machine: check["verdict"] for machine, check in checks.items()} == {
        "h200": "ok", "mi300x": "out-of-resources", "mi355x": "ok", "rtx5090": "ok",
    }  # fmt: skip
    [finding] = checks["mi300x"]["findings"]
    assert finding["message"] == "it needs 98304 of shared memory, and the limit is 65536"
    launches = {machine: [launch["kernel"] for launch in check["launches"]] for machine, check in checks.items()}
    assert launches == {"h200": ["_gemm"], "mi300x": [], "mi355x": ["_gemm"], "rtx5090": ["_gemm"]}
