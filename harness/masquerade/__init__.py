"""Run any Python code as if on a GPU machine that is not here, watch what it does, and judge it."""

__version__ = "0.1.0"
