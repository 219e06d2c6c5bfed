"""S2 frames: what is written is read, in any cuts; what the genuine server writes is read too."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from random import Random

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jetstream_server.jetstream.snapshots.s2 import (
    BLOCK_BYTES_MAX,
    STREAM_IDENTIFIER,
    S2Error,
    S2Reader,
    decoding,
    frames,
    masked_checksum,
)


def decode_block(block: bytes) -> bytes:
    """Return what a block stands for, whatever pauses that has."""
    steps = decoding(block)
    try:
        while True:
            next(steps)
    except StopIteration as end:
        data: bytes = end.value
        return data


def test_a_block_of_many_parts_is_decoded_in_steps() -> None:
    parts = 20_000  # of one byte each: a literal, a copy of it, and repeats of the copy
    size = 1 + 4 + 4 * parts
    length = bytes((size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14))
    steps = decoding(length + b"\x00x\x01\x01" + b"\x01\x00" * parts)
    assert [next(steps), next(steps)] == [None, None]
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == b"x" * size


def read_all(pieces: list[bytes]) -> bytes:
    reader = S2Reader()
    found = []
    for piece in pieces:
        reader.feed(piece)
        while (block := reader.next_block()) is not None:
            found.append(block)
    assert reader.is_complete
    return b"".join(found)


@pytest.mark.parametrize("size", [0, 1, 100, 70_000, 2_500_000])
@pytest.mark.parametrize("kind", ["random", "text"])
def test_what_is_written_is_read(size: int, kind: str) -> None:
    data = Random(1).randbytes(size) if kind == "random" else b"orders and more " * (size // 16)
    stream = STREAM_IDENTIFIER + frames(data)
    assert read_all([stream]) == data
    if kind == "text" and size > 1000:
        assert len(stream) < size / 10


@given(st.binary(max_size=300), st.lists(st.integers(0, 600), max_size=5))
def test_cuts_do_not_matter(data: bytes, cuts: list[int]) -> None:
    stream = STREAM_IDENTIFIER + frames(data) + frames(data * 9)
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    assert read_all([stream[a:b] for a, b in pairwise(places)]) == data * 10
    assert read_all([stream[at : at + 1] for at in range(len(stream))]) == data * 10


# Blocks taken apart by hand: the length, then literals, copies and repeats.
BLOCKS = {
    "literal": (b"\x05\x10hello", b"hello"),
    "long literal": (b"\x80\x02\xf4\xff\x00" + bytes(range(256)), None),
    "copy1": (b"\x0a\x0cabcd" + bytes((0b00001001, 4)), b"abcdabcdab"),
    "copy2": (b"\x0b\x0cabcd" + bytes(((7 - 1) << 2 | 2, 4, 0)), b"abcdabcdabc"),
    "copy4": (b"\x08\x0cabcd" + bytes(((4 - 1) << 2 | 3, 4, 0, 0, 0)), b"abcdabcd"),
    "overlap": (b"\x09\x00a" + bytes((0b00010001, 1)), b"a" * 9),
    "repeat": (b"\x0c\x0cabcd" + bytes((1, 4, 1, 0)), b"abcd" * 3),
    "repeat 8+": (b"\x12\x0cabcd" + bytes((1, 4, 5 << 2 | 1, 0, 2)), b"abcd" * 4 + b"ab"),
    "repeat 260+": (b"\x8d\x02\x0cabcd" + bytes((1, 4, 6 << 2 | 1, 0, 1, 0)), None),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks(name: str) -> None:
    block, expected = BLOCKS[name]
    decoded = decode_block(block)
    if name == "long literal":
        expected = bytes(range(256))
    if name == "repeat 260+":
        expected = (b"abcd" * 68)[: 8 + 261]
    assert decoded == expected


def test_a_repeat_is_only_understood_here() -> None:
    with pytest.raises(cramjam.DecompressionError):
        cramjam.snappy.decompress_raw(BLOCKS["repeat"][0])


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"\xff\xff\xff\xff\xff",
        b"\x05\x10hel",  # ends within a literal
        b"\x04\x10hello",  # longer than it says
        b"\x06\x10hello",  # shorter
        b"\x0a\x0cabcd\x09",  # ends within a copy
        b"\x0a\x0cabcd" + bytes((0b00001001, 9)),  # reaches before the start
        b"\x09\x00a\x01\x00",  # repeats nothing
        b"\x05\xf8\x00",  # ends within a length
    ],
)
def test_damaged_blocks(block: bytes) -> None:
    with pytest.raises(S2Error, match=r"^s2: (corrupt input|decoded block is too large)$"):
        decode_block(block)


@given(st.binary(max_size=40))
def test_any_block_is_decoded_or_refused(block: bytes) -> None:
    with suppress(S2Error):
        assert len(decode_block(block)) <= BLOCK_BYTES_MAX


def _refusal(data: bytes) -> str:
    reader = S2Reader()
    reader.feed(data)
    with pytest.raises(S2Error) as caught:
        while reader.next_block() is not None:
            pass
    return str(caught.value)


def test_damaged_streams_are_refused_as_the_genuine_server_does() -> None:
    whole = STREAM_IDENTIFIER + frames(Random(1).randbytes(50))
    assert _refusal(b"garbage garbage") == "s2: corrupt input"
    assert _refusal(frames(b"no identifier")) == "s2: corrupt input"
    assert _refusal(whole[:-1] + b"?") == "s2: corrupt input, crc mismatch"
    assert _refusal(STREAM_IDENTIFIER + b"\x02\x00\x00\x00") == "s2: unsupported input"
    assert _refusal(STREAM_IDENTIFIER + b"\x01\x01\x00\x00?") == "s2: corrupt input"
    assert _refusal(b"\xff\x06\x00\x00S2sTwX") == "s2: corrupt input"
    huge = (BLOCK_BYTES_MAX + 1).to_bytes(4, "little")
    bomb = bytes((huge[0] | 0x80, huge[1] | 0x80, huge[2] << 2 & 0x7F | 0x80, 2)) + b"\x00a"
    size = (len(bomb) + 4).to_bytes(3, "little")
    assert _refusal(STREAM_IDENTIFIER + b"\x00" + size + bytes(4) + bomb).startswith("s2: ")


def test_skippable_frames_are_skipped() -> None:
    padding = b"\xfe\x03\x00\x00xyz" + b"\x99\x01\x00\x00i"
    assert read_all([STREAM_IDENTIFIER + padding + frames(b"data") + padding]) == b"data"


def test_checksum_is_masked() -> None:
    assert masked_checksum(b"") == 0xA282EAD8
