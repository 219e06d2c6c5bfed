"""Headers by name: what is found, and how much of a long block is taken apart."""

from __future__ import annotations

import pytest
from jetstream_server.node.sought_headers import first_headers, first_value, line_end

from tests.traced_lines import lines_of

BLOCK = b"NATS/1.0\r\nA: 1\r\nAA:2 \r\nA: 3\r\na:\r\nno line\r\n: x\r\n\r\n"


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"A", b"1"), (b"AA", b"2"), (b"a", b""), (b"no line", None), (b"B", None)],
)
def test_the_first_value(key: bytes, value: bytes | None) -> None:
    assert first_value(BLOCK, key) == value


def test_a_last_line_without_an_end() -> None:
    block = b"NATS/1.0\r\nA:  1 "
    assert first_value(block, b"A") == b"1"
    assert line_end(block, block.index(b"\r\n")) == len(block)


def test_headers_with_all_their_values() -> None:
    headers = first_headers(BLOCK, 1000)
    assert headers == {b"A": [b"1", b"3"], b"AA": [b"2"], b"a": [b""]}


def test_only_whole_lines_of_the_first_bytes() -> None:
    assert first_headers(BLOCK, BLOCK.index(b"A: 3") + 3) == {b"A": [b"1"], b"AA": [b"2"]}
    assert first_headers(BLOCK, BLOCK.index(b"A: 3") + 7) == {b"A": [b"1"], b"AA": [b"2"]} | {
        b"A": [b"1", b"3"]
    }
    assert first_headers(BLOCK, 3) == {}


def test_a_long_block_takes_as_long_as_a_short_one() -> None:
    def block(count: int) -> bytes:
        return b"NATS/1.0\r\n" + b"".join(b"%x:\r\n" % n for n in range(count)) + b"\r\n"

    def look(given: bytes) -> None:
        first_headers(given, 1000)
        first_value(given, b"Nats-Trace-Dest")

    short, long = block(400), block(4000)
    assert lines_of(lambda: look(short)) == lines_of(lambda: look(long))
