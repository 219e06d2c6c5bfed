"""What hands out the memory of this process, and takes it back.

The allocator is not to give anything back to the system by itself, which it does in whichever call
frees the last of much: a turn in which what waited for slow clients was dropped took 30 ms for
that. To give back all that is free takes 40 ms for a gigabyte, in which nobody else gets any. So
what is free can be held, and let go of some at a time.
"""

from __future__ import annotations

import functools
from typing import Any, Protocol

HELD_BYTES = 1024 * 1024  # in each place that is held
# Of malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_MAPPED_BYTES_MIN = 32 * 1024 * 1024  # larger ones are mapped, each by itself; glibc takes no more


class Allocator(Protocol):
    """What hands out the memory of this process."""

    def keep(self) -> None:
        """Give nothing back from now on but by `trim`."""
        ...

    def trim(self) -> None:
        """Give back what can be given back."""
        ...

    def free_bytes(self) -> int:
        """Return the bytes that are not handed out, given back or not; 0 where nobody can tell."""
        ...

    def hold(self, count_max: int) -> list[int]:
        """Hold places of `HELD_BYTES` that are free, so that `trim` passes them over; return where
        they are. To be called where most is handed out: by the loop."""
        ...

    def let_go(self, places: list[int]) -> None:
        """Let go of places that are held."""
        ...


class GlibcAllocator:
    """The C library's; elsewhere nothing is known and nothing is done."""

    def keep(self) -> None:
        """Give nothing back from now on but by `trim`, and what is too large to be kept."""
        set_option = getattr(_c_library(), "mallopt", None)
        if set_option is not None:
            # The first, else fixed by the second, is what it grows to in a server that was busy.
            set_option(_MMAP_THRESHOLD, _MAPPED_BYTES_MIN)
            set_option(_TRIM_THRESHOLD, -1)

    def trim(self) -> None:
        """Give back what can be given back."""
        give_back = getattr(_c_library(), "malloc_trim", None)
        if give_back is not None:
            give_back(0)

    def free_bytes(self) -> int:
        """Return the bytes that are not handed out; glibc tells since 2.33."""
        count = _mallinfo2()
        return int(count().fordblks) if count is not None else 0

    def hold(self, count_max: int) -> list[int]:
        """Hold free places, as long as they are found without asking the system for more."""
        library, places = _c_library(), list[int]()
        import ctypes

        allocate, end_of_heap = library.malloc, library.sbrk
        allocate.restype = end_of_heap.restype = ctypes.c_void_p
        allocate.argtypes, end_of_heap.argtypes = [ctypes.c_size_t], [ctypes.c_ssize_t]
        end = end_of_heap(0)
        while len(places) < count_max:
            place = allocate(HELD_BYTES)
            if place is None:
                break
            if end_of_heap(0) != end:
                self.let_go([place])
                break
            places.append(place)
        return places

    def let_go(self, places: list[int]) -> None:
        """Let go of places that are held."""
        import ctypes

        free = _c_library().free
        free.restype, free.argtypes = None, [ctypes.c_void_p]
        for place in places:
            free(place)


def _c_library() -> Any:
    import ctypes  # here: whoever only reads options starts sooner without it

    return ctypes.CDLL(None)


@functools.cache
def _mallinfo2() -> Any:
    import ctypes

    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    fields = [(name, ctypes.c_size_t) for name in names.split()]
    count = getattr(_c_library(), "mallinfo2", None)
    if count is not None:
        count.restype = type("mallinfo2", (ctypes.Structure,), {"_fields_": fields})
    return count
