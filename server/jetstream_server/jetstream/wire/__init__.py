"""Texts as the genuine server writes them: JSON, times, durations, quoting, name hashes."""
