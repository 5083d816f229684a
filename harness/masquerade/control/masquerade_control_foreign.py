"""Stands for another platform's library in the positive control."""
