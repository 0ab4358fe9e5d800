"""The version, alone, so that reading it imports nothing."""

VERSION = "0.1.0"
