"""Text between quotes as Go's `%q` prints it; error texts that reach clients contain such."""

from __future__ import annotations

_NAMES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r"}


# Of a longer text the rest is left out: it is what a client sent, and comes back in an error.
QUOTED_MAX = 16_384


def quoted(text: str) -> str:
    """Return the text in double quotes."""
    text = text[:QUOTED_MAX]
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + text.translate(_Escapes()) + '"'


class _Escapes(dict[int, str]):
    """What stands for each character, found once for all that are alike."""

    def __missing__(self, code: int) -> str:
        self[code] = shown = _escaped(chr(code), '"')
        return shown


def quoted_character(character: str) -> str:
    """Return one character in single quotes."""
    return f"'{_escaped(character, chr(39))}'"


def _escaped(character: str, delimiter: str) -> str:
    code = ord(character)
    if character in (delimiter, "\\"):
        return "\\" + character
    if character.isprintable():
        return character
    if code in _NAMES:
        return "\\" + _NAMES[code]
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, by `surrogateescape`
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
