"""Fetching one range of a stream, completely and in order, through whatever happens on the way.

An ephemeral pull consumer (ack none, memory storage, starting at the first sequence) delivers the
messages; the next pull request, bounded by count and bytes, is sent when half of the last one has
arrived, so that the server seldom waits for us and never holds more for us than it allows a slow
client. Two requests that wait at once are served in turn, a message to each, which costs a server
more than two that follow each other.

The range is complete when a message at or after its last sequence was delivered, or when a consumer
made at the position reached says that nothing is pending. The first consumer's own count of pending
messages is only believed after such a second look: counts may drift, and a short read would be
silent loss. The consumer's own sequence must rise by one from message to message; a gap there means
that the network of servers dropped one, and everything from the gap on is fetched again.

A broken connection, a vanished consumer or ten silent seconds end the consumer; the next one starts
at the position reached (`fetch.py`).
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from array import array
from collections.abc import Iterator

import numpy as np

from jetstream_spark.client import pool
from jetstream_spark.client.control import CONSUMER_PREFIX, STREAM_NOT_FOUND
from jetstream_spark.client.flow import Flow, Message, publish_frame
from jetstream_spark.data_loss import messages_expired
from jetstream_spark.errors import (
    MessageTooLargeError,
    ProtocolViolationError,
    RequestRefusedError,
    RetryableError,
    StreamNotFoundError,
)
from jetstream_spark.fetch import Fetch
from jetstream_spark.kernels import wire_to_arrow as kernel
from jetstream_spark.options import SourceOptions
from jetstream_spark.ranges import SequenceRange
from jetstream_spark.rows import Block

# A record batch of this many wire bytes: large enough for Arrow, far below its 2 GiB.
BLOCK_BYTES = 16 << 20
ROOM_BYTES_MIN = 1 << 16
# The server answers a pull request, or says so, well before this.
SILENCE_MAX_S = 10.0
PULL_EXPIRES_S = 30.0
HEARTBEAT_MIN_S = 0.1  # the server refuses shorter ones


class _ConsumerLostError(RetryableError):
    """The consumer of this fetch is of no more use; another one goes on."""

    condition = "CONSUMER_LOST"


class RangeFetch(Fetch):
    """One reading of one range, by consumers that follow each other."""

    def __init__(self, options: SourceOptions, sequences: SequenceRange) -> None:
        super().__init__(options, sequences)
        self._first_gap: int | None = None

    # --- one consumer -----------------------------------------------------------------------

    def _read_on(self) -> Iterator[Block]:
        """Make a consumer at the position and read until it is done or lost."""
        name = f"{CONSUMER_PREFIX}{secrets.token_hex(8)}"
        if not self._open_consumer(name):
            return
        with pool.lease(self.options.connection, "reader") as flow:
            inbox = flow.new_inbox()
            sid = flow.subscribe(inbox + b".*")
            try:
                yield from _Delivery(self, flow, sid, inbox, name).blocks()
            finally:
                if flow.is_open:
                    flow.unsubscribe(sid)
                    delete = f"{self.options.connection.api_prefix}.CONSUMER.DELETE"
                    flow.publish(
                        f"{delete}.{self.range.stream}.{name}".encode(), b"", inbox + b".deleted"
                    )

    def _open_consumer(self, name: str) -> bool:
        """Create the consumer; False when there is nothing (more) to read."""
        config = {
            "name": name,
            **self._beginning(),
            "ack_policy": "none",
            "max_deliver": 1,
            "replay_policy": "instant",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": int((self.options.read_timeout_s + PULL_EXPIRES_S) * 1e9),
        }
        subjects = self.options.subjects
        if len(subjects) == 1:
            config["filter_subject"] = subjects[0]
        elif subjects:
            config["filter_subjects"] = list(subjects)
        try:
            created = self._control.create_consumer(self.range.stream, config)
            state = self._control.stream_state(self.range.stream)
        except (RequestRefusedError, StreamNotFoundError) as error:
            if isinstance(error, RequestRefusedError) and error.err_code != STREAM_NOT_FOUND:
                raise
            self._check_stream(None)
            return False
        self._check_stream(state)
        if int(created["num_pending"]) == 0:
            self.position = self.range.stop
        if self.position < self.range.stop:
            return True
        with contextlib.suppress(RetryableError):
            self._control.delete_consumer(self.range.stream, name)
        return False

    def _beginning(self) -> dict[str, object]:
        """Where the next consumer begins, as part of its configuration."""
        return {"deliver_policy": "by_start_sequence", "opt_start_seq": self.position}

    def check_progress(self) -> None:
        """End the consumer when it is alive and yet brings nothing.

        Raises:
            RetryableError: nothing was delivered for `readTimeout`.
        """
        if self._silent_s > self.options.read_timeout_s:
            raise _ConsumerLostError("the server is there but delivers nothing")

    # --- loss -------------------------------------------------------------------------------

    def _note_gap(self, start: int, stop: int) -> None:
        if start < stop and self._first_gap is None:
            self._first_gap = start

    def _check_gaps(self) -> None:
        """Whether a gap was made by limits that overtook the reading, rather than by deletes.

        With a subject filter gaps are how other subjects look, so nothing can be said.
        """
        if self._first_gap is None or self.options.subjects or self.loss is not None:
            return
        if self.options.expects_removals:
            return
        try:
            state = self._control.stream_state(self.range.stream)
        except StreamNotFoundError:
            return  # Everything was read before it went.
        if state.created == self.range.created and state.first > self._first_gap:
            stop = min(state.first, self.range.stop)
            self._lose(messages_expired(self.range.stream, self._first_gap, stop))

    def accept(self, block: Block, last_delivered: int) -> tuple[int, bool]:
        """Take what a scan added up to now as read: check its order and move the position.

        Args:
            last_delivered: the consumer's own sequence of the last message before this block.

        Returns:
            How many messages belong to the range, and whether the consumer can go on.

        Raises:
            ProtocolViolationError: the sequences do not rise.
        """
        numbers = np.frombuffer(block.numbers, dtype=np.int64).reshape(-1, kernel.NUMBERS)
        numbers = numbers[block.count :]
        sequences, delivered = numbers[:, kernel.SEQUENCE], numbers[:, kernel.DELIVERED]
        count = len(sequences)
        follows = np.diff(delivered, prepend=last_delivered) == 1
        if not follows.all():
            count = int(np.argmin(follows))
        usable = min(count, int(np.searchsorted(sequences, self.range.stop)))
        if usable:
            steps = np.diff(sequences[:usable], prepend=self.position - 1)
            if int(steps.min()) < 1:
                raise ProtocolViolationError(
                    f"{self.range} was delivered out of order after {self.position - 1}."
                )
            if int(steps.max()) > 1:
                gap = int(np.argmax(steps > 1))
                before = self.position if gap == 0 else int(sequences[gap - 1]) + 1
                self._note_gap(before, int(sequences[gap]))
            self.position = int(sequences[usable - 1]) + 1
            self._note_progress()
        if usable < count:
            # A message beyond the range: everything before it was delivered.
            self._note_gap(self.position, self.range.stop)
            self.position = self.range.stop
        is_whole = count == len(sequences)
        return usable, is_whole


class _Delivery:
    """The messages of one consumer over one connection."""

    def __init__(
        self, fetch: RangeFetch, flow: Flow, sid: bytes, inbox: bytes, consumer: str
    ) -> None:
        self._fetch = fetch
        self._flow = flow
        self._sid = sid
        self._inbox = inbox
        options = fetch.options
        self._next_subject = (
            f"{options.connection.api_prefix}.CONSUMER.MSG.NEXT.{fetch.range.stream}.{consumer}"
        ).encode()
        self._block = Block(flow.buffer.data, array("i"), array("q"), 0)
        # Short enough that another consumer is tried, and says why, before the task gives up.
        self._silence_s = min(SILENCE_MAX_S, options.read_timeout_s / 2)
        self._requested = 0
        self._outstanding = 0
        self._last_delivered = 0
        self._pending = 1
        self._received = 0
        self._received_before: dict[int, int] = {}
        self._unread_min = 1

    def blocks(self) -> Iterator[Block]:
        """Yield what arrives; end when the range or the consumer has nothing more."""
        try:
            while not self._is_done():
                self._pull()
                if self._needs_block():
                    yield from self._take_block()
                self._flow.receive(time.monotonic() + self._silence_s)
                self._scan()
                self._fetch.check_progress()
        except TimeoutError:
            yield from self._take_block()
            raise _ConsumerLostError(f"nothing came for {self._silence_s:g} s") from None
        except RetryableError:
            yield from self._take_block()
            raise
        yield from self._take_block()

    def _is_done(self) -> bool:
        return self._fetch.position >= self._fetch.range.stop or self._pending == 0

    # --- requesting -------------------------------------------------------------------------

    def _pull(self) -> None:
        """Ask for more in time, but never for more messages than the range can have."""
        options, fetch = self._fetch.options, self._fetch
        while self._outstanding <= options.fetch_batch // 2:
            rest = fetch.range.stop - fetch.position - self._outstanding
            if rest <= 0:
                return
            batch = min(options.fetch_batch, rest)
            request = {
                "batch": batch,
                "max_bytes": options.fetch_max_bytes,
                "expires": int(PULL_EXPIRES_S * 1e9),
                "idle_heartbeat": int(max(HEARTBEAT_MIN_S, self._silence_s / 2) * 1e9),
            }
            self._requested += 1
            reply = b"%b.%d" % (self._inbox, self._requested)
            frame = publish_frame(self._next_subject, json.dumps(request).encode(), reply)
            self._flow.send(frame, time.monotonic() + self._silence_s)
            self._outstanding += batch
            self._received_before[self._requested] = self._received

    # --- receiving --------------------------------------------------------------------------

    def _scan(self) -> None:
        """Find deliveries in what was received; read in full whatever else there is."""
        flow, buffer = self._flow, self._flow.buffer
        if len(buffer) < self._unread_min:
            return  # A large message is still on its way; looking again would be quadratic.
        while True:
            before = len(self._block.numbers)
            buffer.start = kernel.scan_deliveries(
                buffer.data,
                buffer.start,
                buffer.stop,
                self._sid,
                self._block.fields,
                self._block.numbers,
            )
            if len(self._block.numbers) > before:
                self._accept(len(self._block.numbers) - before)
            if flow.take_control():
                continue
            message = flow.next_message()
            if message is None:
                self._unread_min = len(buffer) + max(1, flow.missing_bytes)
                return
            self._read_status(message)

    def _accept(self, added: int) -> None:
        self._outstanding -= added // kernel.NUMBERS
        self._received += added // kernel.NUMBERS
        block = self._block
        last = block.numbers[-kernel.NUMBERS :]
        usable, is_whole = self._fetch.accept(block, self._last_delivered)
        block.count += usable
        self._last_delivered, self._pending = last[kernel.DELIVERED], last[kernel.PENDING]
        # Only whole blocks are counted by their length, so what lies beyond is cut off.
        del block.fields[block.count * kernel.STRIDE :]
        del block.numbers[block.count * kernel.NUMBERS :]
        if not is_whole:
            raise _ConsumerLostError("a message was lost between the servers")

    def _read_status(self, message: Message) -> None:
        code, text = message.status
        if message.sid != self._sid or code == 100:
            return  # Of an earlier subscription, or a sign of life.
        if code == 0:
            raise ProtocolViolationError(
                f"a message of {self._fetch.range} has the reply {message.reply!r}, which is no "
                f"ack subject."
            )
        returned = message.header(b"Nats-Pending-Messages") or b"0"
        if code in (404, 408) or (code == 409 and text in _REQUEST_ENDED):
            self._outstanding -= int(returned) if returned.isdigit() else 0
            if code == 404:
                self._outstanding = 0
            if text == _TOO_LARGE:
                self._check_size(message.subject)
            return
        if code in (409, 503) and not text.startswith("Exceeded MaxRequest"):
            raise _ConsumerLostError(f"the server said '{code} {text}'")
        raise RequestRefusedError(self._next_subject.decode(), code, 0, text)

    def _check_size(self, reply: bytes) -> None:
        # A request that was cut short after some messages only had too little room left. One that
        # got none had all its room, so no request will ever get past that message.
        number = int(reply.rpartition(b".")[2])
        if self._received_before.pop(number, -1) == self._received:
            raise MessageTooLargeError(
                f"the message after sequence {self._fetch.position - 1} of stream "
                f"'{self._fetch.range.stream}' is larger than fetchMaxBytes "
                f"({self._fetch.options.fetch_max_bytes} bytes).",
                "Raise fetchMaxBytes above the stream's largest message.",
            )

    # --- handing over -----------------------------------------------------------------------

    def _needs_block(self) -> bool:
        """Make room to receive; True when that needs the block to be taken first."""
        buffer = self._flow.buffer
        wanted = max(ROOM_BYTES_MIN, self._unread_min - len(buffer))
        if buffer.room >= wanted:
            return False
        if len(buffer.data) < BLOCK_BYTES:
            buffer.grow(min(4 * len(buffer.data), BLOCK_BYTES))
            self._block.chunk = buffer.data
            return buffer.room < wanted
        return True

    def _take_block(self) -> Iterator[Block]:
        block = self._block
        if block.count:
            yield block
        self._block = Block(b"", array("i"), array("q"), 0)
        buffer = self._flow.buffer
        if self._flow.is_open:
            buffer.make_room(max(ROOM_BYTES_MIN, self._unread_min - len(buffer)))
        self._block.chunk = buffer.data


_TOO_LARGE = "Message Size Exceeds MaxBytes"
_REQUEST_ENDED = (_TOO_LARGE, "Batch Completed")
