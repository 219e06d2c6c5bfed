"""Floor `protocol`: bytes to ops and back; knows nothing of who is connected."""
