"""Reading and rewriting header blocks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from jetstream_server.jetstream.streams.messages.publish_headers import (
    extended,
    header,
    special_headers,
    storable,
    without,
)


def test_special_headers() -> None:
    block = (
        b"NATS/1.0\r\nNats-A:  x \r\nnats-b: y\r\nX: Nats-C: z\r\nNats-A: second\r\n"
        b"Nats-Empty:  \r\nNats-D:w\r\nNats-NoColon\r\n\r\n"
    )
    assert special_headers(block) == {b"Nats-A": b"x ", b"Nats-D": b"w"}
    assert special_headers(b"NATS/1.0\r\nNats-A: cut short") == {b"Nats-A": b"cut short"}


@given(st.binary())
def test_any_block_is_survived(junk: bytes) -> None:
    for block in (junk, b"NATS/1.0\r\n" + junk, b"NATS/1.0\r\nNats-" + junk):
        special_headers(block)
        storable(block)
        header(block, b"A")
        without(block, b"Nats-A")
        assert extended(block, b"B: c\r\n").endswith(b"B: c\r\n\r\n")


def test_header() -> None:
    block = b"NATS/1.0\r\nAB: 1\r\nA:  2\r\nA: 3\r\n\r\n"
    assert header(block, b"A") == b"2"
    assert header(block, b"B") == b""
    assert header(b"", b"B") == b""


def test_without() -> None:
    block = b"NATS/1.0\r\nA: 1\r\nAB: 2\r\nA: 3\r\n\r\n"
    assert without(block, b"A") == b"NATS/1.0\r\nAB: 2\r\n\r\n"
    assert without(b"NATS/1.0\r\nA: 1\r\n\r\n", b"A") == b""
    assert without(block, b"C") is block


def test_extended() -> None:
    assert extended(b"", b"A: b\r\n") == b"NATS/1.0\r\nA: b\r\n\r\n"
    assert extended(b"NATS/1.0\r\nX: y\r\n\r\n", b"A: b\r\n") == (
        b"NATS/1.0\r\nX: y\r\nA: b\r\n\r\n"
    )
