"""/proc/cpuinfo in the form that each architecture's kernel gives it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from masquerade import machines
from masquerade.fakes import cpuinfo
from masquerade.fakes.world import UnknownValueError, World


def render(machine: str, count: int = 3, **cpu: Any) -> str:
    known = {
        "vendor_id": None,
        "model_name": None,
        "flags": "unknown",
        "cores": "unknown",
        "implementer": None,
        "part": None,
    }
    return cpuinfo.render(
        World({"id": "m", "platform": "cpu", "host": {"machine": machine, "cpu": {**known, **cpu}}}), count
    )


def fields(text: str) -> list[dict[str, str]]:
    """As its readers take it apart: paragraphs of `name : value`."""
    paragraphs = [part for part in text.split("\n\n") if part.strip()]
    return [dict(re.findall(r"^(.*?)\s*: ?(.*)$", part, re.MULTILINE)) for part in paragraphs]


def test_x86() -> None:
    text = render("x86_64", vendor_id="AuthenticAMD", model_name="AMD EPYC 9655", flags=["fpu", "avx2"], cores=2)
    first, second = fields(text)
    assert text.startswith("processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 9655\n")
    assert first["flags"].split() == ["fpu", "avx2"]
    assert (first["processor"], second["processor"]) == ("0", "1")
    assert first["cpu cores"] == first["siblings"] == "2"
    assert "cpu MHz" not in first


def test_aarch64() -> None:
    first, *_ = fields(render("aarch64", flags=["fp", "asimd", "sve2"], implementer="0x41", part="0xd4f", cores=1))
    assert first["Features"].split() == ["fp", "asimd", "sve2"]
    assert (first["CPU implementer"], first["CPU part"], first["CPU architecture"]) == ("0x41", "0xd4f", "8")
    assert "model name" not in first


def test_ppc64le() -> None:
    first, *_ = fields(render("ppc64le", model_name="POWER10 (architected), altivec supported", flags=[], cores=2))
    assert first["cpu"] == "POWER10 (architected), altivec supported"


def test_s390x() -> None:
    text = render("s390x", vendor_id="IBM/S390", flags=["vx", "vxe"], cores=2)
    head = fields(text)[0]
    assert (head["vendor_id"], head["# processors"], head["features"].split()) == ("IBM/S390", "2", ["vx", "vxe"])
    assert text.count("cpu number") == 2


def test_riscv64() -> None:
    first, *_ = fields(render("riscv64", flags=["rv64imafdcv", "zba"], cores=1))
    assert first["isa"] == "rv64imafdcv_zba"
    assert first["hart"] == "0"


def test_unknown_flags_are_not_left_out() -> None:
    with pytest.raises(UnknownValueError, match=r"host\.cpu\.flags"):
        render("x86_64", model_name="AMD EPYC 9655")


def test_unknown_cores_are_counted_as_the_host_has_them() -> None:
    assert len(fields(render("x86_64", flags=["fpu"]))) == 3


@pytest.mark.parametrize("name", [name for name in machines.names() if name != "here"])
def test_each_machine_of_the_zoo_renders_or_says_what_it_lacks(name: str) -> None:
    world = World(machines.resolve(name).to_json())
    if world.known("host.system") == "Darwin":
        return
    try:
        text = cpuinfo.render(world, 2)
    except UnknownValueError as error:
        assert "host." in str(error)
    else:
        assert "processor" in text
