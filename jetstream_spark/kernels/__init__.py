"""The hot loops: NATS frames to Arrow columns and back. Batches in, batches out, no I/O.

Each kernel has a selector module and a `_pure` twin, which is the reference. A compiled twin has
the same functions; setting JETSTREAM_PURE=1 forces the pure one.
"""
