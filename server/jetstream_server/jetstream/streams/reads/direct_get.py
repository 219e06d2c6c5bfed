"""Direct get: stored messages as plain messages, without JSON around them.

A `Receiver` on `$JS.API.DIRECT.GET.<stream>` (selectors in a JSON body) and on
`$JS.API.DIRECT.GET.<stream>.>` (the last message of the subject in the request). A single message
is answered by one message; `batch` and `multi_last` by many and an end marker, which leave as one
buffer when the reply leads to one client. Refusals are statuses. Specification:
docs/reference/streams.md#direct-get, and probes of the genuine server.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from itertools import islice

from jetstream_server import API_LEVEL
from jetstream_server.base.errors import StoreError
from jetstream_server.base.limits import PENDING_BYTES_MAX
from jetstream_server.core.subscription import Stretch
from jetstream_server.jetstream.output import Output
from jetstream_server.jetstream.streams.messages.publish_headers import extended, header
from jetstream_server.jetstream.streams.messages.scan import WINDOW_BYTES, WINDOW_MESSAGES, messages
from jetstream_server.jetstream.streams.reads.direct_replies import DirectReplies
from jetstream_server.jetstream.streams.reads.direct_selection import Selection, decode
from jetstream_server.kernels.direct_gets import encode_answers
from jetstream_server.kernels.moments import time_text
from jetstream_server.kernels.single_gets import encode_found, sequences_asked, subjects_asked
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.ports import MessageStore, StoredMessage, SubjectFilter

PREFIX = b"$JS.API.DIRECT.GET."
# A stream and its mirrors share the requests.
QUEUE = b"_sys_"

_MULTI_LAST_MAX = 1024
_REQUIRED_LEVEL = b"Nats-Required-Api-Level"
# A buffer beyond this would have its receiver cut off as a slow consumer.
_ANSWER_BYTES_MAX = PENDING_BYTES_MAX * 3 // 4

# From this many requests on it pays to look at them together, and at most this many are looked at
# ahead.
_BULK_MIN = 4
_BULK_MAX = 2048

_EMPTY = b"408 Empty Request"
_MALFORMED = b"408 Malformed Request"
_BAD = b"408 Bad Request"
_REQUIRED = b"412 Required Api Level"
_TOO_MANY = b"413 Too Many Results"
_NOT_FOUND = b"404 Message Not Found"
_NO_RESULTS = b"404 No Results"


class DirectGet:
    """Answers the direct gets of one stream.

    Args:
        stream: the stream's name, as the answers show it.
        store: its messages.
        output: where answers go.
        asked_of: the stream that requests name: the origin when a mirror answers for it.

    Attributes:
        interest: what to subscribe it to: subjects with their queue group.
    """

    def __init__(
        self, stream: str, store: MessageStore, output: Output, *, asked_of: str = ""
    ) -> None:
        self._stream = stream.encode()
        address = PREFIX + (asked_of or stream).encode()
        self._prefix_bytes = len(address) + 1
        self.interest = {(pattern, QUEUE): self for pattern in (address, address + b".>")}
        self._store = store
        self._output = output

    def receive(self, stretch: Stretch) -> None:
        """Answer requests as far as there is room; one without a reply has no effect."""
        run, index, stop, answers = stretch.run, stretch.start, stretch.stop, stretch.answers
        while index < stop:
            cut, reply, target = self._output.reply_stretch(run, index, stop)
            if reply:
                replies = DirectReplies(self._output, target, answers)
                cut = self._answer_some(replies, run, index, cut)
                replies.send()
                if answers is not None and not answers.room_bytes:
                    if cut < stop:
                        answers.postpone(stretch.postponed_from(cut))
                    return
            index = cut

    def _answer_some(self, replies: DirectReplies, run: PubRun, index: int, stop: int) -> int:
        """Answer requests of one client, those that ask for a sequence or a subject together;
        return the first one that there was no room for."""
        together = replies.has_headers
        while index < stop and replies.room_bytes:
            if together and stop - index >= _BULK_MIN:
                try:
                    asked = self._asked(run, index, min(stop, index + _BULK_MAX))
                    if len(asked) >= _BULK_MIN:
                        index = self._answer_found(replies, run, index, asked)
                        continue
                except StoreError:
                    together = False  # then each one is told
            self._answer(replies, run, index)
            index += 1
        return index

    def _asked(self, run: PubRun, index: int, stop: int) -> array[int]:
        """Return the sequences asked for by the first requests that name one, or a subject; 0 where
        the subject has none."""
        given = run.chunk, run.fields, index, stop, self._prefix_bytes - 1
        asked = sequences_asked(*given)
        return asked or self._store.subject_lasts(subjects_asked(*given))

    def _answer_found(
        self, replies: DirectReplies, run: PubRun, index: int, asked: array[int]
    ) -> int:
        """Answer those that there is room for; return the first request after them."""
        assert replies.target is not None, "the caller looked"
        buffers, positions = self._store.locate(asked, replies.room_bytes)
        at, count = 0, len(buffers)
        found = asked[:count]
        while at < count:
            data, taken = encode_found(
                buffers=buffers,
                positions=positions,
                sequences=found,
                first=at,
                chunk=run.chunk,
                fields=run.fields,
                start=index + at,
                sid=replies.target.sid,
                stream=self._stream,
            )
            if taken:
                replies.add_frames(data, taken)
            at += taken
            if at < count:  # it is not there
                self._answer(replies, run, index + at)
                at += 1
        return index + count

    def _answer(self, replies: DirectReplies, run: PubRun, index: int) -> None:
        reply, subject = run.reply(index), run.subject(index)[self._prefix_bytes :]
        try:
            refusal = self._answer_request(
                replies, reply, subject, run.headers(index), run.payload(index)
            )
        except StoreError as error:  # the store is offline now, and its stream says why
            refusal = b"500 " + error.reason.encode()
        if refusal:
            replies.add(reply, b"NATS/1.0 %b\r\n\r\n" % refusal, b"")

    def _answer_request(
        self, replies: DirectReplies, reply: bytes, subject: bytes, headers: bytes, body: bytes
    ) -> bytes:
        """Answer one request; return the status line of a refusal."""
        if headers and not _is_level_met(header(headers, _REQUIRED_LEVEL)):
            return _REQUIRED
        if not body and not subject:
            return _EMPTY
        wanted = decode(body) if body else Selection()
        if wanted is None:
            return _MALFORMED
        if subject:
            if not wanted.is_empty or wanted.batch:
                return _BAD
            wanted.last_by_subj = subject.decode("utf-8", "surrogateescape")
        if wanted.is_empty:
            return _EMPTY
        if wanted.is_contradictory:
            return _BAD
        if wanted.multi_last:
            return self._answer_multi_last(replies, reply, wanted)
        if wanted.batch:
            return self._answer_batch(replies, reply, wanted)
        return self._answer_one(replies, reply, wanted)

    def _answer_one(self, replies: DirectReplies, reply: bytes, wanted: Selection) -> bytes:
        if wanted.last_by_subj:
            message = self._last(wanted.last_by_subj)
        elif wanted.seq and not wanted.next_by_subj:
            message = self._store.load(wanted.seq)
        else:
            message = self._next(_patterns(wanted), self._start(wanted))
        if message is None:
            return _NOT_FOUND
        headers = b"" if wanted.no_hdr else extended(message.headers, self._lines(message))
        replies.add(reply, headers, message.payload)
        return b""

    def _answer_batch(self, replies: DirectReplies, reply: bytes, wanted: Selection) -> bytes:
        store, patterns = self._store, _patterns(wanted)
        first = self._next(patterns, self._start(wanted))
        if first is None:
            return _NOT_FOUND
        filtered = store.filter(patterns)
        pending = store.count(filtered, first.sequence)
        if replies.target is not None:
            self._encode_batch(replies, reply, wanted, filtered, first.sequence, pending)
            return b""
        limit = max(wanted.batch, 0)
        found = messages(store, filtered, first.sequence, limit, _room(wanted))
        self._add_all(replies, reply, wanted, found, pending, limit)
        return b""

    def _encode_batch(
        self,
        replies: DirectReplies,
        reply: bytes,
        wanted: Selection,
        filtered: SubjectFilter | None,
        sequence: int,
        pending: int,
    ) -> None:
        """Answer the one client at the target, a window of the store at a time."""
        store, target = self._store, replies.target
        assert target is not None, "the caller looked"
        stream = self._stream if replies.has_headers and not wanted.no_hdr else b""
        head = b"%b %b" % (reply, target.sid)
        left, room, wire_bytes, last = wanted.batch, _room(wanted), 0, 0
        while left > 0 and room > 0 and wire_bytes < _ANSWER_BYTES_MAX:
            if sequence > store.last_seq:
                break
            window = store.window(
                filtered, sequence, min(left, WINDOW_MESSAGES), min(room, WINDOW_BYTES)
            )
            sequence = window.next_seq
            data, taken, counted = encode_answers(
                buffer=window.buffer,
                positions=window.positions,
                sequences=window.sequences,
                count=len(window),
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

    def _answer_multi_last(self, replies: DirectReplies, reply: bytes, wanted: Selection) -> bytes:
        store = self._store
        up_to = self._up_to(wanted)
        if up_to is None:
            return _NO_RESULTS
        filtered = store.filter([_encode(pattern) for pattern in wanted.multi_last])
        sequences = store.last_sequences(filtered, up_to, _MULTI_LAST_MAX)
        if not sequences:
            return _NO_RESULTS
        if len(sequences) > _MULTI_LAST_MAX:
            return _TOO_MANY
        del sequences[: bisect_left(sequences, wanted.seq)]
        limit = wanted.batch if wanted.batch > 0 else len(sequences)
        tail = b"Nats-UpTo-Sequence: %d\r\n" % up_to
        if replies.target is not None:
            self._encode_located(replies, reply, sequences, limit, _room(wanted), tail)
            return b""
        loaded = (store.load(sequence) for sequence in sequences)
        found = (message for message in loaded if message is not None)
        wanted.no_hdr = False
        self._add_all(replies, reply, wanted, found, len(sequences), limit, tail)
        return b""

    def _encode_located(
        self,
        replies: DirectReplies,
        reply: bytes,
        sequences: array[int],
        left: int,
        room: int,
        tail: bytes,
    ) -> None:
        """Answer the one client at the target with up to `left` messages, those of one block in one
        call, and the end marker."""
        target = replies.target
        assert target is not None, "the caller looked"
        stream = self._stream if replies.has_headers else b""
        head = b"%b %b" % (reply, target.sid)
        pending, wire_bytes, last = len(sequences), 0, 0
        while sequences and left > 0 and room > 0 and wire_bytes < _ANSWER_BYTES_MAX:
            buffers, positions = self._store.locate(sequences, min(room, WINDOW_BYTES))
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

    def _add_all(
        self,
        replies: DirectReplies,
        reply: bytes,
        wanted: Selection,
        found: Iterable[StoredMessage],
        pending: int,
        limit: int,
        tail: bytes = b"",
    ) -> None:
        """Answer with up to `limit` messages, one at a time, and the end marker."""
        room, wire_bytes, last = _room(wanted), 0, 0
        for message in islice(found, limit):
            headers = b""
            if not wanted.no_hdr:
                pending -= 1
                numbers = b"Nats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n" % (pending, last)
                headers = extended(message.headers, self._lines(message) + numbers)
            replies.add(reply, headers, message.payload)
            last = message.sequence
            size = len(message.headers) + len(message.payload)
            room -= size + len(message.subject)
            wire_bytes += size + len(headers) + len(reply) + 32
            if room <= 0 or wire_bytes >= _ANSWER_BYTES_MAX:
                break
        replies.add(reply, _end(pending, last, tail), b"")

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

    def _next(self, patterns: list[bytes], sequence: int) -> StoredMessage | None:
        return self._store.load_next(self._store.filter(patterns), sequence)

    def _last(self, subject: str) -> StoredMessage | None:
        return self._store.load_last(self._store.filter([_encode(subject)]))

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


def _is_level_met(value: bytes) -> bool:
    """Tell whether this server has the API level that a request requires."""
    if not value:
        return True
    try:
        return int(value) <= API_LEVEL
    except ValueError:
        return False
