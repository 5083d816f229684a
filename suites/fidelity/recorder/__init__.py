"""Records what this machine answers to the probes. Needs Python and torch alone, and knows nothing of masquerade."""
