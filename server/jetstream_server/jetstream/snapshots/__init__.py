"""Snapshot and restore: a stream as an archive, and back."""
