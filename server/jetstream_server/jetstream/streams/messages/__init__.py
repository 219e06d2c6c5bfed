"""A message, or some of them, as a stream looks at it."""
