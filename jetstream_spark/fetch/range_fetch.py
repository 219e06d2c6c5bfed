"""A range through consumers, one after another: the way for ordinary streams.

An ephemeral pull consumer (ack none, memory storage, starting at the first sequence) delivers the
messages; the next pull request, bounded by count and bytes, is sent when half of the last one has
arrived, so that the server seldom waits for us and never holds more for us than it allows a slow
client. Two requests that wait at the same time are served in turn, one message each, which costs a
server more than two that follow each other.

The range is complete when a message at or after its last sequence was delivered, or when a consumer
made at the position reached says that nothing is pending. The first consumer's own count of pending
messages is only believed after such a second look: counts may drift, and a short read would be
silent loss. In a cluster the consumer may be on a replica that lags, so the stream's leader has to
confirm that. The consumer's own sequence must rise by one from message to message; a gap there
means that the network of servers dropped one, and everything from the gap on is fetched again.

A broken connection, a vanished consumer or ten silent seconds end the consumer; the next one starts
at the position reached (`fetch.py`).
"""

from __future__ import annotations

import contextlib
import json
from array import array

import numpy as np
import numpy.typing as npt

from jetstream_spark.client import pool
from jetstream_spark.client.agreement import Agreement
from jetstream_spark.client.control import CONSUMER_PREFIX, Control, StreamState
from jetstream_spark.client.flow import Flow, Message, publish_frame
from jetstream_spark.client.operation import Host, Operation
from jetstream_spark.errors import (
    ConnectorError,
    MessageTooLargeError,
    ProtocolViolationError,
    RequestRefusedError,
    RetryableError,
    StreamNotFoundError,
)
from jetstream_spark.fetch.data_loss import find_loss_in_range, find_missing_end
from jetstream_spark.fetch.fetch import FetchStep
from jetstream_spark.fetch.ranges import SequenceRange
from jetstream_spark.fetch.rows import MessageBlock
from jetstream_spark.kernels import wire_to_arrow as kernel
from jetstream_spark.options.format_options import SourceOptions

# A record batch of this many wire bytes: large enough for Arrow and its fixed costs, and little
# enough that what was received is still in the processor's cache when columns are made of it.
BLOCK_BYTES = 4 << 20
ROOM_BYTES_MIN = 1 << 16
# The server answers a pull request, or says so, well before this.
SILENCE_MAX_S = 10.0
PULL_EXPIRES_S = 30.0
HEARTBEAT_MIN_S = 0.1  # the server refuses shorter ones

_TOO_LARGE = "Message Size Exceeds MaxBytes"
_REQUEST_ENDED = (_TOO_LARGE, "Batch Completed")


class _ConsumerLostError(RetryableError):
    """The consumer of this fetch is of no further use; another one takes over."""

    condition = "CONSUMER_LOST"


