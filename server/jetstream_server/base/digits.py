"""Numbers in texts that come from outside.

`int` takes digits of other scripts, underscores, signs and spaces; `isdigit` takes superscripts,
which `int` refuses; and for a text of thousands of digits `int` takes long, or raises an error of
its own.
"""

from __future__ import annotations

_TEXT_MAX = 19  # characters that surely fit 64 bits


def unsigned(text: bytes | str) -> int:
    """Return the number that ASCII digits write, -1 for anything else or beyond 63 bits."""
    if len(text) > _TEXT_MAX or not (text.isascii() and text.isdigit()):
        return -1
    number = int(text)
    return number if number < 1 << 63 else -1
