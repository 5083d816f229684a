"""Number formats in plain torch: the definition that every kernel is measured against."""

from __future__ import annotations
