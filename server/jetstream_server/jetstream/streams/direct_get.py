"""Direct get: stored messages as plain messages, without JSON around them.

A `Receiver` on `$JS.API.DIRECT.GET.<stream>` (selectors in a JSON body) and on
`$JS.API.DIRECT.GET.<stream>.>` (the last message of the subject in the request). A single message
is answered by one message; `batch` and `multi_last` by many and an end marker, which leave as one
buffer when the reply leads to one client. Refusals are statuses. Specification: jetstream.md 5.10,
checked-api-streams.md 1.2 (5.10), and probes of the genuine server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson

from jetstream_server import API_LEVEL
from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import StoreError
from jetstream_server.base.limits import PENDING_BYTES_MAX
from jetstream_server.core.subscription import Origin, Subscription
from jetstream_server.jetstream.output import Output
from jetstream_server.jetstream.streams.publish_headers import extended, header
from jetstream_server.jetstream.streams.scan import messages
from jetstream_server.jetstream.wire.go_time import format_time, parse_time
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.ports import MessageStore, StoredMessage

PREFIX = b"$JS.API.DIRECT.GET."
# A stream and its mirrors share the requests.
QUEUE = b"_sys_"

_MULTI_LAST_MAX = 1024
_REQUIRED_LEVEL = b"Nats-Required-Api-Level"
# A buffer beyond this would have its receiver cut off as a slow consumer.
_ANSWER_BYTES_MAX = PENDING_BYTES_MAX * 3 // 4

_EMPTY = b"408 Empty Request"
_MALFORMED = b"408 Malformed Request"
_BAD = b"408 Bad Request"
_REQUIRED = b"412 Required Api Level"
_TOO_MANY = b"413 Too Many Results"
_NOT_FOUND = b"404 Message Not Found"
_NO_RESULTS = b"404 No Results"


@dataclass(slots=True)
class Selection:
    """What a request asks for; times in nanoseconds, None when not given."""

    seq: int = 0
    last_by_subj: str = ""
    next_by_subj: str = ""
    batch: int = 0
    max_bytes: int = 0
    start_time: int | None = None
    multi_last: list[str] = field(default_factory=list)
    up_to_seq: int = 0
    up_to_time: int | None = None
    no_hdr: bool = False

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing is selected."""
        return not (
            self.seq
            or self.last_by_subj
            or self.next_by_subj
            or self.multi_last
            or self.start_time is not None
        )

    @property
    def is_contradictory(self) -> bool:
        """Tell whether selectors exclude one another."""
        timed = self.start_time is not None
        return bool(
            (self.seq and self.last_by_subj)
            or (self.seq and timed)
            or (timed and self.last_by_subj)
            or (self.last_by_subj and (self.next_by_subj or self.batch or self.multi_last))
            or (self.next_by_subj and self.multi_last)
            or (self.up_to_seq and self.up_to_time is not None)
        )


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

    def receive(
        self,
        run: PubRun,
        start: int,
        stop: int,
        subscription: Subscription,
        origin: Origin | None,
        now: int,
    ) -> None:
        """Answer requests; one without reply is of no consequence."""
        prefix_bytes = self._prefix_bytes
        for index in range(start, stop):
            reply = run.reply(index)
            if not reply:
                continue
            try:
                refusal = self._answer(
                    reply, run.subject(index)[prefix_bytes:], run.headers(index), run.payload(index)
                )
            except StoreError as error:  # the store is offline now, and its stream says why
                refusal = b"500 " + error.reason.encode()
            if refusal:
                self._output.publish(reply, b"", headers=b"NATS/1.0 %b\r\n\r\n" % refusal)

    def _answer(self, reply: bytes, subject: bytes, headers: bytes, body: bytes) -> bytes:
        """Answer one request; return the status line of a refusal."""
        if headers and not _is_level_met(header(headers, _REQUIRED_LEVEL)):
            return _REQUIRED
        if not body and not subject:
            return _EMPTY
        wanted = _decode(body) if body else Selection()
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
            return self._answer_multi_last(reply, wanted)
        if wanted.batch:
            return self._answer_batch(reply, wanted)
        return self._answer_one(reply, wanted)

    def _answer_one(self, reply: bytes, wanted: Selection) -> bytes:
        if wanted.last_by_subj:
            message = self._last(wanted.last_by_subj)
        elif wanted.seq and not wanted.next_by_subj:
            message = self._store.load(wanted.seq)
        else:
            message = self._next(_patterns(wanted), self._start(wanted))
        if message is None:
            return _NOT_FOUND
        headers = b"" if wanted.no_hdr else extended(message.headers, self._lines(message))
        self._output.publish(reply, message.payload, headers=headers)
        return b""

    def _answer_batch(self, reply: bytes, wanted: Selection) -> bytes:
        store, patterns = self._store, _patterns(wanted)
        first = self._next(patterns, self._start(wanted))
        if first is None:
            return _NOT_FOUND
        filtered = store.filter(patterns)
        pending = store.count(filtered, first.sequence)

        answer = _Answer(self._output, reply, wanted.max_bytes, with_headers=not wanted.no_hdr)
        limit = max(wanted.batch, 0)
        found = messages(store, filtered, first.sequence, limit, answer.bytes_max)
        self._fill(answer, found, pending, limit)
        return b""

    def _answer_multi_last(self, reply: bytes, wanted: Selection) -> bytes:
        store = self._store
        up_to = self._up_to(wanted)
        if up_to is None:
            return _NO_RESULTS
        filtered = store.filter([_encode(pattern) for pattern in wanted.multi_last])
        sequences = store.last_sequences(filtered, up_to)
        if not sequences:
            return _NO_RESULTS
        if len(sequences) > _MULTI_LAST_MAX:
            return _TOO_MANY
        sequences = [sequence for sequence in sequences if sequence >= wanted.seq]
        loaded = (store.load(sequence) for sequence in sequences)
        answer = _Answer(self._output, reply, wanted.max_bytes, with_headers=True)
        answer.tail = b"Nats-UpTo-Sequence: %d\r\n" % up_to
        limit = wanted.batch if wanted.batch > 0 else len(sequences)
        self._fill(answer, (m for m in loaded if m is not None), len(sequences), limit)
        return b""

    def _fill(
        self, answer: _Answer, messages: Iterable[StoredMessage], pending: int, limit: int
    ) -> None:
        """Add up to `limit` messages and the end marker, and send all."""
        last = 0
        if limit:
            for added, message in enumerate(messages, 1):
                if answer.with_headers:
                    pending -= 1
                    lines = b"%bNats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n" % (
                        self._lines(message),
                        pending,
                        last,
                    )
                    answer.add(message, extended(message.headers, lines))
                else:
                    answer.add(message, b"")
                last = message.sequence
                if added >= limit or answer.is_full:
                    break
        answer.finish(pending, last)

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
            % (self._stream, message.subject, message.sequence, _time(message.timestamp))
        )


