"""Kernels and their launchers, one public module per operation; each has a path in plain torch that the CPU runs."""

from __future__ import annotations
