"""Many modules imported once in one process, and each one played again from what the bodies of all did there."""
