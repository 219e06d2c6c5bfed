"""The disk: what is queued for it, how it gets there, and which folder is whose."""
