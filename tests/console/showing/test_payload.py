"""Texts that anybody may have written."""

from __future__ import annotations

from jetstream_console.showing.payload import printable


def test_what_steers_is_replaced():
    assert printable("a\x00\x1b[31m\r\nb\t\u202e\ud800<b>") == "a��[31m\nb\t��<b>"
