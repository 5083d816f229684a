"""The JSON report keeps to its published schema."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import jsonschema
import pytest

from masquerade.report.json_report import document, render, schema
from masquerade.stage.record import SEVERITY, Line


def checked(run) -> dict:
    read = json.loads(render(run), parse_constant=pytest.fail)
    jsonschema.Draft202012Validator(schema()).validate(read)
    return read


def test_the_schema_is_a_schema_and_knows_every_kind() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    assert schema()["$defs"]["kind"]["enum"] == list(SEVERITY)


def test_a_run_is_told_whole(check, results, device_init) -> None:
    run = results([check("badpkg", "b580"), check("badpkg", "h100", device_init)], host={"python": "3.11.7"},
                  control=check("control", "h100", device_init))  # fmt: skip
    read = checked(run)
    assert [item["id"] for item in read["checks"]] == ["import:badpkg@h100", "import:badpkg@b580"]
    assert read["checks"][0]["findings"][0]["blame"] == {
        "file": "badpkg/_arch.py", "line": 5, "module": "badpkg._arch",
        "code": "return torch.cuda.get_device_capability() >= (9, 0)",
    }  # fmt: skip
    assert read["summary"] == {"subjects": 1, "checks": 2, "planned": 2, "failed": 1, "seconds": 1.25,
                               "verdicts": {"device-init": 1, "ok": 1}}  # fmt: skip
    assert read["control"]["verdict"] == "device-init"
    assert read["tool"].startswith("masquerade ")


def test_a_missing_module_that_a_platform_owns_is_named(check, results, import_error) -> None:
    owned = replace(import_error, missing="aiter.ops")
    told = checked(results([check("pkg.a", "h100", owned), check("pkg.b", "h100", import_error)]))
    [first], [second] = (item["findings"] for item in told["checks"])
    assert first["missing"] == "aiter.ops" and "missing" not in second
    assert "missing" in schema()["$defs"]["finding"]["properties"]


def test_two_runs_that_end_in_another_order_give_the_same_report(check, results, device_init) -> None:
    records = [check(name, machine) for name in ("b", "a") for machine in ("b580", "h100")]
    assert render(results(records)) == render(results(records[::-1]))


@pytest.mark.parametrize("machines", [(), ("h100",), ("h100", "b580")])
def test_each_check_is_one_line(check, results, machines) -> None:
    run = results([check("pkg", machine) for machine in machines])
    assert checked(run)["checks"] == document(run)["checks"]
    assert sum('"id": "import:pkg@' in line for line in render(run).splitlines()) == len(machines)


@pytest.mark.parametrize("value", [math.nan, -math.inf, [1, {"x": math.inf}]])
def test_numbers_that_json_lacks_are_spelt(check, results, value) -> None:
    read = checked(results([check("pkg.m:f", "h100", result=value)]))
    assert "repr" in json.dumps(read["checks"][0]["result"])


def test_a_result_of_any_depth_is_written(check, results) -> None:
    deep: list = []
    for _ in range(900):
        deep = [deep]
    assert "nested more than" in render(results([check("pkg.m:f", "h100", result=deep)]))


def test_a_subject_with_lone_surrogates_does_not_stop_the_report(check, results, device_init) -> None:
    odd = replace(device_init, blame=Line("bad\udc80.py", 1), message="\udcff\x00")
    assert render(results([check("pkg", "h100", odd)])).isascii()


def test_a_report_that_leaves_the_shape_is_refused(check, results) -> None:
    broken = document(results([check("pkg", "h100")]))
    broken["checks"][0]["verdict"] = "green"
    with pytest.raises(jsonschema.ValidationError, match="green"):
        jsonschema.validate(broken, schema())
