"""Streams as state machines: what is admitted, stored, kept and removed."""
