"""Machines learned from measured runs."""

BASE = "abci-v100"  # what a fit begins with, where nothing else is named
