"""Memory that is there before an answer needs it.

The system finds memory when it is first written to. For the last sequences of a million
subjects, 8 MB, that takes 4 ms, and 20 to 40 on a virtual machine whose host has yet to find it. So
memory for as many is written to before, some of it in a step, and let go just before the answer is
made, which gets it from the allocator (`net/idle_memory.py` has that keep what is let go, up to 32
MB). If somebody else was quicker the answer takes longer; nothing else depends on it.
"""

from __future__ import annotations

from array import array
from collections.abc import Generator

from jetstream_server.kernels import filters

# Sequences whose memory is found in a step, in up to 2 ms; it is not worth a step for less.
FOUND_AT_ONCE = 1 << 16

_ZEROS = array("Q", bytes(8 * FOUND_AT_ONCE))


def memory_for(count: int) -> Generator[None, None, array[int] | None]:
    """Find memory for so many sequences in steps.

    Returns:
        What holds it, to be let go when it is needed; None if there are few.
    """
    if count <= FOUND_AT_ONCE:
        return None
    yield  # of a thousand requests that wait for their turn none is to hold any
    memory = filters.room(count)
    for start in range(0, count, FOUND_AT_ONCE):
        stop = min(start + FOUND_AT_ONCE, count)
        memory[start:stop] = _ZEROS[: stop - start]
        yield
    return memory
