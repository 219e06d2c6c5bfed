"""Floor `base`: time, limits, identifiers and the roots of the error families."""
