"""Mirrors and sources: streams fed by other streams."""
