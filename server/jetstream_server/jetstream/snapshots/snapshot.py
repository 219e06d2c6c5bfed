"""A snapshot on its way to a client: a stream's archive, sent in chunks that the client acks.

Nothing of the archive exists before it is asked for: chunks are made when the client has room for
them, a bounded amount a turn, straight from the stored messages. What is held is one chunk, one
block of the archive, and the consumers as they were at the beginning; how large the stream is makes
no difference. Messages stored later are left out, messages removed meanwhile are missing.

Life: waiting for somebody to listen (`_INTEREST_NS`), sending while fewer than a window of chunks
is unacked, then the end. Each chunk has a reply of its own; any message on it makes room for one
more. No ack for `_ACK_NS` while there is no room ends it.

Specification: docs/reference/streams.md#snapshots.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import StoreError
from jetstream_server.core.containment import Incident
from jetstream_server.core.subscription import Sender, Stretch, Subscription
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.consumers.consumer import Consumer
from jetstream_server.jetstream.slices import Outcome
from jetstream_server.jetstream.snapshots import s2
from jetstream_server.jetstream.snapshots.archive import (
    CONSUMER_PREFIX,
    END,
    MAGIC,
    STATE_NAME,
    encode_entry,
)
from jetstream_server.jetstream.snapshots.consumer_copy import ConsumerCopy
from jetstream_server.jetstream.snapshots.snapshot_advisory import TransferAdvisories
from jetstream_server.jetstream.streams.messages.scan import messages
from jetstream_server.jetstream.wire.go_json import Spend, encode, spend_nothing
from jetstream_server.store.ports import MessageStore

if TYPE_CHECKING:
    from jetstream_server.jetstream.catalog.catalog import Catalog
    from jetstream_server.jetstream.stream import Stream

CHUNK_BYTES = 128 * 1024
CHUNK_BYTES_MIN = 1024
CHUNK_BYTES_MAX = 1024 * 1024
WINDOW_BYTES = 8 * 1024 * 1024
WINDOW_BYTES_MIN = 1024
WINDOW_BYTES_MAX = 32 * 1024 * 1024

ACK_PREFIX = b"$JS.SNAPSHOT.ACK."
_INTEREST_NS = 2 * SECOND
_ACK_NS = 5 * SECOND

# What is read, encoded and compressed at a time, and how many times in one turn.
_BLOCK_BYTES = 256 * 1024
_BLOCK_MESSAGES = 1024
_TURN_BLOCKS = 2
# Pieces of consumers at a time: of an ordinary one there are three, and 20 bytes are an entry.
_PIECE_BYTES = 2048
_TURN_PIECES = 30
# What a unit of the workload reads, encodes and compresses; a piece of a consumer is another.
_BYTES_OF_UNIT = 24 * 1024
_MESSAGES_OF_UNIT = 100
# What is copied at a time of consumers, as `ConsumerCopy.cost` says.
_TURN_COPIES = 100

_DONE = b"NATS/1.0 204\r\n\r\n"


class SnapshotContent:
    """The compressed archive of a stream, produced block by block.

    Args:
        spend: told what reading costs, in units of the workload.
    """

    def __init__(
        self,
        store: MessageStore,
        state: dict[str, Any],
        consumers: list[ConsumerCopy],
        now: int,
        spend: Spend = spend_nothing,
    ) -> None:
        self._store = store
        self._spend = spend
        self._next_seq = max(store.first_seq, 1)
        self._last_seq = store.last_seq
        self._is_over = False
        # The reader expects as many consumers as the state counts.
        self._state = {**state, "consumer_count": len(consumers)}
        self._head: Iterator[bytes] | None = self._read_head(consumers, now)

    def read(self) -> bytes | None:
        """Return the next frames, perhaps none yet; None at the end and after it.

        Raises:
            StoreError: the store cannot be read.
        """
        if self._head is not None:
            frames = next(self._head, None)
            if frames is not None:
                return frames
            self._head = None
        if self._is_over:
            return None
        return self._read_messages()

    def _read_head(self, consumers: list[ConsumerCopy], now: int) -> Iterator[bytes]:
        """Iterate over the frames of what comes before the messages."""
        yield s2.STREAM_IDENTIFIER
        block = bytearray(MAGIC + encode_entry(STATE_NAME, now, encode(self._state)))
        written = 0
        for consumer in consumers:
            pieces: list[bytes] = []
            for piece in consumer.pieces():
                pieces.append(piece)
                done = 1 + len(piece) // _PIECE_BYTES
                self._spend(done)
                written += done
                if written >= _TURN_PIECES:
                    written = 0
                    yield b""
            name = CONSUMER_PREFIX + consumer.name.encode()
            block += encode_entry(name, now, b"".join(pieces))
            while len(block) >= _BLOCK_BYTES:
                self._spend(_BLOCK_BYTES / _BYTES_OF_UNIT)
                yield s2.frames(bytes(block[:_BLOCK_BYTES]))
                del block[:_BLOCK_BYTES]
        self._spend(len(block) / _BYTES_OF_UNIT)
        yield s2.frames(bytes(block))

    def _read_messages(self) -> bytes:
        encoded: list[bytes] = []
        size = 0
        found = messages(self._store, None, self._next_seq, _BLOCK_MESSAGES, _BLOCK_BYTES)
        for message in found:
            if message.sequence > self._last_seq or size >= _BLOCK_BYTES:
                break
            self._next_seq = message.sequence + 1
            encoded.append(
                encode_entry(
                    message.subject,
                    message.timestamp,
                    message.payload,
                    sequence=message.sequence,
                    headers=message.headers,
                )
            )
            size += len(encoded[-1])
        self._spend(len(encoded) / _MESSAGES_OF_UNIT + size / _BYTES_OF_UNIT)
        if not encoded:
            self._is_over = True
            encoded.append(END)
        return s2.frames(b"".join(encoded))


class Snapshot:
    """One snapshot being sent.

    Args:
        catalog: the account's streams; the snapshot ends when the stream leaves them.
        deliver: where the chunks go.
        chunk_bytes: of each chunk but the last; 0 for the default, brought into bounds.
        window_bytes: how many bytes may be unacked; likewise.
        with_consumers: whether consumers go along.
    """

    def __init__(
        self,
        catalog: Catalog,
        stream: Stream,
        deliver: bytes,
        sender: Sender | None,
        now: int,
        *,
        chunk_bytes: int = 0,
        window_bytes: int = 0,
        with_consumers: bool = True,
    ) -> None:
        self._catalog = catalog
        self._stream = stream
        self._context = context = stream.context
        self._deliver = deliver
        self._chunk_bytes = _clamped(chunk_bytes, CHUNK_BYTES, CHUNK_BYTES_MIN, CHUNK_BYTES_MAX)
        window_bytes = _clamped(window_bytes, WINDOW_BYTES, WINDOW_BYTES_MIN, WINDOW_BYTES_MAX)
        self._window = max(window_bytes // self._chunk_bytes, 1)  # chunks
        self._unacked = 0  # chunks
        self._index = 0  # of the chunk sent last, from 1
        self._pending = bytearray()  # read and not sent
        self._is_sending = False  # somebody listens, or a wildcard has to do
        self._with_consumers = with_consumers
        self._content: SnapshotContent | None = None
        uid = context.nuid.next().encode()
        self._ack_prefix = b"%b%b.%b" % (ACK_PREFIX, stream.name.encode(), uid)
        self._subscription = Subscription(self._ack_prefix + b".>", self)
        self._advisories = TransferAdvisories(context, "snapshot", stream.name, sender, now)

    def begin(self, now: int) -> Iterator[Outcome | None]:
        """Look at the stream and its consumers, some at a time; return the answer at the end."""
        stream = self._stream
        copies: list[ConsumerCopy] = []
        cost = 0
        for consumer in list(stream.consumers.values()) if self._with_consumers else ():
            is_gone = stream.consumers.get(consumer.name) is not consumer
            if is_gone or consumer.internal or not isinstance(consumer, Consumer):
                continue
            copies.append(ConsumerCopy(consumer))
            cost += copies[-1].cost
            if cost >= _TURN_COPIES:
                cost = 0
                yield None
        if self._catalog.streams.get(stream.name) is not stream or stream.store.offline:
            raise errors.STREAM_SNAPSHOT_FAILED("stream closed")
        # After them, so that none has read more than the stream is said to have.
        state = stream.state()
        spend = stream.context.workload.spend
        self._content = SnapshotContent(stream.store, state, copies, now, spend)
        yield {"config": stream.config.to_wire(), "state": state}

    def start(self, state: dict[str, Any], now: int) -> None:
        """Start waiting for somebody who listens."""
        context = self._context
        self._advisories.created(now, state=state)
        context.sublist.insert(self._subscription)
        context.watching[self] = None
        context.deadlines.schedule(self, now + _INTEREST_NS)
        context.wake(self)

    # -- verbs -----------------------------------------------------------------------------

    def receive(self, stretch: Stretch) -> None:
        """Take acks; whatever they say, each makes room for one chunk."""
        if self._is_sending:
            self._unacked = max(self._unacked - len(stretch.indices), 0)
            self._context.deadlines.cancel(self)
            self._context.wake(self)

    def give_up(self, incident: Incident, now: int) -> None:
        """End, and report it."""
        if not self._subscription.closed:
            text = str(incident)
            self._end(now, text, b"NATS/1.0 500 %b\r\n\r\n" % text.encode())

    def advance(self, now: int) -> None:
        """Send what there is room for, up to a turn's share."""
        if self._catalog.streams.get(self._stream.name) is not self._stream:
            self._end(now, "stream closed", b"NATS/1.0 500 stream closed\r\n\r\n")
            return
        if not self._is_sending:
            if self._is_awaited:
                self._begin()
            return
        if not self._context.sublist.has_interest(self._deliver):
            self._end(now, "no interest", b"NATS/1.0 408 No Interest\r\n\r\n")
            return
        try:
            self._send(now)
        except StoreError as error:
            line = error.reason.replace("\r", " ").replace("\n", " ")
            self._end(now, error.reason, b"NATS/1.0 500 %b\r\n\r\n" % line.encode())

    @property
    def _is_awaited(self) -> bool:
        """Whether somebody has subscribed to exactly this subject.

        A client may subscribe only once it has the answer; until then, a wildcard subscription of
        its inbox would take the chunks for answers to another request.
        """
        match = self._context.sublist.match(self._deliver)
        return any(each.subject == self._deliver for each in match.some().plain)

    def _begin(self) -> None:
        self._is_sending = True
        self._context.deadlines.cancel(self)
        self._context.wake(self)

    def tick(self, now: int) -> None:
        """Nobody has subscribed to exactly this subject, or nobody has acked, in time."""
        if not self._is_sending and self._context.sublist.has_interest(self._deliver):
            self._begin()  # a wildcard will do
        elif not self._is_sending:
            self._end(now, "no interest", b"NATS/1.0 408 No Interest\r\n\r\n")
        else:
            self._end(now, "no flow response", b"NATS/1.0 408 No Flow Response\r\n\r\n")

    # -- sending ---------------------------------------------------------------------------

    def _send(self, now: int) -> None:
        content = self._content
        assert content is not None, "it was begun"
        pending, size, deadlines = self._pending, self._chunk_bytes, self._context.deadlines
        for _ in range(_TURN_BLOCKS):
            while len(pending) >= size:
                if self._unacked >= self._window:
                    if self not in deadlines:  # looking again is no ack
                        deadlines.schedule(self, now + _ACK_NS)
                    return
                self._send_chunk(bytes(pending[:size]))
                del pending[:size]
            frames = content.read()
            if frames is None:
                self._send_last(now)
                return
            pending += frames
        self._context.wake(self)

    def _send_chunk(self, chunk: bytes) -> None:
        self._index += 1
        self._unacked += 1
        reply = b"%b.%d.%d" % (self._ack_prefix, len(chunk), self._index)
        self._context.output.publish(self._deliver, chunk, reply=reply)

    def _send_last(self, now: int) -> None:
        if self._pending:
            self._context.output.publish(self._deliver, bytes(self._pending))
        # Clients know a snapshot of one short chunk to end with a message without headers.
        self._end(now, "", _DONE if self._index else b"")

    def _end(self, now: int, error: str, status: bytes) -> None:
        context = self._context
        context.output.publish(self._deliver, b"", headers=status)
        context.sublist.remove(self._subscription)
        context.deadlines.cancel(self)
        context.watching.pop(self, None)
        context.ready.pop(self, None)
        if error:  # the advisory has no room for it
            text = f"snapshot of stream {self._stream.name} of account {context.account}: {error}"
            context.log("WRN", text)
        self._advisories.completed(now)


def _clamped(value: int, default: int, smallest: int, largest: int) -> int:
    return min(max(value, smallest), largest) if value else default
