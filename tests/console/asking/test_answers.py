"""Fields of answers, whatever a server may say."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from jetstream_console.asking.answers import (
    flag,
    moment,
    number,
    parsed,
    part,
    parts,
    text,
    texts,
)
from jetstream_console.asking.errors import RefusedError

STRANGE = {"a": None, "b": [1, "x", {}], "c": {"d": 1}, "e": True, "f": 1.5, "g": "s", "h": 7}


def test_a_field_of_another_type_is_none_at_all():
    assert [number(STRANGE, key) for key in "abcdefghz"] == [0, 0, 0, 0, 0, 0, 0, 7, 0]
    assert [text(STRANGE, key) for key in "abcefghz"] == ["", "", "", "", "", "s", "", ""]
    assert [flag(STRANGE, key) for key in "aehz"] == [False, True, False, False]
    assert part(STRANGE, "c") == {"d": 1} and part(STRANGE, "b") == part(STRANGE, "z") == {}
    assert parts(STRANGE, "b") == [{}] and parts(STRANGE, "c") == []
    assert texts(STRANGE, "b") == ("x",) and texts(STRANGE, "a") == ()


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("2026-11-23T04:05:06.123456789Z", datetime(2026, 11, 23, 4, 5, 6, 123456, UTC)),
        ("2026-11-23T04:05:06.5Z", datetime(2026, 11, 23, 4, 5, 6, 500000, UTC)),
        ("2026-11-23T04:05:06+01:00", datetime(2026, 11, 23, 3, 5, 6, 0, UTC)),
        ("2026-11-23T04:05:06", datetime(2026, 11, 23, 4, 5, 6, 0, UTC)),
        ("0001-01-01T00:00:00Z", None),
        ("9999-12-31T23:59:59.9-23:00", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_a_time_is_read_to_the_microsecond(said, meant):
    assert moment({"at": said}, "at") == meant


@pytest.mark.parametrize(
    "payload",
    [b"", b"[]", b"7", b"\xff", b"[" * 100_000, b'{"a": ' + b"9" * 5_000 + b"}"],
)
def test_what_is_no_object_is_refused(payload):
    with pytest.raises(RefusedError, match="no JSON object"):
        parsed(payload)


def test_an_error_keeps_the_words_of_the_server():
    with pytest.raises(RefusedError, match=r"^stream not found$") as caught:
        parsed(b'{"error": {"code": 404, "err_code": 10059, "description": "stream not found"}}')
    assert (caught.value.code, caught.value.err_code) == (404, 10059)
    with pytest.raises(RefusedError, match="did not say why"):
        parsed(b'{"error": {"code": 500}}')
    with pytest.raises(RefusedError, match=r"^no$"):
        parsed(b'{"error": "no"}')


def test_half_a_character_is_replaced():
    found = parsed(b'{"name": "a\\ud800b", "ok": "\\ud83d\\ude00", "raw": "\xff"}')
    assert found == {"name": "a?b", "ok": "\U0001f600", "raw": "�"}
