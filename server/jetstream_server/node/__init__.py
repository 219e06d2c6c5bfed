"""Floor `node`: a whole server without I/O."""
