"""Floor `kernels`: the hot loops, each over a whole batch.

`_pure` is the reference, `_fast` is compiled.
"""
