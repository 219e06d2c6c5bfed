"""Floor `kernels`: the hot loops, each over a whole batch.

Each is a package: `pure.py` is the reference, `fast.pyx` is compiled and does the same.
"""
