"""How long one client keeps the others waiting: `python -m benchmarks.stall`."""
