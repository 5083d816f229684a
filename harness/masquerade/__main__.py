"""`python -m masquerade`: the command line without its console script."""

from __future__ import annotations

from masquerade.cli import main

main(prog_name="masquerade")
