"""Floor `structures`: data structures that know nothing of NATS."""