class _Answer:
    """Many messages to one reply subject, encoded at once where that can be."""

    def __init__(self, output: Output, reply: bytes, max_bytes: int, *, with_headers: bool) -> None:
        self.with_headers = with_headers
        self.tail = b""
        self._output = output
        self._reply = reply
        self.bytes_max = max_bytes or PENDING_BYTES_MAX
        self._counted_bytes = self._wire_bytes = 0
        self._messages: list[tuple[bytes, bytes]] = []

    @property
    def is_full(self) -> bool:
        """Tell whether the limit of bytes is reached: subjects, stored headers and payloads."""
        return self._counted_bytes >= self.bytes_max or self._wire_bytes >= _ANSWER_BYTES_MAX

    def add(self, message: StoredMessage, headers: bytes) -> None:
        """Add a message with the headers it is to have."""
        size = len(message.headers) + len(message.payload)
        self._counted_bytes += size + len(message.subject)
        self._wire_bytes += size + len(headers) + len(self._reply) + 32
        self._messages.append((headers, message.payload))

    def finish(self, pending: int, last: int) -> None:
        """Add the end marker and send everything."""
        marker = b"NATS/1.0 204 EOB\r\nNats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n%b\r\n"
        self._messages.append((marker % (pending, last, self.tail), b""))
        target = self._output.sublist.match_one(self._reply)
        if target is None or target.outlet is None or target.max_messages:
            for headers, payload in self._messages:
                self._output.publish(self._reply, payload, headers=headers)
            return
        head = b"%b %b" % (self._reply, target.sid)
        frames: list[bytes] = []
        for headers, payload in self._messages:
            if headers and target.outlet.headers:
                sizes = b"%d %d" % (len(headers), len(headers) + len(payload))
                frames += (b"HMSG %b %b\r\n" % (head, sizes), headers, payload, b"\r\n")
            else:
                frames += (b"MSG %b %d\r\n" % (head, len(payload)), payload, b"\r\n")
        self._output.frames(target, b"".join(frames), len(self._messages))


def _patterns(wanted: Selection) -> list[bytes]:
    return [_encode(wanted.next_by_subj)] if wanted.next_by_subj else []


def _encode(subject: str) -> bytes:
    return subject.encode("utf-8", "surrogateescape")


def _time(timestamp: int) -> bytes:
    seconds, fraction = divmod(timestamp, SECOND)
    if not fraction:
        return _second(seconds) + b"Z"
    return b"%b.%bZ" % (_second(seconds), (b"%09d" % fraction).rstrip(b"0"))


@lru_cache(maxsize=64)
def _second(seconds: int) -> bytes:
    """Return the text of a time but for its fraction; neighbours mostly share it."""
    return format_time(seconds * SECOND).encode()[:-1]


def _is_level_met(value: bytes) -> bool:
    """Tell whether this server has the API level that a request requires."""
    if not value:
        return True
    try:
        return int(value) <= API_LEVEL
    except ValueError:
        return False


def _decode(body: bytes) -> Selection | None:
    """Read a request as Go would (keys in any case, null is absent, unknown keys ignored), None
    when it is malformed."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if document is None:
        return Selection()
    if not isinstance(document, dict):
        return None
    wanted = Selection()
    for key, value in document.items():
        name = key.lower()
        read = _FIELDS.get(name)
        if read is None or value is None:
            continue
        try:
            setattr(wanted, name, read(value))
        except (TypeError, ValueError):
            return None
    return wanted


def _integer(value: Any) -> int:
    if type(value) is not int:
        raise TypeError
    return value


def _unsigned(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _moment(value: Any) -> int:
    return parse_time(_text(value))


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise TypeError
    return [_text(item) for item in value]


_FIELDS: dict[str, Callable[[Any], Any]] = {
    "seq": _unsigned,
    "last_by_subj": _text,
    "next_by_subj": _text,
    "batch": _integer,
    "max_bytes": _integer,
    "start_time": _moment,
    "multi_last": _texts,
    "up_to_seq": _unsigned,
    "up_to_time": _moment,
    "no_hdr": _flag,
}
