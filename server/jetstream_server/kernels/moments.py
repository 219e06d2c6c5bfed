"""Times as header lines show them; `moments.pxd` does the same for the compiled kernels."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND_NS = 1_000_000_000


def time_text(timestamp: int) -> bytes:
    """Return the RFC 3339 text of a time in nanoseconds, without zeros at the end of its
    fraction."""
    seconds, fraction = divmod(timestamp, _SECOND_NS)
    if not fraction:
        return _second(seconds) + b"Z"
    return b"%b.%bZ" % (_second(seconds), (b"%09d" % fraction).rstrip(b"0"))


@lru_cache(maxsize=64)
def _second(seconds: int) -> bytes:
    """Return the text of a time without its fraction; neighbours mostly share it."""
    return f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}".encode()
