"""Counts the messages that a consumer delivers by their bytes.

The first delivery tells the layout; the rest follows from its numbers (`FrameLengths`). Nothing is
searched, but each chunk is checked: its last whole message must begin where the bytes say and have
the sequences that the count says, and what follows must look like the next one. Where that fails
something else came between (a PING, flow control, a heartbeat): it is found by bisection, answered
and left out of the count. Anything that does not belong there fails the load.
"""

from __future__ import annotations

import re
from bisect import bisect_left

from benchmarks.event_loop import Flow
from benchmarks.frame_lengths import FrameLengths
from benchmarks.wire import LoadError, Wire

_DELIVERY = re.compile(
    rb"MSG (?P<prefix>\S+\.)[^\s.]+ \S+ \$JS\.ACK\.[^.]+\.[^.]+\.(?P<numbers>"
    rb"1\.(?P<stream_seq>\d+)\.(?P<consumer_seq>\d+)\.\d+\.(?P<pending>\d+)) (?P<size>\d+)\r\n"
)
_CONTINUES = b"NATS/1.0 100"
_PING = b"PING"
_SHOWN_BYTES = 200


class DeliveryFlow(Flow):
    """One socket on which one consumer delivers a stream of equally long messages, each once.

    Attributes:
        first_seqs: stream and consumer sequence of the first delivery, None before it.
    """

    def __init__(self, wire: Wire) -> None:
        super().__init__(wire)
        self.first_seqs: tuple[int, int] | None = None
        self._lengths: FrameLengths | None = None
        self._head = b""
        self._numbers_at = 0

    def count(self, end: int) -> int:
        """Count what is whole in the buffer; return where the rest begins."""
        start = 0
        while True:
            start = self._step_over_deliveries(start, end)
            if (length := self._length_of_other(start, end)) == 0:
                return start
            start += length

    def _step_over_deliveries(self, start: int, end: int) -> int:
        lengths = self._lengths or self._learn(start, end)
        if lengths is None:
            return start
        base = lengths.offset(self.messages) - start
        messages = lengths.whole(base + end)

        def is_strange(number: int) -> bool:
            return not self._may_be_delivery(number, lengths.offset(number) - base, end)

        if is_strange(max(messages - 1, self.messages)) or is_strange(messages):
            known = range(self.messages, messages)
            messages = self.messages + bisect_left(known, True, key=is_strange)
        self.messages = messages
        return lengths.offset(messages) - base

    def _learn(self, start: int, end: int) -> FrameLengths | None:
        """Learn from the first delivery what they look like."""
        if (found := _DELIVERY.match(self._buffer, start, end)) is None:
            return None
        stream_seq, consumer_seq, pending, size = map(
            int, found.group("stream_seq", "consumer_seq", "pending", "size")
        )
        digits = sum(len(str(number)) for number in (stream_seq, consumer_seq, pending))
        self._head = b"MSG " + found["prefix"]
        self._numbers_at = found.start("numbers") - start
        self.first_seqs = stream_seq, consumer_seq
        self._lengths = FrameLengths(
            found.end() - start - digits + size + len(b"\r\n"),
            pending + 1,
            rising=self.first_seqs,
            falling=(pending,),
        )
        return self._lengths

    def _may_be_delivery(self, number: int, start: int, end: int) -> bool:
        """Whether what is there of this message, counted from 0, is as it should be."""
        assert self.first_seqs is not None
        stream_seq, consumer_seq = self.first_seqs
        numbers = b"1.%d.%d." % (stream_seq + number, consumer_seq + number)
        return self._agrees(self._head, start, end) and self._agrees(
            numbers, start + self._numbers_at, end
        )

    def _agrees(self, expected: bytes, start: int, end: int) -> bool:
        return expected.startswith(self._buffer[start : min(start + len(expected), end)])

    def _length_of_other(self, start: int, end: int) -> int:
        """Handle a frame that is no delivery; return its length, 0 if it is not whole or is one."""
        if self._lengths is not None and self._may_be_delivery(self.messages, start, end):
            return 0
        line_end = self._buffer.find(b"\r\n", start, end)
        if line_end < 0:
            return 0
        words = bytes(self._buffer[start:line_end]).split()
        length = line_end + 2 - start
        if words == [_PING]:
            self.send(b"PONG\r\n")
            return length
        if words[:1] == [b"HMSG"]:
            length += int(words[-1]) + 2
            if start + length > end:
                return 0
            if self._buffer.startswith(_CONTINUES, line_end + 2):
                if len(words) == len(b"HMSG subject sid reply headers total".split()):
                    self.send(b"PUB %s 0\r\n\r\n" % words[3])
                return length
        shown = bytes(self._buffer[start : min(end, start + _SHOWN_BYTES)])
        raise LoadError(f"after {self.messages} messages something else came: {shown!r}")
