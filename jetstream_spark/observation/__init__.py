"""Queries under observation: their numbers, and where these are sent."""
