"""Payloads of any bytes."""

from __future__ import annotations

import json
import time

import pytest
from jetstream_console.showing.payload import (
    SHOWN_BYTES,
    as_editable,
    as_hex,
    as_json,
    as_text,
    preview,
    printable,
)


def test_json_is_indented():
    assert as_json(b' {"a": ["\xc3\xbc", 1]}') == '{\n  "a": [\n    "ü",\n    1\n  ]\n}'
    assert json.loads(as_json(b"[]")) == []


@pytest.mark.parametrize("piece", [b"1,", b'{"a":[]},', b'"' + b"x" * 9_000 + b'",'])
def test_of_large_json_no_more_is_written_than_is_shown(piece):
    payload = b"[" + piece * ((1 << 20) // len(piece) - 2) + b"1]"
    start = time.process_time()
    shown = as_json(payload)
    assert len(shown) == SHOWN_BYTES and shown.startswith("[\n  ")
    read = time.process_time() - start
    start = time.process_time()
    json.loads(payload)
    # To read it is all that may depend on its length.
    assert read < 0.05 + 5 * (time.process_time() - start)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"7",
        b"{",
        b"{\xff}",
        b"[" * 100_000,
        b"[" + b"9" * 5_000 + b"]",
        b"[" + b" " * (2 << 20),
    ],
    ids=range(7),
)
def test_what_is_no_json_is_shown_otherwise(payload):
    assert as_json(payload) is None


def test_half_a_character_reaches_no_browser():
    assert as_json(b'["\\ud800"]').encode() and as_json(b'["\\ud800"]') == '[\n  "�"\n]'


def test_text_shows_what_is_no_text():
    assert as_text(b"a\xff\x00\x1b[31m\r\nb\t\xe2\x80\xae") == "a���[31m\nb\t�"
    assert len(as_text(b"x" * (8 << 20))) == SHOWN_BYTES
    assert printable("<b>") == "<b>"


def test_hex_has_offsets_and_letters():
    assert as_hex(bytes(range(60, 78))) == (
        "00000000  3c 3d 3e 3f 40 41 42 43 44 45 46 47 48 49 4a 4b  <=>?@ABCDEFGHIJK\n"
        "00000010  4c 4d                                            LM"
    )
    assert as_hex(b"") == "" and as_hex(b"\x00\x80").endswith("  ..")
    assert as_hex(bytes(8 << 20)).count("\n") == 511


def test_a_preview_is_one_line():
    assert preview(b"a\n\n  b\x00" + b"c" * 1000, 10) == "a b�cccccc"


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ("zwei\n\tgrün".encode(), "zwei\n\tgrün"),
        (b"", ""),
        (b"a\r\nb", None),
        (b"\xff", None),
        (b"a\x00", None),
        (b"x" * (SHOWN_BYTES + 1), None),
    ],
)
def test_what_a_browser_would_give_back_otherwise_is_not_edited(payload, text):
    assert as_editable(payload) == text
