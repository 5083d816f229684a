"""Buildkite's annotation and its Test Engine's results."""

from __future__ import annotations

import json
from dataclasses import replace

from masquerade.contracts import Broken
from masquerade.report import buildkite, buildkite_results
from masquerade.report.results import MachineColumn
from masquerade.stage.record import Finding


def test_the_annotation_is_below_one_mebibyte(check, results, device_init) -> None:
    run = results([check(f"m{i}", "h100", replace(device_init, what=f"ü{i}" * 90)) for i in range(4000)])
    assert 1_000_000 < len(buildkite.render(run).encode()) < 1024 * 1024


def test_its_colour_is_the_worst_that_was_found(check, results, device_init) -> None:
    warning = replace(device_init, kind="thread")
    assert buildkite.style(results([check("a", "h100", device_init, warning)])) == "error"
    assert buildkite.style(results([check("a", "h100", warning)])) == "warning"
    assert buildkite.style(results([check("a", "h100")])) == "success"
    assert buildkite.style(results([check("a", "h100")], interrupted=True, planned=2)) == "error"


def test_a_step_keeps_its_context_and_two_steps_or_parallel_jobs_differ() -> None:
    step = {"BUILDKITE_STEP_KEY": "imports", "BUILDKITE_LABEL": ":python: Imports", "BUILDKITE_JOB_ID": "1"}
    assert buildkite.context(step) == buildkite.context({**step, "BUILDKITE_JOB_ID": "2"}) == "masquerade-imports"
    assert buildkite.context({"BUILDKITE_LABEL": ":python: Imports & calls"}) == "masquerade-python-Imports-calls"
    assert buildkite.context({**step, "BUILDKITE_PARALLEL_JOB": "3"}) == "masquerade-imports-3"
    assert buildkite.context({}) == "masquerade"
    assert len(buildkite.context({"BUILDKITE_LABEL": "x" * 500})) <= 100


def test_each_check_is_a_result_with_its_tags(check, results, device_init) -> None:
    found = replace(device_init, message="no driver", stack=("badpkg/cli.py:1 in <module>",))
    [fine, bad] = json.loads(buildkite_results.render(results([check("b", "mi300x", found), check("a", "h100")])))
    assert fine["tags"] == {"machine": "h100", "platform": "cuda", "arch": "sm_90"}
    assert bad["tags"] == {"machine": "mi300x", "platform": "rocm", "arch": "gfx942"}
    assert (fine["result"], bad["result"]) == ("passed", "failed")
    assert (fine["scope"], fine["name"]) == ("masquerade.h100", "import a")
    assert "failure_reason" not in fine
    assert bad["failure_reason"] == "device-init torch.cuda.get_device_capability at badpkg/_arch.py:5"
    assert bad["location"] == "badpkg/_arch.py:5"
    [more] = bad["failure_expanded"]
    assert more["backtrace"] == ["badpkg/cli.py:1 in <module>"] and "no driver" in more["expanded"]
    assert fine["history"] == {"start_at": 0.0, "end_at": 0.01, "duration": 0.01}


def test_tags_keep_to_their_limits(check, results) -> None:
    long = MachineColumn("h100" + "+é" * 200, "cuda", "")
    [row] = json.loads(buildkite_results.render(results([check("a", long.id)], machines=(long,))))
    assert "arch" not in row["tags"], "a tag may not be blank"
    assert all(0 < len(value.encode()) < 128 for value in row["tags"].values())


def test_an_upload_holds_five_thousand_results(check, results) -> None:
    parts = list(buildkite_results.parts(results([check(f"m{i}", "h100") for i in range(5001)])))
    assert [len(json.loads(part)) for part in parts] == [5000, 1]
    assert json.loads(buildkite_results.render(results([]))) == []


def test_a_warning_passes(check, results) -> None:
    [row] = json.loads(buildkite_results.render(results([check("a", "h100", Finding("thread", "T", "import", None))])))
    assert row["result"] == "passed"


def test_a_contract_that_does_not_hold_as_a_whole_fails(check, results) -> None:
    run = results([check("a", "h100")], broken=(Broken("lazy-core", "it checks nothing", "masquerade.toml", 3),))
    [_, row] = json.loads(buildkite_results.render(run))
    assert (row["name"], row["result"], row["location"]) == ("lazy-core", "failed", "masquerade.toml:3")
    assert row["failure_reason"] == "it checks nothing"
    assert buildkite.style(run) == "error"
