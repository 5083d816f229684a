"""Weight and scale layouts, a module per backend; each with its inverse."""

from __future__ import annotations