class ConsumerWay:
    """Consumers that follow each other; at most one is open.

    Args:
        is_list: begin with the last message of each subject instead of the first of the range. A
            list that is begun again repeats messages; those already handed over are passed over.
    """

    def __init__(
        self,
        host: Host,
        options: SourceOptions,
        sequences: SequenceRange,
        is_list: bool = False,
    ) -> None:
        self._host = host
        self._options = options
        self._range = sequences
        self._is_list = is_list
        self._control = Control(host, options.connection, "reader", patience_s=0)
        self._delivery: _RangeDelivery | None = None
        # The servers at which the stream was seen to have all of the range.
        self._whole_at: set[str] = set()

    @property
    def is_exhausted(self) -> bool:
        """Whether the open consumer said that it has nothing more."""
        return self._delivery is not None and self._delivery.is_exhausted

    def advance(self, position: int) -> Operation[FetchStep]:
        """Read on, through a new consumer if there is none; see `Way`."""
        if self.is_exhausted:
            # Its count of pending messages is believed when another consumer says the same.
            yield from self.finish()
        elif self._delivery is not None and self._delivery.flow.is_leaving:
            yield from self.finish()  # before it is cut; the next one is at another server
        if self._delivery is None:
            step = yield from self._open(position)
            if step is not None:
                return step
        assert self._delivery is not None, "a consumer was just opened"
        return (yield from self._delivery.next_step())

    def abandon(self) -> None:
        """Drop the consumer; the server forgets it by itself."""
        if self._delivery is not None:
            self._delivery.flow.close()
            self._delivery = None

    def finish(self) -> Operation[None]:
        """Delete the consumer and keep the connection."""
        delivery, self._delivery = self._delivery, None
        if delivery is None:
            return
        flow = delivery.flow
        try:
            flow.unsubscribe(delivery.sid)
            delete = f"{self._options.connection.api_prefix}.CONSUMER.DELETE"
            subject = f"{delete}.{self._range.stream}.{delivery.consumer}"
            flow.publish(subject.encode(), b"", delivery.inbox + b".deleted")
            yield from flow.flush(self._host.now() + self._options.connection.request_timeout_s)
        except (TimeoutError, ConnectorError):
            flow.close()
        except BaseException:
            flow.close()
            raise
        pool.put_back(self._host, self._options.connection, "reader", flow)

    def _open(self, position: int) -> Operation[FetchStep | None]:
        """Create a consumer; return the step that ends the range when there is nothing (more) to
        read."""
        name = f"{CONSUMER_PREFIX}{self._host.token(8)}"
        try:
            created = yield from self._control.create_consumer(
                self._range.stream, self._config(name, position)
            )
            known = self._range.stream, self._range.created, self._range.stop
            state = yield from self._control.state_reaching(*known)
        except (RequestRefusedError, StreamNotFoundError) as error:
            step = yield from self._loss_of_stream(position)
            if step is not None:
                return step
            if isinstance(error, RequestRefusedError):
                raise
            raise _ConsumerLostError("the servers do not agree that the stream is there") from None
        removals = self._options.expects_removals or self._is_list
        loss, following = find_loss_in_range(self._range, position, state, removals)
        if loss is None and not self._is_list:
            loss = find_missing_end(self._range, state)
            if loss is not None and state.is_replicated and self._options.fail_on_data_loss:
                raise _ConsumerLostError(f"the stream's leader lacks something: {loss.what}")
        is_empty = int(created["num_pending"]) == 0
        is_first_look = False
        if loss is None and not self._is_list:
            is_first_look = self._control.server_id not in self._whole_at
            self._whole_at.add(self._control.server_id)
        if is_empty and is_first_look:
            # When the consumer was made, the stream may have been shorter than the range, because
            # its files were put back from an older copy, and it may have grown as long since.
            yield from self._control.delete_consumer(self._range.stream, name)
            return (yield from self._open(position))
        if is_empty:
            if state.is_replicated and not self._is_list:
                yield from self._confirm_end(following, state)
            following = self._range.stop
        if following >= self._range.stop:
            with contextlib.suppress(RetryableError):
                yield from self._control.delete_consumer(self._range.stream, name)
            return FetchStep(self._range.stop, is_last=True, loss=loss)
        connection = self._options.connection
        flow = yield from pool.take(self._host, connection, "reader")
        self._delivery = _RangeDelivery(
            self._host, self._options, self._range, flow, name, position, self._is_list
        )
        # The consumer passes over what is gone by itself.
        return FetchStep(following, loss=loss) if loss is not None else None

    def _loss_of_stream(self, position: int) -> Operation[FetchStep | None]:
        """The step that says that the stream is gone or another one, if that is why a consumer was
        refused.

        One made anew may refuse a consumer that its predecessor would have taken.
        """
        try:
            state = yield from self._control.stream_state(self._range.stream)
        except StreamNotFoundError:
            state = None
        loss, following = find_loss_in_range(self._range, position, state, True)
        return FetchStep(following, is_last=True, loss=loss) if loss is not None else None

    def _confirm_end(self, position: int, state: StreamState) -> Operation[None]:
        """Ask the leader whether anything of the range follows.

        Args:
            state: what was said of the stream a moment ago.

        Raises:
            RetryableError: there is, and the consumer's replica lags; or one leader says that
                there are messages and another one finds none, as when the stream was made again.
        """
        stream = self._range.stream
        for subject in self._options.subjects or (">",):
            stored = yield from self._control.next_sequence(stream, position, subject)
            if stored is not None and stored < self._range.stop:
                raise _ConsumerLostError(f"sequence {stored} is not on the consumer's replica yet")
        # Where nothing follows and the stream is said to go on, its last messages may have been
        # deleted, or a leader tells of the stream as it was before it was made again.
        agreement, has_waited = Agreement(self._host), False
        while state.messages and state.created == self._range.created:
            stored = yield from self._control.next_sequence(stream, position)
            if stored is not None and not stored > state.first >= position:
                break
            if not (yield from agreement.wait()):
                return
            has_waited = True
            try:
                state = yield from self._control.stream_state(stream)
            except StreamNotFoundError as error:
                raise _ConsumerLostError(error.what) from None
        if has_waited:
            raise _ConsumerLostError("the stream's leaders did not agree on what there is")

    def _config(self, name: str, position: int) -> dict[str, object]:
        config: dict[str, object] = {
            "name": name,
            "ack_policy": "none",
            "max_deliver": 1,
            "replay_policy": "instant",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": int((self._options.read_timeout_s + PULL_EXPIRES_S) * 1e9),
        }
        if self._is_list:
            config["deliver_policy"] = "last_per_subject"
        else:
            config |= {"deliver_policy": "by_start_sequence", "opt_start_seq": position}
        subjects = self._options.subjects
        if len(subjects) == 1:
            config["filter_subject"] = subjects[0]
        elif subjects:
            config["filter_subjects"] = list(subjects)
        elif self._is_list:
            config["filter_subject"] = ">"  # the policy demands a filter
        return config


