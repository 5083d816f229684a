"""The search for the hooks' functions: a release that they cannot be found in loses answers, never the process."""

from __future__ import annotations

import ctypes
import os
import signal

from masquerade.fakes import hook_slots


def test_a_child_tells_what_it_found() -> None:
    assert hook_slots._in_a_child(lambda: [1, 2]) == [1, 2]


def test_a_child_that_dies_or_fails_tells_nothing() -> None:
    def fail() -> None:
        raise AttributeError("no such symbol")

    assert hook_slots._in_a_child(lambda: os.kill(os.getpid(), signal.SIGKILL)) is None
    assert hook_slots._in_a_child(lambda: ctypes.string_at(8)) is None
    assert hook_slots._in_a_child(fail) is None


def test_a_child_that_hangs_is_ended(monkeypatch) -> None:
    monkeypatch.setattr(hook_slots, "_SECONDS", 0.2)
    assert hook_slots._in_a_child(signal.pause) is None


def test_a_table_is_copied_to_its_last_readable_word() -> None:
    table = (ctypes.c_void_p * 100)(*range(1, 101))
    copy = hook_slots.copy_of(ctypes.addressof(table) + 16)
    assert list(copy)[:98] == list(range(1, 99))
    assert hook_slots._readable(8) == 0 and hook_slots._readable(ctypes.addressof(table)) >= 8


def test_they_are_found_by_what_torch_calls(ask) -> None:
    source = """\
    import torch
    from masquerade.fakes import torch_hooks
    def answer():
        return {kind: len({*hooks.slots[:3]}) for kind, hooks in torch_hooks._hooks.items()}
    """
    assert ask(source) == {"cuda": 3, "xpu": 3}


def test_where_they_are_not_found_all_else_works(ask) -> None:
    source = """\
    import torch
    def answer():
        from masquerade.fakes import torch_hooks
        known = dict(torch_hooks._hooks)
        torch_hooks._hooks.clear()
        try:
            return [torch_hooks.install(torch, "cuda", True), str(torch.empty(2, device="cuda").device),
                    torch.ones(2).is_pinned(), torch.ones(2).pin_memory().is_pinned()]
        finally:
            torch_hooks._hooks.update(known)
    """
    assert ask(source) == [False, "cuda:0", False, True]
