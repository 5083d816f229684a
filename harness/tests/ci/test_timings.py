"""Times from tox, from a report, or from a plain file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from masquerade.ci.timings import read
from masquerade.ci.work import PlanError


def file(tmp_path: Path, content: object, name: str = "t.json") -> Path:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_a_result_file_of_tox(tmp_path) -> None:
    cpu = {"setup": [{"elapsed": 30.5, "retcode": 0}], "test": [{"elapsed": 4.0}, {"elapsed": 1.5}], "python": {}}
    found = {"reportversion": "1", "toxversion": "4.67.15", "testenvs": {"cpu": cpu, "lint": {"test": []}}}
    assert read([file(tmp_path, found)]) == {"cpu": 36.0, "lint": 0.0}


def test_a_json_report(tmp_path) -> None:
    checks = [
        {"id": "imports/lazy/pkg.a@h100", "seconds": 0.5},
        {"id": "imports/lazy/pkg.b@h100", "seconds": 1.0},
        {"id": "calls/setup/1@b580", "seconds": 2.0},
        {"id": "import:pkg.a@h100", "seconds": 9.0},
    ]
    assert read([file(tmp_path, {"schema": 1, "checks": checks})]) == {"lazy": 1.5, "setup": 2.0}


def test_plain_times_and_the_later_file_wins(tmp_path) -> None:
    first, second = file(tmp_path, {"a": 1, "b": 2.5}), file(tmp_path, {"a": 3}, "u.json")
    assert read([first, second]) == {"a": 3.0, "b": 2.5}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "no JSON"),
        ([1], "expected an object"),
        ({"a": "1 s"}, 'a is "1 s"; expected a time in seconds'),
        ({"a": True}, "a is true"),
        ({"a": -1}, "a is -1"),
        ('{"a": NaN}', "a is NaN"),
    ],
)
def test_what_is_no_time_is_refused_with_the_files_name(tmp_path, content, says) -> None:
    with pytest.raises(PlanError) as error:
        read([file(tmp_path, content)])
    assert says in str(error.value) and "t.json" in str(error.value)


def test_a_missing_file_is_named(tmp_path) -> None:
    with pytest.raises(PlanError, match=r"gone\.json: No such file"):
        read([tmp_path / "gone.json"])