class DeliveryOrder:
    """Which of the messages that a consumer delivers are the next ones of a range.

    Args:
        sequences: the range.
        position: where the consumer begins.
        is_list: the consumer delivers the last message of each subject; those before the position
            are passed over.

    Attributes:
        reached: the sequence after the last message taken.
        is_exhausted: the consumer said that it has nothing more.
        first_gap: the first sequence passed over because nothing is there; None if there is none.
    """

    def __init__(self, sequences: SequenceRange, position: int, is_list: bool = False) -> None:
        self.reached = position
        self.is_exhausted = False
        self.first_gap: int | None = None
        self._range = sequences
        self._is_list = is_list
        self._last_delivered = 0  # the consumer's own sequence

    def accept(self, block: MessageBlock) -> bool:
        """Count what a scan added to a block, and cut off what is outside the range.

        Returns:
            Whether nothing is missing. If something is, the block ends before it.

        Raises:
            ProtocolViolationError: the sequences do not rise.
        """
        added = len(block.numbers) // kernel.NUMBERS - block.count
        last = block.numbers[-kernel.NUMBERS :]
        count = self._rising(block, kernel.DELIVERED, self._last_delivered)
        if not self._is_list and self._rising(block, kernel.SEQUENCE, self.reached - 1) >= count:
            first, usable = 0, min(count, self._range.stop - self.reached)
            self.reached += usable
        else:
            first, usable = self._take_with_gaps(block, count)
        if usable < count:
            # A message beyond the range: everything before it was delivered.
            self._note_gap(self.reached, self._range.stop)
            self.reached = self._range.stop
        _keep(block, first, max(first, usable))
        self._last_delivered = last[kernel.DELIVERED]
        self.is_exhausted = last[kernel.PENDING] == 0
        return count == added

    def _rising(self, block: MessageBlock, column: int, before: int) -> int:
        return kernel.rising_by_one(block.numbers, block.count, column, before)

    def _take_with_gaps(self, block: MessageBlock, count: int) -> tuple[int, int]:
        """Take what belongs to the range out of `count` messages; return where it begins and ends.

        Raises:
            ProtocolViolationError: the sequences do not rise.
        """
        numbers = np.frombuffer(block.numbers, dtype=np.int64).reshape(-1, kernel.NUMBERS)
        sequences = numbers[block.count : block.count + count, kernel.SEQUENCE]
        first = int(np.searchsorted(sequences, self.reached)) if self._is_list else 0
        usable = int(np.searchsorted(sequences, self._range.stop))
        if usable > first:
            self._move(sequences[first:usable])
        return first, usable

    def _move(self, sequences: npt.NDArray[np.int64]) -> None:
        steps = np.diff(sequences, prepend=self.reached - 1)
        if int(steps.min()) < 1:
            raise ProtocolViolationError(
                f"{self._range} was delivered out of order after {self.reached - 1}."
            )
        if int(steps.max()) > 1:
            gap = int(np.argmax(steps > 1))
            before = self.reached if gap == 0 else int(sequences[gap - 1]) + 1
            self._note_gap(before, int(sequences[gap]))
        self.reached = int(sequences[-1]) + 1

    def _note_gap(self, start: int, stop: int) -> None:
        if start < stop and self.first_gap is None and not self._is_list:
            self.first_gap = start


