"""Reading one range of a stream, completely, whatever happens on the way."""
