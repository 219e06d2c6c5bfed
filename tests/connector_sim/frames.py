"""Where the frames of the protocol lie in what one end said."""

from __future__ import annotations

import re
from collections.abc import Iterator

_WITH_PAYLOAD = re.compile(rb"H?(?:PUB|MSG) (?:.* )?(\d+)\r\n")


def frames(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Where each frame starts, where its line ends, and where it stops."""
    start = 0
    while start < len(data):
        line_stop = data.index(b"\r\n", start) + 2
        found = _WITH_PAYLOAD.fullmatch(data, start, line_stop)
        stop = line_stop + int(found[1]) + 2 if found else line_stop
        yield start, line_stop, stop
        start = stop
