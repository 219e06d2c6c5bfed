"""Snappy blocks there and back, and what is none."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jetstream_server.structures import snappy


@given(st.binary(max_size=5000))
def test_there_and_back(data: bytes) -> None:
    block = snappy.compress(data)
    assert snappy.decompress(block) == data
    room = bytearray(len(data) + 8)
    assert snappy.decompress_into(block, memoryview(room)) == len(data)
    assert room[: len(data)] == data


def test_text_gets_smaller() -> None:
    assert len(snappy.compress(b"orders.new " * 1000)) < 1000


@given(st.binary(min_size=1, max_size=200))
def test_anything_else_is_damage_or_data(block: bytes) -> None:
    try:
        plain = snappy.decompress(block)
    except snappy.DamagedError:
        return
    assert isinstance(plain, bytes)


def test_no_room() -> None:
    with pytest.raises(snappy.DamagedError):
        snappy.decompress_into(snappy.compress(b"x" * 100), memoryview(bytearray(50)))


def test_a_server_starts_without_it() -> None:
    program = "import sys, jetstream_server.server; sys.exit('cramjam' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
