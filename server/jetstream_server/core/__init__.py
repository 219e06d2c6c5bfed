"""Floor `core`: subjects, interest and messages of Core NATS."""
