"""Lists that overlap come as parts, which together are the lists."""

from __future__ import annotations

from masquerade.stage.trace.parts import parts


def test_the_parts_of_a_list_are_the_list() -> None:
    lists = {
        "a": ["/x", "/y", "/z"],
        "b": ["/y", "/x"],
        "c": ["/z", "/w", "/w"],
        "d": [],
    }
    shared, of = parts(lists)
    for name, paths in lists.items():
        found = [path for part in of[name] for path in shared[part]]
        assert sorted(found) == sorted(set(paths))


def test_what_always_occurs_together_is_one_part() -> None:
    base = [f"/base/{number}" for number in range(100)]
    shared, of = parts({f"m{number}": [*base, f"/m{number}"] for number in range(50)})
    assert len(shared) == 51
    assert {len(names) for names in of.values()} == {2}
