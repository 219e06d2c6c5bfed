"""Consumers as state machines: cursors, pulls, pushes, acks, redelivery."""
