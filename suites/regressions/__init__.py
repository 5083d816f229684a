"""Faults put back into blockscale one by one, each of which a suite must see and name."""