def _keep(block: MessageBlock, first: int, stop: int) -> None:
    """Keep, of what the last scan added, the messages from `first` to `stop`."""
    at = block.count
    for values, width in ((block.fields, kernel.STRIDE), (block.numbers, kernel.NUMBERS)):
        del values[(at + stop) * width :]
        del values[at * width : (at + first) * width]
    block.count += stop - first


class _RangeDelivery:
    """The messages of one consumer over one connection."""

    def __init__(
        self,
        host: Host,
        options: SourceOptions,
        sequences: SequenceRange,
        flow: Flow,
        consumer: str,
        position: int,
        is_list: bool,
    ) -> None:
        self.flow = flow
        self.consumer = consumer
        self.inbox = flow.new_inbox()
        self.sid = flow.subscribe(self.inbox + b".*")
        self._host = host
        self._options = options
        self._range = sequences
        self._order = DeliveryOrder(sequences, position, is_list)
        self._next_subject = (
            f"{options.connection.api_prefix}.CONSUMER.MSG.NEXT.{sequences.stream}.{consumer}"
        ).encode()
        self._block = MessageBlock(flow.buffer.data, array("i"), array("q"), 0)
        self._failure: RetryableError | None = None  # raised by the step after the next block
        # Short enough that another consumer is tried, and says why, before the task gives up.
        self._silence_s = min(SILENCE_MAX_S, options.read_timeout_s / 2)
        self._progress_at = host.now()  # when something last arrived, in seconds
        self._requested = 0  # pull requests sent so far; numbers their replies
        self._outstanding = 0  # messages asked for that have not come
        self._received = 0  # messages so far
        self._received_before: dict[int, int] = {}  # that count as each request was sent
        self._unread_min = 1  # bytes that have to be there for a scan to find more

    @property
    def is_exhausted(self) -> bool:
        """Whether the consumer said that it has nothing more."""
        return self._order.is_exhausted

    def next_step(self) -> Operation[FetchStep]:
        """What arrives until a block is full, or until the range or the consumer has nothing more.

        What came before a failure is returned first; the failure is raised by the next call.
        """
        if self._failure is not None:
            raise self._failure
        self._start_block()
        self._progress_at = self._host.now()
        try:
            while not self._is_done():
                yield from self._pull()
                if not self._make_room():
                    break
                yield from self.flow.receive(self._host.now() + self._silence_s)
                self._scan()
                self._check_progress()
        except TimeoutError:
            self._fail(_ConsumerLostError(f"nothing came for {self._silence_s:g} s"))
        except RetryableError as error:
            self._fail(error)
        order = self._order
        is_last = order.reached >= self._range.stop
        return FetchStep(order.reached, self._block, is_last, order.first_gap)

    def _fail(self, error: RetryableError) -> None:
        if not self._block.count:
            raise error
        self._failure = error

    def _is_done(self) -> bool:
        return self._order.reached >= self._range.stop or self._order.is_exhausted

    def _check_progress(self) -> None:
        """End the consumer when it is alive but brings nothing.

        What it counted as pending may have been removed before it was delivered. The next consumer
        says so.
        """
        if self._host.now() - self._progress_at > self._silence_s:
            raise _ConsumerLostError("the server is there but delivers nothing")

    # --- requesting -------------------------------------------------------------------------

    def _pull(self) -> Operation[None]:
        """Ask for more in good time, but never for more messages than the range can have."""
        options = self._options
        while self._outstanding <= options.fetch_batch // 2:
            rest = self._range.stop - self._order.reached - self._outstanding
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
            reply = b"%b.%d" % (self.inbox, self._requested)
            frame = publish_frame(self._next_subject, json.dumps(request).encode(), reply)
            yield from self.flow.send(frame, self._host.now() + self._silence_s)
            self._outstanding += batch
            self._received_before[self._requested] = self._received

    # --- receiving --------------------------------------------------------------------------

    def _scan(self) -> None:
        """Find deliveries in what was received; anything else is read message by message."""
        flow, buffer = self.flow, self.flow.buffer
        if len(buffer) < self._unread_min:
            return  # A large message is incomplete; scanning it again would be quadratic.
        while True:
            before = len(self._block.numbers)
            buffer.start = kernel.scan_deliveries(
                buffer.data,
                buffer.start,
                buffer.stop,
                self.sid,
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
        """Take what a scan added.

        Raises:
            RetryableError: a message is missing; those before it are in the block.
            ProtocolViolationError: the sequences do not rise.
        """
        self._outstanding -= added // kernel.NUMBERS
        self._received += added // kernel.NUMBERS
        is_whole = self._order.accept(self._block)
        self._progress_at = self._host.now()
        if not is_whole:
            raise _ConsumerLostError("a message was lost between the servers")

    def _read_status(self, message: Message) -> None:
        code, text = message.status
        if message.sid != self.sid or code == 100:
            return  # From an earlier subscription, or a heartbeat.
        if code == 0:
            raise ProtocolViolationError(
                f"a message of {self._range} has the reply {message.reply!r}, which is no ack "
                f"subject."
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
        # A request that was cut short after some messages just had too little room left. One that
        # got no message had all its room, so no request will ever get past that message.
        number = int(reply.rpartition(b".")[2])
        if self._received_before.pop(number, -1) == self._received:
            raise MessageTooLargeError(
                f"the message after sequence {self._order.reached - 1} of stream "
                f"'{self._range.stream}' is larger than fetchMaxBytes "
                f"({self._options.fetch_max_bytes} bytes).",
                "Raise fetchMaxBytes above the stream's largest message.",
            )

    # --- handing over -----------------------------------------------------------------------

    def _start_block(self) -> None:
        """Begin another block in the memory of the last one."""
        self._block = MessageBlock(b"", array("i"), array("q"), 0)
        buffer = self.flow.buffer
        buffer.make_room(max(ROOM_BYTES_MIN, self._unread_min - len(buffer)))
        self._block.chunk = buffer.data

    def _make_room(self) -> bool:
        """Make room to receive without moving the block; tell whether that is possible."""
        buffer = self.flow.buffer
        wanted = max(ROOM_BYTES_MIN, self._unread_min - len(buffer))
        if buffer.room >= wanted:
            return True
        if len(buffer.data) < BLOCK_BYTES:
            buffer.grow(min(4 * len(buffer.data), BLOCK_BYTES))
            self._block.chunk = buffer.data
            if buffer.room >= wanted:
                return True
        if not self._block.count:
            self._start_block()  # one message larger than all of it
            return True
        return False
