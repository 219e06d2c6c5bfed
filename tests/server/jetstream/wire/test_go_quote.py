"""Quotes as Go's `%q` makes them."""

from __future__ import annotations

import pytest
from jetstream_server.jetstream.wire.go_quote import QUOTED_MAX, quoted, quoted_character

from tests.traced_lines import lines_of


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


def test_of_a_long_text_the_rest_is_left_out() -> None:
    """A megabyte with one quotation mark in it took a quarter of a second."""
    shown: list[str] = []
    assert lines_of(lambda: shown.append(quoted("xyé\n" * 250_000))) < 100
    assert shown == ['"' + "xyé\\n" * (QUOTED_MAX // 4) + '"']
