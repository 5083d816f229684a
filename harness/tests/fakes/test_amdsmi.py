"""AMD SMI: names, units and errors of the amdsmi package."""

from __future__ import annotations

from typing import Any

import pytest

INSTALL = "from masquerade.fakes import amdsmi as fake\nfake.install(world)\n"


def test_what_serving_engines_and_torch_ask(child: Any) -> None:
    found = child(
        INSTALL
        + """
import amdsmi
from amdsmi import AmdSmiException, amdsmi_get_gpu_asic_info, amdsmi_init, amdsmi_topo_get_link_type
import amdsmi.amdsmi_interface
answer["early"] = error(amdsmi.amdsmi_get_processor_handles)
amdsmi_init()
handles = amdsmi.amdsmi_get_processor_handles()
answer["count"] = len(handles)
asic = amdsmi_get_gpu_asic_info(handles[0])
answer["asic"] = [asic[key] for key in ("market_name", "device_id", "target_graphics_version", "num_compute_units")]
answer["serial"] = asic["asic_serial"]
answer["usage"] = amdsmi.amdsmi_get_gpu_vram_usage(handles[0])
answer["vram"] = [amdsmi.amdsmi_get_gpu_vram_info(handles[0])[key] for key in ("vram_size", "vram_bit_width")]
answer["hip"] = [amdsmi.amdsmi_get_gpu_enumeration_info(handle)["hip_id"] for handle in handles]
answer["power"] = [amdsmi.amdsmi_get_power_info(handles[0])[key]
                   for key in ("average_socket_power", "current_socket_power", "power_limit")]
answer["cap"] = amdsmi.amdsmi_get_power_cap_info(handles[0])["power_cap"]
answer["clock"] = amdsmi.amdsmi_get_clock_info(handles[0], amdsmi.AmdSmiClkType.GFX)["max_clk"]
answer["temperature"] = amdsmi.amdsmi_get_temp_metric(
    handles[0], amdsmi.AmdSmiTemperatureType.JUNCTION, amdsmi.AmdSmiTemperatureMetric.CURRENT)
answer["activity"] = amdsmi.amdsmi_get_gpu_activity(handles[0])["gfx_activity"]
answer["processes"] = amdsmi.amdsmi_get_gpu_process_list(handles[0])
answer["uuid"] = amdsmi.amdsmi_get_gpu_device_uuid(handles[0])
answer["bdf"] = amdsmi.amdsmi_get_gpu_device_bdf(amdsmi.amdsmi_get_processor_handle_from_bdf("0000:07:00.0"))
answer["self"] = amdsmi_topo_get_link_type(handles[0], handles[0])
answer["link"] = error(amdsmi_topo_get_link_type, handles[0], handles[1])
answer["unknown"] = error(lambda: asic["oam_id"])
answer["get"] = error(asic.get, "oam_id")
answer["none"] = asic.get("no such field", "none")
answer["wrong"] = error(amdsmi_get_gpu_asic_info, 3)
answer["unanswered"] = error(amdsmi.amdsmi_get_gpu_metrics_info, handles[0])
answer["base"] = issubclass(amdsmi.AmdSmiLibraryException, AmdSmiException)
amdsmi.amdsmi_shut_down()
answer["late"] = error(amdsmi_get_gpu_asic_info, handles[0])
""",
        "mi300xx2",
        env={"HIP_VISIBLE_DEVICES": "1"},
    )
    assert found["early"].endswith("32 | AMDSMI_STATUS_NOT_INIT - Device not initialized")
    assert found["count"] == 2
    assert found["asic"][1:] == ["0x74a1", "gfx942", 304]
    assert found["serial"].startswith("0x")
    assert len(found["serial"]) == 18
    assert found["usage"]["vram_total"] == found["vram"][0]
    assert found["hip"] == [0, 1]
    assert found["power"] == ["N/A", 50, 750]
    assert found["cap"] == 750_000_000
    assert found["clock"] == 2100
    assert found["temperature"] == 30
    assert found["activity"] == 0
    assert found["processes"] == []
    assert found["bdf"] == "0000:07:00.0"
    assert found["self"] == {"hops": 0, "type": 0}
    assert found["link"].startswith("UnknownValueError: amdsmi.amdsmi_topo_get_link_type asked for interconnect")
    for key in ("unknown", "get"):
        assert found[key].startswith(
            "UnknownValueError: amdsmi.amdsmi_get_gpu_asic_info()['oam_id'] asked for devices.0.oam_id"
        )
    assert found["none"] == "none"
    assert found["wrong"].startswith("AmdSmiParameterException: Invalid parameter")
    assert found["unanswered"].startswith("NoAnswerError: amdsmi.amdsmi_get_gpu_metrics_info was called")
    assert found["base"] is True
    assert found["late"].endswith("AMDSMI_STATUS_NOT_INIT - Device not initialized")


def test_an_unknown_leaf_is_named_as_the_machine_file_names_it(child: Any) -> None:
    found = child(
        INSTALL + "import amdsmi\namdsmi.amdsmi_init()\n"
        "asic = amdsmi.amdsmi_get_gpu_asic_info(amdsmi.amdsmi_get_processor_handles()[0])\n"
        "answer['error'] = error(lambda: asic['asic_serial'])",
        "mi300x",
        {"devices.0.serial": "unknown"},
    )
    assert "devices.0.serial" in found["error"]


def test_older_cards_give_the_average_power(child: Any) -> None:
    found = child(
        INSTALL + "import amdsmi\namdsmi.amdsmi_init()\n"
        "power = amdsmi.amdsmi_get_power_info(amdsmi.amdsmi_get_processor_handles()[0])\n"
        "answer['power'] = [power['average_socket_power'], power['current_socket_power']]",
        "mi210",
    )
    assert found == {"power": [50, "N/A"]}


@pytest.mark.parametrize(
    ("said", "code"), [("Driver not loaded", 34), ("Initialization error", 18), ("something else", 34)]
)
def test_a_failing_library_gives_its_own_error(child: Any, said: str, code: int) -> None:
    changes = {"management.amdsmi": "failing", "fault": {"kind": "broken", "management_error": said}}
    found = child(
        INSTALL + "import amdsmi\ntry:\n    amdsmi.amdsmi_init()\nexcept amdsmi.AmdSmiException as e:\n"
        "    answer['code'] = e.err_code",
        "mi300x",
        changes,
    )
    assert found == {"code": code}


def test_absent_amdsmi_is_not_found(child: Any) -> None:
    found = child(
        INSTALL + "import importlib.util\nanswer['spec'] = importlib.util.find_spec('amdsmi') is None", "h100"
    )
    assert found == {"spec": True}
