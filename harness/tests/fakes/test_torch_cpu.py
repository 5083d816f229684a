"""torch.cpu answers for the machine's processor, not for the one that this runs on."""

from __future__ import annotations

import pytest

from masquerade import machines

SOURCE = """\
import torch
NAMES = ("_is_avx2_supported", "_is_avx512_supported", "_is_avx512_bf16_supported", "_is_vnni_supported",
         "_is_amx_tile_supported", "_is_amx_fp16_supported", "_init_amx")

def answer():
    out = {name: getattr(torch.cpu, name)() for name in NAMES if hasattr(torch.cpu, name)}
    if hasattr(torch.cpu, "get_capabilities"):
        out["capabilities"] = dict(torch.cpu.get_capabilities())
    try: out["level"] = torch.backends.cpu.get_cpu_capability()
    except RuntimeError as error: out["level"] = str(error)
    return out
"""


NAMES = ["spr", "gnr", "epyc-9655", "ryzen-5950x", "graviton4", "apple-m", "power10", "h200", "b580"]


@pytest.mark.parametrize("name", NAMES)
def test_capabilities_are_the_machines(ask, name: str) -> None:
    known = machines.resolve(name).to_json()["host"]["torch_cpu"]
    told = ask(SOURCE, on=name)
    level = told.pop("level")
    capabilities = told.pop("capabilities", {})
    assert told == {probe: known[probe] for probe in told} and len(told) >= 5
    assert capabilities == (known["_get_cpu_capability"] if capabilities else {})
    if known["get_cpu_capability"] == "unknown":
        assert f"host.torch_cpu.get_cpu_capability, which machine {name} does not know" in level
    else:
        assert level == known["get_cpu_capability"]


def test_the_processor_still_computes(ask) -> None:
    source = "import torch\ndef answer(): return (torch.ones(64, 64) @ torch.ones(64, 64)).sum().item()"
    assert ask(source, on="graviton4") == 64.0**3
