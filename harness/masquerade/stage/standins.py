"""Whether declared stand-ins can stand for anything: told before a run, for one that never comes in is silent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from masquerade.stage.check import Check, Discovery, SubjectError

Discover = Callable[[str, tuple[str, ...]], Discovery]


def stale(checks: Iterable[Check], discover: Discover) -> Iterator[str]:
    """A sentence for each stand-in whose package is not there: nothing imports it then.

    Raises SubjectError for a stand-in whose own module is not there.
    """
    known: dict[tuple[str, tuple[str, ...]], bool] = {}

    def there(name: str, path: tuple[str, ...]) -> bool:
        if (name, path) not in known:
            try:
                discover(name, path)
            except SubjectError:
                known[name, path] = False
            else:
                known[name, path] = True
        return known[name, path]

    told: dict[str, bool] = {}
    for check in checks:
        for name, adapter in check.stand_ins.items():
            if adapter and not there(adapter, check.path):
                raise SubjectError(f"the stand-in of {name}: there is no module {adapter}; is its folder in the path?")
            parent = name.rpartition(".")[0]
            made = not parent or _stands(parent, check)
            told[name] = told.get(name, False) or made or there(parent, check.path)
    for name, good in told.items():
        if not good:
            yield f"stale: {name} has a stand-in, and there is no package {name.rpartition('.')[0]}; take it out"


def _stands(parent: str, check: Check) -> bool:
    """Whether the package above a stand-in is one that stands for another itself: declared, or of the machine."""
    installed = {*check.present, *(check.machine.packages.get("present") or {})}
    above = [parent.rsplit(".", parts)[0] for parts in range(parent.count(".") + 1)]
    return above[-1] in installed or any(name in check.stand_ins for name in above)
