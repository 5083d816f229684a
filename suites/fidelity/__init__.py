"""How faithful the fakes are: one list of probes, recorded on real machines and replayed against the faked ones."""
