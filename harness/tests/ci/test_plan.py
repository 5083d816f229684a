"""Jobs are even, complete, and the same each time."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masquerade.ci.plan import Hardware, Job, plan, without
from masquerade.ci.work import PlanError

TIMES = {"lint": 20.0, "types": 40.0, "harness": 900.0, "cpu": 500.0, "cuda": 300.0, "rocm": 300.0, "xpu": 280.0}


def test_measured_times_make_even_jobs() -> None:
    jobs = plan(tuple(TIMES), 3, TIMES)
    assert [job.names for job in jobs] == [("lint", "types", "cuda", "rocm"), ("harness",), ("cpu", "xpu")]
    assert [job.seconds for job in jobs] == [660.0, 900.0, 780.0]


def test_without_times_names_are_dealt_out() -> None:
    jobs = plan(("a", "b", "c", "d"), 2, {})
    assert [job.names for job in jobs] == [("a", "c"), ("b", "d")]
    assert {job.seconds for job in jobs} == {None}


def test_what_was_not_measured_counts_as_the_median() -> None:
    jobs = plan(("a", "b", "c", "new"), 2, {"a": 10.0, "b": 100.0, "c": 20.0})
    assert {job.names for job in jobs} == {("b",), ("a", "c", "new")}


def test_a_lane_of_hardware_is_a_job_of_its_own() -> None:
    lane = Hardware.parse("gpu=cuda@gpu-h200")
    jobs = plan(("lint", "gpu", "types"), 1, {}, [lane])
    assert jobs == (Job(("lint", "types")), Job(("gpu",), None, lane))
    assert (lane.required, lane.queue) == ("cuda", "gpu-h200")
    assert Hardware.parse("gpu=rocm:gfx950@q").required == "rocm:gfx950"


@given(
    st.dictionaries(st.from_regex("[a-z]{1,6}", fullmatch=True), st.floats(0, 1e6), min_size=1, max_size=9),
    st.integers(1, 6),
)
def test_every_name_is_in_one_job_and_no_job_is_much_longer_than_the_best(times: dict[str, float], count: int) -> None:
    jobs = plan(tuple(times), count, times)
    assert sorted(itertools.chain(*(job.names for job in jobs))) == sorted(times)
    assert len(jobs) <= count and all(job.names for job in jobs)
    least = max(max(times.values()), sum(times.values()) / count)  # no plan can be shorter
    assert max(job.seconds or 0 for job in jobs) <= least * 4 / 3 + least * 1 / 3 + 1e-6


@pytest.mark.parametrize(
    "text",
    [
        "gpu",
        "gpu=cuda",
        "gpu=cuda@",
        "=cuda@q",
        "g pu=cuda@q",
        "gpu=tpu@q",
        "gpu=rocm:@q",
        "gpu=rocm:a b@q",
        "gpu=cuda@${{x}}",
    ],
)
def test_a_lane_that_is_none_is_refused_with_its_form(text: str) -> None:
    with pytest.raises(PlanError, match=r"ENVIRONMENT=PLATFORM@QUEUE|no platform"):
        Hardware.parse(text)


def test_a_lane_of_a_missing_environment_is_refused() -> None:
    with pytest.raises(PlanError, match=r"no environment 'gpu'.*known: lint"):
        plan(("lint",), 1, {}, [Hardware.parse("gpu=cuda@q")])


def test_skipping() -> None:
    assert without(("lint", "release", "release-docs"), ["release*"]) == ("lint",)
    with pytest.raises(PlanError, match="--skip lnt matches nothing; known: lint"):
        without(("lint",), ["lnt"])
    with pytest.raises(PlanError, match="nothing would be run"):
        without(("lint",), ["*"])


def test_a_title_names_what_runs() -> None:
    assert Job(("lint", "types")).title == "lint, types"
    assert Job(tuple(f"environment-{i}" for i in range(9))).title == "environment-0 and 8 more"
