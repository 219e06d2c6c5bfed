"""Headers that are sought by name, in a block that may have hundreds of thousands of lines.

To search a megabyte takes less than a millisecond, to make something of each of its lines a hundred
times as long. So what is wanted is searched for, and of the lines that are taken apart there is
only a limited amount.
"""

from __future__ import annotations

from jetstream_server.protocol import headers as header_block

_LINE = b"\r\n"


def first_value(block: bytes, key: bytes) -> bytes | None:
    """Return the value of the first header with exactly this key, None when there is none."""
    value = header_block.get(block, key)
    return None if value is None else value.rstrip(b" ")


def line_end(block: bytes, at: int) -> int:
    """Return where the line ends whose first byte follows the line break at `at`; a last line may
    have no end."""
    stop = block.find(_LINE, at + len(_LINE))
    return stop if stop >= 0 else len(block)


def first_headers(block: bytes, bytes_max: int) -> dict[bytes, list[bytes]]:
    """Return the headers whose lines are within the first bytes of a block."""
    if len(block) > bytes_max:
        block = block[: max(block.rfind(_LINE, 0, bytes_max), 0)]
    headers: dict[bytes, list[bytes]] = {}
    for line in block.split(_LINE)[1:]:
        key, colon, value = line.partition(b":")
        if colon and key:
            headers.setdefault(key, []).append(value.strip(b" "))
    return headers
