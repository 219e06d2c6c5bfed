"""How much a JSON text holds, found out without making any of it.

A megabyte may be 300,000 empty objects or 90,000 members. To make them, in memory that nobody has
used yet, and to drop them again takes up to 50 ms; to see that they are too many takes 3.
"""

from __future__ import annotations

CONTAINERS_MAX = 10_000  # objects and lists
MEMBERS_MAX = 50_000  # of all objects; metadata, which has the most, holds fewer
VALUES_MAX = 200_000  # between which there is a comma
# A text holds no more of anything than half its bytes, unless it is nested deeper than one may be.
_SHORT_BYTES = 2 * CONTAINERS_MAX

_SEEN = b'{[:,"'
_PASSED_OVER = bytes(byte for byte in range(256) if byte not in _SEEN)


def excess(text: bytes) -> str:
    """Return what a text has more of than is read, and empty text if there is nothing.

    Args:
        text: JSON; what is said of something else has no meaning.
    """
    if len(text) <= _SHORT_BYTES:
        return ""
    marks = _outside_strings(text)
    for count, what, most in (
        (marks.count(b"{") + marks.count(b"["), "objects and lists", CONTAINERS_MAX),
        (marks.count(b":"), "members", MEMBERS_MAX),
        (marks.count(b","), "values", VALUES_MAX),
    ):
        if count > most:
            return f"{count} {what}, of which at most {most} are read"
    return ""


def _outside_strings(text: bytes) -> bytes:
    """Return the brackets that open, the colons and the commas of a text."""
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Of most strings, only their quotation marks are left.
    marks = text.translate(None, _PASSED_OVER).replace(b'""', b"")
    return b"".join(marks.split(b'"')[::2]) if b'"' in marks else marks
