"""The Triton kernels. Their launchers import them when a tensor needs them."""

from __future__ import annotations
