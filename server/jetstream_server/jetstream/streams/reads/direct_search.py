"""What a direct get asks for, looked for and answered a slice at a time.

A request is a few bytes and its answer up to 48 MB, or behind a hundred million messages. So most
methods here are generators that give None after so much work, when others may have their turn, and
return the status line of a refusal, or nothing if the request is answered. Only what names its
message is answered at once.

The stream goes on meanwhile. What is published after a batch began is not part of it. A message
that is removed before its turn is left out, and the numbers of pending messages still count it, as
in the genuine server, which loads messages one by one as well.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterable, Iterator
from itertools import islice

from jetstream_server.base.errors import StoreError
from jetstream_server.base.limits import PENDING_BYTES_MAX
from jetstream_server.core.workload import SUBJECTS_OF_UNIT, Workload
from jetstream_server.jetstream.streams.messages.publish_headers import extended
from jetstream_server.jetstream.streams.messages.scan import WINDOW_MESSAGES, messages_in
from jetstream_server.jetstream.streams.reads.direct_replies import DirectReplies
from jetstream_server.jetstream.streams.reads.direct_selection import Selection
from jetstream_server.jetstream.streams.reads.look_ahead import count_ahead, look_ahead
from jetstream_server.kernels.direct_gets import encode_answers
from jetstream_server.kernels.moments import time_text
from jetstream_server.store.ports import MessageStore, StoredMessage, SubjectFilter

Steps = Generator[None, None, bytes]

_MULTI_LAST_MAX = 1024
# A buffer beyond this would have its receiver cut off as a slow consumer.
_ANSWER_BYTES_MAX = PENDING_BYTES_MAX * 3 // 4

# How much is done in a slice: each takes a few milliseconds at most.
_SLICE_BYTES = 2 * 1024 * 1024  # of answers
_SLICE_MESSAGES = 64  # of answers that are made one by one, in a window
_SLICE_LOADED = 16  # likewise, of messages that may be large, and anywhere
_SLICE_WINDOWS = 4  # in which nothing is found
_SLICE_PASSED = 100_000  # sequences, likewise: what is in them may have to be read first
_SLICE_SUBJECTS = 200_000  # compared with a filter
_SLICE_COUNTED = 200_000  # messages
_SLICE_PATTERNS = 10_000  # that are read, or prepared

NOT_FOUND = b"404 Message Not Found"
_NO_RESULTS = b"404 No Results"
_TOO_MANY = b"413 Too Many Results"


class DirectSearch:
    """Looks for messages of one store, and answers with them.

    Args:
        stream: the stream's name, as the answers show it.
        store: its messages.
        workload: is told what a turn has done of this.
    """

    def __init__(self, stream: bytes, store: MessageStore, workload: Workload) -> None:
        self._stream = stream
        self._store = store
        self._workload = workload

    def named(self, replies: DirectReplies, reply: bytes, wanted: Selection) -> bytes:
        """Answer with the message of a sequence, or the last one of a subject."""
        store = self._store
        try:
            if wanted.last_by_subj:
                message = store.load_last(store.filter([_encode(wanted.last_by_subj)]))
            else:
                message = store.load(wanted.seq)
        except StoreError as error:  # the store is offline now, and its stream says why
            return b"500 " + error.reason.encode()
        return self._answer_with(message, replies, reply, wanted)

    def newest(self, replies: DirectReplies, reply: bytes, wanted: Selection) -> Steps:
        """Answer with the last message of all subjects that match."""
        store = self._store
        filtered = store.filter([_encode(wanted.last_by_subj)])
        yield from look_ahead(store, filtered)
        self._looked_at_all()
        return self._answer_with(store.load_last(filtered), replies, reply, wanted)

    def _looked_at_all(self) -> None:
        self._workload.spend(self._store.state().num_subjects // SUBJECTS_OF_UNIT)

    def following(self, replies: DirectReplies, reply: bytes, wanted: Selection) -> Steps:
        """Answer with the next message of a subject, or from a time on."""
        filtered = self._store.filter(_patterns(wanted))
        message = yield from self._next(filtered, self._start(wanted))
        return self._answer_with(message, replies, reply, wanted)

    def _answer_with(
        self,
        message: StoredMessage | None,
        replies: DirectReplies,
        reply: bytes,
        wanted: Selection,
    ) -> bytes:
        if message is None:
            return NOT_FOUND
        headers = b"" if wanted.no_hdr else extended(message.headers, self._lines(message))
        replies.add(reply, headers, message.payload)
        return b""

    def batch(self, replies: DirectReplies, reply: bytes, wanted: Selection) -> Steps:
        """Answer with the next messages of a subject, and the end marker."""
        store = self._store
        filtered = store.filter(_patterns(wanted))
        first = yield from self._next(filtered, self._start(wanted))
        if first is None:
            return NOT_FOUND
        yield from count_ahead(store, filtered, first.sequence, _SLICE_COUNTED)
        pending = store.count(filtered, first.sequence)
        sequence, limit = first.sequence, max(min(wanted.batch, pending), 0)
        if replies.target is not None:
            return (
                yield from self._encode_batch(
                    replies, reply, wanted, filtered, sequence, limit, pending
                )
            )
        pieces = self._windows(filtered, sequence, limit, _room(wanted))
        return (yield from self._add_all(replies, reply, wanted, pieces, pending))

    def _encode_batch(
        self,
        replies: DirectReplies,
        reply: bytes,
        wanted: Selection,
        filtered: SubjectFilter | None,
        sequence: int,
        left: int,
        pending: int,
    ) -> Steps:
        """Answer the one client at the target, a window of the store at a time."""
        store, target = self._store, replies.target
        assert target is not None, "the caller looked"
        stream = self._stream if replies.has_headers and not wanted.no_hdr else b""
        head = b"%b %b" % (reply, target.sid)
        room, wire_bytes, last = _room(wanted), 0, 0
        windows, begun, sent_bytes, last_seq = 0, sequence, 0, store.last_seq
        while left > 0 and room > 0 and wire_bytes < _ANSWER_BYTES_MAX and sequence <= last_seq:
            is_long = windows == _SLICE_WINDOWS or sequence - begun >= _SLICE_PASSED
            if is_long or wire_bytes - sent_bytes >= _SLICE_BYTES:
                windows, begun, sent_bytes = 0, sequence, wire_bytes
                yield
            window = store.window(
                filtered, sequence, min(left, WINDOW_MESSAGES), min(room, _SLICE_BYTES)
            )
            windows += 1
            sequence = window.next_seq
            data, taken, counted = encode_answers(
                buffer=window.buffer,
                positions=window.positions,
                sequences=window.sequences,
                count=bisect_right(window.sequences, last_seq),
                head=head,
                stream=stream,
                pending=pending,
                last=last,
                bytes_max=room,
            )
            if not taken:
                continue
            replies.add_frames(data, taken)
            last = window.sequences[taken - 1]
            left, room, wire_bytes = left - taken, room - counted, wire_bytes + len(data)
            if not wanted.no_hdr:
                pending -= taken
        replies.add(reply, _end(pending, last), b"")
        return b""

    def _windows(
        self, filtered: SubjectFilter | None, sequence: int, left: int, room: int
    ) -> Iterator[Iterable[StoredMessage]]:
        """Yield the next messages, those of a window together; nobody may write to the store before
        the next ones are asked for."""
        store = self._store
        last_seq = store.last_seq
        while left > 0 and sequence <= last_seq:
            window = store.window(
                filtered, sequence, min(left, _SLICE_MESSAGES), min(room, _SLICE_BYTES)
            )
            sequence, left = window.next_seq, left - len(window)
            # What was purged may have given way to what has come since.
            yield islice(messages_in(window), bisect_right(window.sequences, last_seq))

    def multi_last(self, replies: DirectReplies, reply: bytes, wanted: Selection) -> Steps:
        """Answer with the last message of each of many subjects, and the end marker."""
        store = self._store
        up_to = self._up_to(wanted)
        if up_to is None:
            return _NO_RESULTS
        is_long = len(wanted.multi_last) > _SLICE_PATTERNS
        if is_long:  # it was read in this slice
            yield
        patterns = [pattern.encode("utf-8", "surrogateescape") for pattern in wanted.multi_last]
        if is_long:
            yield
        filtered = store.filter(patterns)
        if is_long:
            yield
        yield from look_ahead(store, filtered)
        if is_long:
            yield
        together = b"".join(patterns)
        if b"*" in together or b">" in together:
            self._looked_at_all()
        sequences = store.last_sequences(filtered, up_to, _MULTI_LAST_MAX)
        if not sequences:
            return _NO_RESULTS
        if len(sequences) > _MULTI_LAST_MAX:
            return _TOO_MANY
        del sequences[: bisect_left(sequences, wanted.seq)]
        limit = wanted.batch if wanted.batch > 0 else len(sequences)
        tail = b"Nats-UpTo-Sequence: %d\r\n" % up_to
        if replies.target is not None:
            return (
                yield from self._encode_located(
                    replies, reply, sequences, limit, _room(wanted), tail
                )
            )
        wanted.no_hdr = False
        pieces = self._loaded(sequences[:limit])
        return (yield from self._add_all(replies, reply, wanted, pieces, len(sequences), tail))

    def _loaded(self, sequences: array[int]) -> Iterator[Iterable[StoredMessage]]:
        """Yield messages, some at a time."""
        for at in range(0, len(sequences), _SLICE_LOADED):
            yield filter(None, map(self._store.load, sequences[at : at + _SLICE_LOADED]))

    def _encode_located(
        self,
        replies: DirectReplies,
        reply: bytes,
        sequences: array[int],
        left: int,
        room: int,
        tail: bytes,
    ) -> Steps:
        """Answer the one client at the target with up to `left` messages, those of one block in one
        call, and the end marker."""
        target = replies.target
        assert target is not None, "the caller looked"
        stream = self._stream if replies.has_headers else b""
        head = b"%b %b" % (reply, target.sid)
        pending, wire_bytes, last, sent_bytes = len(sequences), 0, 0, 0
        while sequences and left > 0 and room > 0 and wire_bytes < _ANSWER_BYTES_MAX:
            if wire_bytes - sent_bytes >= _SLICE_BYTES:
                sent_bytes = wire_bytes
                yield
            buffers, positions = self._store.locate(sequences, min(room, _SLICE_BYTES))
            at = 0
            while at < len(buffers) and left > 0 and room > 0:
                buffer, start, at = buffers[at], at, at + 1
                if buffer is None:
                    continue
                while at < len(buffers) and buffers[at] is buffer:
                    at += 1
                data, taken, counted = encode_answers(
                    buffer=buffer,
                    positions=positions[start:at],
                    sequences=sequences[start:at],
                    count=left,
                    head=head,
                    stream=stream,
                    pending=pending,
                    last=last,
                    bytes_max=room,
                )
                replies.add_frames(data, taken)
                last = sequences[start + taken - 1]
                pending, left, room = pending - taken, left - taken, room - counted
                wire_bytes += len(data)
            del sequences[: len(buffers)]
        replies.add(reply, _end(pending, last, tail), b"")
        return b""

    def _add_all(
        self,
        replies: DirectReplies,
        reply: bytes,
        wanted: Selection,
        pieces: Iterator[Iterable[StoredMessage]],
        pending: int,
        tail: bytes = b"",
    ) -> Steps:
        """Answer wherever the reply leads, a message at a time, and with the end marker."""
        room, wire_bytes, last = _room(wanted), 0, 0
        for number, piece in enumerate(pieces, 1):
            for message in piece:
                headers = b""
                if not wanted.no_hdr:
                    pending -= 1
                    numbers = (pending, last)
                    lines = b"Nats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n" % numbers
                    headers = extended(message.headers, self._lines(message) + lines)
                replies.add(reply, headers, message.payload)
                last = message.sequence
                size = len(message.headers) + len(message.payload)
                room -= size + len(message.subject)
                wire_bytes += size + len(headers) + len(reply) + 32
                if room <= 0 or wire_bytes >= _ANSWER_BYTES_MAX:
                    break
            if room <= 0 or wire_bytes >= _ANSWER_BYTES_MAX:
                break
            if number % _SLICE_WINDOWS == 0:
                yield
        replies.add(reply, _end(pending, last, tail), b"")
        return b""

    def _next(
        self, filtered: SubjectFilter | None, sequence: int
    ) -> Generator[None, None, StoredMessage | None]:
        """Return the first matching message from `sequence` on."""
        store = self._store
        while not store.decide(filtered, _SLICE_SUBJECTS):
            yield
        windows, begun = 0, sequence
        while True:
            window = store.window(filtered, sequence, 1, 0)
            if window.sequences:
                return store.load(window.sequences[0])
            if (sequence := window.next_seq) > store.last_seq:
                return None
            windows += 1
            if windows == _SLICE_WINDOWS or sequence - begun >= _SLICE_PASSED:
                windows, begun = 0, sequence
                yield

    def _up_to(self, wanted: Selection) -> int | None:
        """Return the last sequence that counts, None when that leaves nothing."""
        last = self._store.last_seq
        up_to = wanted.up_to_seq or last
        if wanted.up_to_time is not None:
            up_to = self._store.sequence_at(wanted.up_to_time) - 1
        return up_to if 0 < up_to <= last else None

    def _start(self, wanted: Selection) -> int:
        if wanted.start_time is not None:
            return self._store.sequence_at(wanted.start_time)
        return wanted.seq

    def _lines(self, message: StoredMessage) -> bytes:
        return (
            b"Nats-Stream: %b\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\nNats-Time-Stamp: %b\r\n"
            % (self._stream, message.subject, message.sequence, time_text(message.timestamp))
        )


def _room(wanted: Selection) -> int:
    """Return how many bytes an answer may have: subjects, stored headers and payloads."""
    return max(wanted.max_bytes or PENDING_BYTES_MAX, 1)


def _end(pending: int, last: int, tail: bytes = b"") -> bytes:
    """Return the headers of the end marker."""
    marker = b"NATS/1.0 204 EOB\r\nNats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n%b\r\n"
    return marker % (pending, last, tail)


def _patterns(wanted: Selection) -> list[bytes]:
    return [_encode(wanted.next_by_subj)] if wanted.next_by_subj else []


def _encode(subject: str) -> bytes:
    return subject.encode("utf-8", "surrogateescape")
