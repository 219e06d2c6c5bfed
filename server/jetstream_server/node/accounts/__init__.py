"""Accounts: isolated subject spaces, and what they import from each other."""
