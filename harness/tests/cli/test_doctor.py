"""`masquerade doctor`: what this host is, and why some suites cannot run on it."""

from __future__ import annotations

import json
import sys
import venv
from dataclasses import replace

import pytest

from masquerade.cli.environment import Environment, TorchBuild, ask
from masquerade.cli.failures import ToolError
from masquerade.stage import StageError


def abilities(done) -> dict[str, dict]:
    return {f"{ability['kind']}: {ability['name']}": ability for ability in json.loads(done.stdout)["abilities"]}


def test_a_host_without_accelerators_can_do_all_but_their_numerics(masquerade) -> None:
    done = masquerade("doctor", "--json")
    assert done.exit_code == 0, done.output
    told = abilities(done)
    assert told["stage: fork"]["able"] and told["stage: fresh"]["able"]
    assert told["suite: imports, calls, routing"]["able"]
    for platform in ("cuda", "rocm", "xpu"):
        suite = told[f"suite: numerics on {platform}"]
        assert suite["able"] or "no " in suite["why"]


def test_a_blind_stage_is_no_stage_and_ends_with_3(masquerade, stage) -> None:
    stage.control_findings = ()
    done = masquerade("doctor", "--json")
    assert done.exit_code == 3
    assert not abilities(done)["stage: fork"]["able"]
    assert abilities(done)["stage: fork"]["why"] == "the positive control gave ok: blind"
    assert not abilities(done)["suite: imports, calls, routing"]["able"]


def test_why_a_stage_does_not_start_is_told(masquerade, stage) -> None:
    stage.start_error = StageError("the server refuses to start: /dev/nvidia0 is open")
    done = masquerade("doctor")
    assert done.exit_code == 3
    assert "/dev/nvidia0 is open" in done.stdout
    assert "no stage works here" in done.stderr


def test_for_people_it_is_a_list(masquerade) -> None:
    done = masquerade("doctor")
    assert done.exit_code == 0
    for word in ("system", "python", "torch", "triton", "NVIDIA", "AMD", "Intel", "fork", "numerics on cuda"):
        assert f"\n  {word} " in done.stdout


def test_another_interpreter_answers_for_itself(tmp_path) -> None:
    venv.create(tmp_path / "env", with_pip=False)
    told = ask(str(tmp_path / "env/bin/python"))
    assert told.torch is None and told.triton is None
    assert told.executable.startswith(str(tmp_path))


def test_intels_triton_is_a_triton(tmp_path) -> None:
    venv.create(tmp_path / "env", with_pip=False)
    [site] = (tmp_path / "env").glob("lib/python*/site-packages")
    (site / "triton").mkdir()
    (site / "triton/__init__.py").write_text("raise SystemExit('imported')\n")
    (site / "triton_xpu-3.3.0b1.dist-info").mkdir()
    (site / "triton_xpu-3.3.0b1.dist-info/METADATA").write_text("Name: triton-xpu\nVersion: 3.3.0b1\n")
    assert ask(str(tmp_path / "env/bin/python")).triton == "3.3.0b1 (triton-xpu)"


def test_a_build_is_read_from_its_version_file_and_never_imported(tmp_path) -> None:
    venv.create(tmp_path / "env", with_pip=False)
    [site] = (tmp_path / "env").glob("lib/python*/site-packages")
    (site / "torch").mkdir()
    (site / "torch/__init__.py").write_text("raise SystemExit('imported')\n")
    (site / "torch/version.py").write_text(
        "from typing import Optional\n__version__ = '2.13.0+rocm7.0'\n"
        "cuda: Optional[str] = None\nhip: Optional[str] = '7.0.51831'\n"
    )
    told = ask(str(tmp_path / "env/bin/python"))
    assert told.torch is not None
    assert str(told.torch) == "2.13.0+rocm7.0, ROCm 7.0.51831 build"
    assert told.torch.platforms == ("rocm", "cpu")


@pytest.mark.parametrize("text", ["#!/bin/sh\necho nonsense\n", "#!/bin/sh\necho it is broken >&2; exit 1\n", "\x00"])
def test_an_interpreter_that_does_not_answer_is_an_error(tmp_path, text) -> None:
    (tmp_path / "python").write_text(text)
    (tmp_path / "python").chmod(0o755)
    with pytest.raises(ToolError, match="does not answer"):
        ask(str(tmp_path / "python"))


def test_a_suite_needs_the_device_and_the_build() -> None:
    from masquerade.cli.doctor import _suites
    from masquerade.machines.hardware import Accelerators

    card = Accelerators("NVIDIA", "cuda", ("NVIDIA H200",), ())
    build = TorchBuild("2.13.0", "/x", "13.0", None, None)
    here = Environment("3.11.7", sys.executable, "Linux", True, build, "3.9.0")

    def numerics(environment: Environment, accelerators: Accelerators):
        return _suites(environment, (accelerators,), True)[-1]

    assert numerics(here, card).able
    cpu_build = replace(here, torch=replace(build, cuda=None))
    assert numerics(cpu_build, card).why == "this torch is no cuda build"
    assert numerics(replace(here, torch=None), card).why == "torch is not installed"
    assert numerics(here, replace(card, devices=(), missing=("no x",))).why == "no NVIDIA device"
