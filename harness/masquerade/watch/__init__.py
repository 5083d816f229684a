"""Watchers: what happened, written down at the moment it happened. They know nothing of the fakes below them."""
