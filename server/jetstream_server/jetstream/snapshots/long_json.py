"""Large objects within JSON text, read some entries at a time.

The state of a consumer with a million unacknowledged messages is 50 MB, of which nearly all is one
object of short entries. A reader of JSON reads it in one go, half a second in which nobody is
served; so such an object is taken out of the text first, in pieces that end between two entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from jetstream_server.core.steps import InSteps

PIECE_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class LongPart:
    """Where an object or a list is in the text, and where it may be cut.

    Attributes:
        key: of it. As a quotation mark within a string is escaped, this is a key wherever it is
            found before a bracket.
        brackets: around it.
        last: what each entry ends with.
        separator: between two entries.
    """

    key: bytes
    brackets: tuple[bytes, bytes]
    last: bytes
    separator: bytes

    def take_out(self, text: bytes) -> InSteps[tuple[bytes, list[Any]]]:
        """Return the text in which it is empty, and what it contains, in pieces.

        Args:
            text: as servers write it, without spaces.

        Raises:
            ValueError: it is no JSON.
        """
        opening, closing = self.brackets
        begin = b'"%b":%b' % (self.key, opening)
        start = text.find(begin) + len(begin)
        if start < len(begin) or text[start : start + 1] == closing:
            return text, []
        stop = text.find(self.last + closing, start) + len(self.last)
        if stop < start:
            return text, []
        pieces: list[Any] = []
        at = start
        while at < stop:
            cut = text.find(self.last + self.separator, min(at + PIECE_BYTES, stop), stop)
            cut = stop if cut < 0 else cut + len(self.last)
            pieces.append(orjson.loads(opening + text[at:cut] + closing))
            at = cut + 1
            yield
        return text[:start] + text[stop:], pieces
