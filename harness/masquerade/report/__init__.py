"""Reports: what a run found, for people and for machines. Made from records alone; nothing here starts a check."""
