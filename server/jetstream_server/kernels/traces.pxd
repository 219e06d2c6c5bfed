"""Which headers ask for a trace."""

from libc.string cimport memchr, memcmp
from posix.strings cimport strncasecmp


cdef inline bint asks_for_trace(const char* at, const char* stop) noexcept nogil:
    """Tell whether a block of headers has `Nats-Trace-Dest`, or `traceparent` in any case."""
    cdef const char* line_feed
    while True:
        line_feed = <const char*>memchr(at, c"\n", stop - at)
        if line_feed == NULL:
            return False
        at = line_feed + 1
        if stop - at < 12:
            return False
        if at[0] == c"N":
            if stop - at >= 16 and memcmp(at, b"Nats-Trace-Dest:", 16) == 0:
                return True
        elif at[0] == c"t" or at[0] == c"T":
            if strncasecmp(at, b"traceparent:", 12) == 0:
                return True
