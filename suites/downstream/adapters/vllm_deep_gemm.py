"""Stands for DeepGEMM's compiled part: what its package calls when it is imported and at its end, and no kernel."""

from __future__ import annotations


def init(*folders: str) -> None:
    """Where the JIT compiler finds its headers, and nvcc: nothing is compiled here."""


def shutdown() -> None:
    """Nothing was begun."""
