"""Frames that are encoded before they are needed: what the null server delivers, and acks.

A consumer that reads a stream from its beginning, each message once, has its acks known before the
messages come: of an ack's subject servers take the delivery count and the two sequences and do not
look at what stands behind them. So one timestamp stands for all; it is as long as any real one.
"""

from __future__ import annotations

from functools import cache

from benchmarks.frame_lengths import FrameLengths
from benchmarks.wire import INBOX_SID, STREAM

# Left open: the stream's sequence, the consumer's, and how many messages are still to come.
_REPLY = f"$JS.ACK.{STREAM}.%s.1.%%d.%%d.1700000000000000000.%%d".encode()
_OPEN_BYTES = len(b"%d%d%d")
_ANY_CONSUMER = "any"


class NumberedFrames:
    """A frame for each of the messages 1 to `count` of a stream.

    Args:
        frame: one of them, its numbers left open.
        text: all of them.
    """

    def __init__(self, frame: bytes, count: int, text: bytes) -> None:
        self.count = count
        self._view = memoryview(text)
        self._lengths = FrameLengths(
            len(frame) - _OPEN_BYTES, count, rising=(1, 1), falling=(count - 1,)
        )
        assert self._lengths.offset(count) == len(text)

    def between(self, start: int, stop: int) -> memoryview:
        """Return the frames of the messages from `start` to before `stop`, counted from 0."""
        return self._view[self._lengths.offset(start) : self._lengths.offset(stop)]


@cache
def encoded_deliveries(consumer: str, payload: bytes, count: int) -> NumberedFrames:
    """Return what a consumer delivers to the subscription of an inbox."""
    line = b"MSG %s.0 %d %s %d\r\n" % (
        STREAM.encode(),
        INBOX_SID,
        _REPLY % consumer.encode(),
        len(payload),
    )
    frame = line + payload + b"\r\n"
    return NumberedFrames(frame, count, _encode(frame, count))


@cache
def encoded_acks(consumer: str, count: int) -> NumberedFrames:
    """Return the acks of a consumer."""
    # Another consumer's acks with another name: several times faster than encoding them.
    text = _acks_of_any(count).replace(f".{_ANY_CONSUMER}.".encode(), f".{consumer}.".encode())
    return NumberedFrames(_ack(consumer), count, text)


@cache
def _acks_of_any(count: int) -> bytes:
    return _encode(_ack(_ANY_CONSUMER), count)


def _ack(consumer: str) -> bytes:
    return b"PUB %s 0\r\n\r\n" % (_REPLY % consumer.encode())


def _encode(frame: bytes, count: int) -> bytes:
    return b"".join([frame % (seq, seq, count - seq) for seq in range(1, count + 1)])
