"""The parts of the pytest plugin, each loaded when a run first needs it."""
