"""Floor `kernels`: the hot loops, each over a whole batch.

Each is a package: `pure.py` is the reference, `fast.pyx` is compiled and does the same. One is no
loop and does I/O, for the thread of `net/flush_worker.py` and nobody else: `synced_writes`.
"""
