"""A file store in parts: blocks, what is read from them, what is added and what goes."""
