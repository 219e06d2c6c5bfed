"""Texts that anybody may have written."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return a text without signs that steer, but for ends of lines and tabs."""
    return "".join(
        each if each.isprintable() or each in "\n\t" else "�" for each in text.replace("\r\n", "\n")
    )
