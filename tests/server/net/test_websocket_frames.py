"""Frames from clients: whole, byte by byte, in random cuts, and what no client may send."""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jetstream_server.net.unwrapping import (
    INFLATED_BYTES_OF_STEP,
    STEPS_MIN,
    STEPS_OF_TURN,
    Unwrapping,
)
from jetstream_server.net.websocket_frames import (
    READ_BYTES,
    BrokenFrameError,
    FrameReader,
)

LIMIT = 1 << 20
FINAL, TEXT, BINARY, CONT, CLOSE, PING, PONG = 0x80, 1, 2, 0, 8, 9, 10
PACKED = 0x40


def frame(first: int, data: bytes, mask: bytes = b"\x01\x02\x03\x04", length: int = -1) -> bytes:
    """Return a client's frame; `length` is what its head claims."""
    claimed = len(data) if length < 0 else length
    if claimed < 126:
        size = bytes([0x80 | claimed])
    elif claimed < 1 << 16:
        size = b"\xfe" + struct.pack("!H", claimed)
    else:
        size = b"\xff" + struct.pack("!Q", claimed)
    pattern = (mask * (len(data) // 4 + 1))[: len(data)]
    masked = int.from_bytes(data, "big") ^ int.from_bytes(pattern, "big")
    return bytes([first]) + size + mask + masked.to_bytes(len(data), "big")


def packed(data: bytes) -> bytes:
    deflater = zlib.compressobj(9, wbits=-15)
    return (deflater.compress(data) + deflater.flush(zlib.Z_SYNC_FLUSH))[:-4]


def fed(reader: FrameReader, data: bytes, cuts: Iterator[int]) -> bytes:
    plain = b""
    while data:
        cut = next(cuts)
        plain += reader.receive(data[:cut])
        data = data[cut:]
        while reader.is_holding:
            plain += reader.receive(b"")
    return plain


def any_cuts(seed: int) -> Iterator[int]:
    random = Random(seed)
    widest = random.choice((1, 5, 200, 1 << 20))
    while True:
        yield random.randint(1, widest)


def fragments(random: Random, data: bytes, is_packed: bool) -> bytes:
    """Return a message in frames, with pings between them."""
    body = packed(data) if is_packed else data
    frames, first = b"", random.choice((TEXT, BINARY)) | (PACKED if is_packed else 0)
    while True:
        cut = random.randint(0, len(body) + 1)
        is_last = cut >= len(body) or random.random() < 0.3
        piece = body if is_last else body[:cut]
        frames += frame(first | (FINAL if is_last else 0), piece, random.randbytes(4))
        if is_last:
            return frames
        body, first = body[len(piece) :], CONT
        if random.random() < 0.4:
            frames += frame(FINAL | PING, random.randbytes(random.randint(0, 125)))


@settings(max_examples=60)
@given(
    messages=st.lists(st.tuples(st.binary(max_size=300), st.booleans()), max_size=6),
    seed=st.integers(0, 1 << 32),
)
def test_messages_in_any_frames_and_cuts(messages: list[tuple[bytes, bool]], seed: int) -> None:
    random = Random(seed)
    stream = b"".join(fragments(random, data, is_packed) for data, is_packed in messages)
    reader = FrameReader(LIMIT)
    assert fed(reader, stream, any_cuts(seed)) == b"".join(data for data, _ in messages)
    assert reader.goodbye is None


@settings(max_examples=200)
@given(data=st.binary(max_size=400), seed=st.integers(0, 1 << 32))
def test_random_bytes(data: bytes, seed: int) -> None:
    """They break a rule, or are taken for frames; either way cuts make no difference."""

    def outcome(cuts: Iterator[int]) -> tuple[bytes, bytes, str]:
        reader, plain, rest = FrameReader(LIMIT), b"", data
        try:
            while rest:
                cut = next(cuts)
                plain += reader.receive(rest[:cut])
                rest = rest[cut:]
        except BrokenFrameError as error:
            return plain + error.received, reader.take_answers(), str(error)
        return plain, reader.take_answers(), ""

    assert outcome(any_cuts(seed)) == outcome(iter([len(data)])) == outcome(iter([1] * len(data)))


@settings(max_examples=100)
@given(seed=st.integers(0, 1 << 32), flips=st.integers(1, 5))
def test_frames_that_went_wrong_somewhere(seed: int, flips: int) -> None:
    random = Random(seed)
    stream = bytearray(fragments(random, random.randbytes(200), random.random() < 0.7))
    for _ in range(flips):
        stream[random.randrange(len(stream))] = random.randrange(256)
    reader = FrameReader(LIMIT)
    try:
        fed(reader, bytes(stream), any_cuts(seed))
    except BrokenFrameError as error:
        assert error.code in (1002, 1007, 1009)


MASK_MISSING = b"\x82\x05hello"


@pytest.mark.parametrize(
    ("data", "code", "text"),
    [
        (MASK_MISSING, 1002, "mask bit missing"),
        (frame(FINAL | 0x20 | BINARY, b"x"), 1002, "RSV2 and RSV3 must be clear"),
        (frame(FINAL | 0x10 | BINARY, b"x"), 1002, "RSV2 and RSV3 must be clear"),
        (frame(FINAL | 3, b"x"), 1002, "unknown opcode 3"),
        (frame(FINAL | 11, b"x"), 1002, "unknown opcode 11"),
        (frame(FINAL | CONT, b"x"), 1002, "invalid continuation frame"),
        (
            frame(BINARY | PACKED, b"") + frame(FINAL | PACKED | CONT, b"x"),
            1002,
            "invalid continuation frame",
        ),
        (
            frame(BINARY, b"") + frame(FINAL | BINARY, b"x"),
            1002,
            "new message started before final frame for previous message was received",
        ),
        (
            frame(FINAL | PING, b"x" * 126),
            1002,
            "control frame length bigger than maximum allowed of 125 bytes",
        ),
        (frame(PING, b"x"), 1002, "control frame does not have final bit set"),
        (frame(FINAL | PACKED | PING, b"x"), 1002, "control frame must not be compressed"),
        (frame(FINAL | CLOSE, b"\x03"), 1002, "close frame too short"),
        (frame(FINAL | CLOSE, struct.pack("!H", 1005)), 1002, "invalid status code"),
        (frame(FINAL | CLOSE, b"\x03\xe8\xff"), 1007, "invalid utf8 body in close frame"),
        (frame(FINAL | BINARY, b"", length=1 << 63), 1002, "frame length"),
        (frame(FINAL | PACKED | BINARY, b"\xff" * 9), 1002, "decompression failed"),
    ],
)
def test_what_is_refused(data: bytes, code: int, text: str) -> None:
    good = frame(FINAL | BINARY, b"PING\r\n")
    for cuts in ([len(good + data)], [1] * len(good + data)):
        reader, received = FrameReader(LIMIT), b""
        with pytest.raises(BrokenFrameError, match=text) as broken:
            received += fed(reader, good + data, iter(cuts))
        assert broken.value.code == code
        assert received + broken.value.received in (b"PING\r\n", b"")
    with pytest.raises(BrokenFrameError) as at_once:
        FrameReader(LIMIT).receive(good + data)
    assert at_once.value.received == b"PING\r\n"  # what came before still counts


def test_compression_has_to_be_agreed_on() -> None:
    with pytest.raises(BrokenFrameError, match="without negotiated permessage-deflate"):
        FrameReader(None).receive(frame(FINAL | PACKED | BINARY, packed(b"PING\r\n")))


def test_what_a_closing_frame_holds() -> None:
    reader = FrameReader(None)
    data = frame(FINAL | BINARY, b"PING\r\n") + frame(FINAL | CLOSE, b"\x03\xe8bye")
    assert reader.receive(data + frame(FINAL | BINARY, b"more") + b"\xff\xff") == b"PING\r\n"
    assert reader.goodbye == b"\x03\xe8bye"
    assert reader.receive(b"more") == b""
    empty = FrameReader(None)
    empty.receive(frame(BINARY, b"in a message") + frame(FINAL | CLOSE, b""))
    assert empty.goodbye == b""


def test_pings_are_answered_and_pongs_ignored() -> None:
    reader = FrameReader(None)
    reader.receive(frame(FINAL | PING, b"a") + frame(FINAL | PONG, b"b") + frame(FINAL | PING, b""))
    assert reader.take_answers() == b"\x8a\x01a\x8a\x00"
    assert reader.take_answers() == b""


def test_a_long_frame_is_handed_on_as_it_comes() -> None:
    reader = FrameReader(LIMIT)
    assert reader.receive(frame(FINAL | BINARY, b"", length=1 << 40)) == b""
    for _ in range(50):
        assert len(reader.receive(bytes(100_000))) == 100_000
    assert not reader._arrived  # nothing is kept of it


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_message_that_inflates_too_far(is_cut: bool) -> None:
    reader = FrameReader(LIMIT)
    data = packed(bytes(60 * LIMIT))
    assert len(data) < 100_000
    stream = frame(FINAL | PACKED | BINARY, data)
    if is_cut:
        half = len(data) // 2
        stream = frame(PACKED | BINARY, data[:half]) + frame(FINAL | CONT, data[half:])
    plain = 0
    with pytest.raises(BrokenFrameError, match="maximum payload exceeded") as broken:
        plain += len(reader.receive(stream))
        while True:
            plain += len(reader.receive(b""))
    assert broken.value.code == 1009
    assert plain + len(broken.value.received) <= LIMIT


def test_how_far_a_message_may_inflate() -> None:
    for size in (LIMIT - 1, LIMIT):
        reader = FrameReader(LIMIT)
        stream = frame(FINAL | PACKED | BINARY, packed(bytes(size))) * 2
        assert fed(reader, stream, iter([len(stream)])) == bytes(2 * size)


def test_what_inflates_comes_in_shares() -> None:
    reader = FrameReader(LIMIT)
    many = frame(FINAL | PACKED | BINARY, packed(bytes(LIMIT - 7))) * 30
    shares = [len(reader.receive(many))]
    while reader.is_holding:
        shares.append(len(reader.receive(b"")))
    assert sum(shares) == 30 * (LIMIT - 7)
    assert max(shares) < 1.2 * READ_BYTES


def test_what_inflates_for_many_is_shared_out_among_them() -> None:
    """What two hundred clients had inflated kept everybody waiting for 1.4 seconds."""
    unwrapping = Unwrapping(STEPS_OF_TURN)
    readers = [FrameReader(1 << 20, unwrapping) for _ in range(100)]
    sent = frame(FINAL | PACKED | BINARY, packed(bytes(900_000)))
    turns = [sum(len(reader.receive(sent)) for reader in readers)]
    while any(reader.is_holding for reader in readers):
        unwrapping.begin()
        turns.append(sum(len(each.receive(b"")) for each in readers if each.is_holding))
    assert sum(turns) == 100 * 900_000
    # A turn, a slice by which one goes too far, and the least of all.
    assert max(turns) <= (STEPS_OF_TURN + 100 * 2 * STEPS_MIN) * INFLATED_BYTES_OF_STEP + (1 << 16)


def test_what_follows_the_last_block_is_nobodys() -> None:
    deflater = zlib.compressobj(9, wbits=-15)
    ended = deflater.compress(b"PING\r\n") + deflater.flush()
    reader = FrameReader(LIMIT)
    stream = frame(FINAL | PACKED | BINARY, ended + packed(b"PONG\r\n"))
    assert reader.receive(stream) == b"PING\r\n"
    assert reader.receive(frame(FINAL | PACKED | BINARY, packed(b"PING\r\n"))) == b"PING\r\n"


def lines_of(act: Callable[[], object]) -> int:
    """Count the lines of Python that something carries out."""
    count = 0

    def trace(frame: Any, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(None)
    return count


@pytest.mark.parametrize(
    ("sent", "held"),
    [
        pytest.param(frame(FINAL | PING, b"") * 30_000, b"", id="pings"),
        pytest.param(frame(FINAL | BINARY, b"") * 30_000, b"", id="empty"),
        pytest.param(
            frame(BINARY, b"x") + frame(CONT, b"y") * 30_000 + frame(FINAL | CONT, b"z"),
            b"x" + b"y" * 30_000 + b"z",
            id="pieces",
        ),
        pytest.param(
            frame(FINAL | PACKED | BINARY, packed(b"x")) * 10_000, b"x" * 10_000, id="packed"
        ),
    ],
)
def test_very_many_frames_come_in_shares(sent: bytes, held: bytes) -> None:
    unwrapping = Unwrapping(STEPS_OF_TURN)
    reader = FrameReader(LIMIT, unwrapping)
    got, lines = b"", []

    def receive(data: bytes) -> None:
        nonlocal got
        unwrapping.begin()
        got += reader.receive(data)

    lines.append(lines_of(lambda: receive(sent)))
    while reader.is_holding:
        lines.append(lines_of(lambda: receive(b"")))
    assert got == held and len(lines) >= 3
    assert max(lines) < 80 * STEPS_OF_TURN
    pings = 30_000 if sent[0] == FINAL | PING else 0
    assert reader.take_answers() == b"\x8a\x00" * pings
