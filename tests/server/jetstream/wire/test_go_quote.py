"""Quotes as Go's `%q` makes them."""

from __future__ import annotations

import pytest
from jetstream_server.jetstream.wire.go_quote import quoted, quoted_character


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", '""'),
        ("plain é 😀 '", '"plain é 😀 \'"'),
        ('a"b\\', '"a\\"b\\\\"'),
        ("\a\b\t\n\v\f\r", '"\\a\\b\\t\\n\\v\\f\\r"'),
        ("\x00\x7f", '"\\x00\\x7f"'),
        ("\u2028\ufeff\u00a0", '"\\u2028\\ufeff\\u00a0"'),
        ("\U000e0001\ufffd", '"\\U000e0001\ufffd"'),
    ],
)
def test_text(text: str, shown: str) -> None:
    assert quoted(text) == shown


@pytest.mark.parametrize(
    ("character", "shown"),
    [("a", "'a'"), ("'", "'\\''"), ('"', "'\"'"), ("\\", "'\\\\'"), ("\n", "'\\n'")],
)
def test_one_character(character: str, shown: str) -> None:
    assert quoted_character(character) == shown
