"""Floor `monitor`: a node seen as plain dictionaries."""
