"""Many lists of reads that overlap, as few parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence


def parts(lists: Mapping[str, Sequence[str]]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Parts by name, and for each list the names of its parts: what always occurs together is one part."""
    users: dict[str, int] = defaultdict(int)
    for number, paths in enumerate(lists.values()):
        for path in set(paths):
            users[path] |= 1 << number
    together: dict[int, list[str]] = defaultdict(list)
    for path, mask in users.items():
        together[mask].append(path)
    names = {mask: f"part {number}" for number, mask in enumerate(together)}
    of = {name: list(dict.fromkeys(names[users[path]] for path in paths)) for name, paths in lists.items()}
    return {names[mask]: paths for mask, paths in together.items()}, of
