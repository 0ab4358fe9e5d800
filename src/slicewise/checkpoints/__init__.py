"""Checkpoints that survive: a new folder per save, checked before it is loaded."""
