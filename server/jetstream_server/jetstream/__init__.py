"""Floor `jetstream`: streams and consumers as state machines without I/O."""
