"""Block-scaled low-precision kernels and the oracle that picks a backend. Importing this imports nothing heavy."""

from __future__ import annotations

__version__ = "0.1.0"
