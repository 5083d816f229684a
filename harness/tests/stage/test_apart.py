"""What is seen of a package's execution in the modules beside it, and at what price."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from masquerade.stage.apart import changed_only, snapshot


class Changed:
    """Something with attributes."""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("beside")
    vars(module).update(A=1, one=Changed(), cls=type("cls", (), {"a": 1}), fn=lambda: 0, items=[object()], table={1: 2})
    monkeypatch.setitem(sys.modules, "beside", module)
    return module


@pytest.fixture(autouse=True)
def _no_collection() -> Iterator[None]:
    """What is told of garbage collections counts them in its module, as Hypothesis does."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(
    "change",
    [
        lambda m: setattr(m, "A", 2),
        lambda m: setattr(m, "B", 2),
        lambda m: delattr(m, "A"),
        lambda m: setattr(m.one, "a", 2),
        lambda m: setattr(m.cls, "a", 2),
        lambda m: setattr(m.fn, "a", 2),
        lambda m: m.items.append(3),
        lambda m: m.items.__setitem__(0, object()),
        lambda m: m.table.update({1: 3}),
        lambda m: sys.path.append("/nowhere"),
        lambda m: sys.modules.update({"another": ModuleType("another")}),
    ],
    ids=["name", "new name", "no name", "object", "class", "function", "list", "item", "dict", "path", "module"],
)
def test_a_change_beside_the_package_is_seen(
    change: Callable[[ModuleType], object], module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "another", None)  # type: ignore[arg-type]
    before = snapshot()
    assert changed_only("package", before)
    change(module)
    assert not changed_only("package", before)


def test_a_package_may_change_itself_and_its_name_in_the_package_above(module: ModuleType) -> None:
    before = snapshot()
    sys.modules["beside.package"] = package = ModuleType("beside.package")
    try:
        module.package = package  # type: ignore[attr-defined]
        assert changed_only("beside.package", before)
    finally:
        del sys.modules["beside.package"]


def test_nothing_of_the_subjects_answers(module: ModuleType) -> None:
    class Answers:
        def __getattribute__(self, name: str) -> object:
            raise AssertionError(name)

        @property
        def __dict__(self) -> dict[str, object]:  # type: ignore[override]
            raise AssertionError

        def __hash__(self) -> int:
            raise AssertionError

        def __eq__(self, other: object) -> bool:
            raise AssertionError

    vars(module).update(one=Answers(), items=[Answers()])
    assert changed_only("package", snapshot())


def test_no_audit_hook_is_told(module: ModuleType) -> None:
    """A watcher's hook would be called hundreds of thousands of times."""
    told: list[str] | None = []
    sys.addaudithook(lambda event, args: told.append(event) if told is not None else None)
    snapshot()
    found, told = told, None
    assert found == []
