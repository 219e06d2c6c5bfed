"""The hot loops: NATS frames to Arrow columns and back. Batches in, batches out, no I/O.

Each is a package: `pure.py` is the reference, `fast.pyx` is compiled and does the same; setting
JETSTREAM_PURE=1 forces the pure one.
"""
