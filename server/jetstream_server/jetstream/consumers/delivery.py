"""Stored messages out to whoever listens: encoding, fan-out, statuses.

A `DeliveryBatch` is what a consumer decided to send; `Delivery` finds the subscriptions behind a
subject and encodes the batch once for each, in one kernel call. Messages keep their
stored subject, and only the sid leads them to the inbox, so they cannot be published like anything
else (docs/reference/consumers.md#delivery). Statuses are published: they carry the inbox as their
subject.

It does not decide what is sent, and the only state it keeps is where the last queue member was, and
what is on its way to very many (`wide_delivery.py`).
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from functools import partial
from itertools import chain
from typing import cast

from jetstream_server.core.handing_over import BYTES_OF_ONE
from jetstream_server.core.match import Match
from jetstream_server.core.relay import REPLY_PREFIX, resolved
from jetstream_server.core.subscription import Subscription
from jetstream_server.jetstream.consumers.delivery_batch import DeliveryBatch
from jetstream_server.jetstream.consumers.progress.progress import Progress
from jetstream_server.jetstream.consumers.wide_delivery import (
    SENT_AT_ONCE_MAX,
    Addressee,
    WideDelivery,
)
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.frames_in_flight import is_unread
from jetstream_server.kernels.deliveries import encode_deliveries
from jetstream_server.kernels.record_format import PREFIX, PREFIX_BYTES
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.ports import Window

_VERSION_LINE = b"NATS/1.0"
_FRAME_BYTES = 64  # of a frame without subject and content, roughly
_UNITS_OF_SEND = 1 / 4  # of the workload: to write to one client more takes as long as to deliver


def room_for_all(budget: int, *matches: Match) -> tuple[int, int]:
    """Return how many messages, and of how many bytes, a turn has time for, if each goes to
    everybody whom one of these reaches; a queue group counts as one."""
    width = max(match.width for match in matches)
    if width <= 1:
        return sys.maxsize, budget
    return max(budget // (width * _FRAME_BYTES), 1), budget // width


def is_within(match: Match) -> bool:
    """Tell whether somebody is reached who is within the server, as a mirror is."""
    if match.only is not None:
        return match.only.outlet is None
    return any(each.outlet is None for each in match.some().subscriptions())


class Delivery:
    """Sends the messages and statuses of one consumer.

    Attributes:
        headers_only: payloads are replaced by a header with their size.
        under_way: what has yet to come to some of very many, before which nothing else may be
            delivered; None for nothing.
    """

    def __init__(self, context: Context, stream: str, consumer: str, headers_only: bool) -> None:
        self._output = context.output
        self._sublist = context.sublist
        self.ack_head = f"$JS.ACK.{stream}.{consumer}.".encode()
        self.headers_only = headers_only
        self._turn = 0  # the member of a queue group that was served last
        self._in_flight = context.output.in_flight
        self._handing = context.workload.handing
        self._workload = context.workload
        self.under_way: WideDelivery | None = None

    def go_on(self) -> None:
        """Deliver what is under way to some more."""
        if self.under_way is not None:
            self.under_way.go_on()
            if self.under_way.is_over:
                self.under_way = None

    def end(self, *, is_for_good: bool) -> None:
        """Leave nothing under way: whoever has not got it gets it now, or never if the consumer is
        gone for good."""
        under_way, self.under_way = self.under_way, None
        if under_way is not None and is_for_good:
            under_way.drop()
        elif under_way is not None:
            under_way.finish()

    def match(self, subject: bytes) -> Match:
        """Return what a subject reaches, in whatever account."""
        match = self._sublist.match(subject)
        if subject.startswith(REPLY_PREFIX):
            match = resolved(match, subject)
        only = match.only
        if match.crowd is not None or (only is not None and not only.closed):
            return match  # of very many, those who are gone are passed over one by one
        return _open(match)

    def permitted_match(self, subject: bytes) -> Match:
        """Return what a subject of this account reaches, without those who may not be sent what is
        published to it."""
        match = self._sublist.match(subject)
        only = match.only
        if only is not None and not (only.is_filtered or only.closed):  # as nearly always
            return match
        return match.changed(partial(_permitted, subject))

    def is_congested(self, match: Match) -> bool:
        """Tell whether everybody behind a match has too much unsent output."""
        only = match.only
        if only is not None:
            return self._is_behind(only)
        return all(self._is_behind(each) for each in match.some().subscriptions())

    def waits_for_flush(self, match: Match) -> bool:
        """Tell whether somebody behind a match has too much unsent output only because of what
        waits for a flush, if it is congested."""
        reached = match.some().subscriptions()
        return any(each.outlet is not None and not is_unread(each.outlet) for each in reached)

    def _is_behind(self, subscription: Subscription) -> bool:
        outlet = subscription.outlet
        return outlet is not None and self._in_flight.is_behind(outlet)

    def send(
        self,
        match: Match,
        batch: DeliveryBatch,
        picks: array[int] | None = None,
        extra: bytes = b"",
    ) -> int:
        """Deliver a batch to all that a match reaches; return the bytes queued.

        Args:
            picks: which messages of the batch, rising; None for all.
            extra: header lines added to each message, each with its CRLF.
        """
        only = match.only
        if self.under_way is not None or match.width > SENT_AT_ONCE_MAX:
            if self.under_way is None:
                self.under_way = WideDelivery(self._send_to_listener)
            return self.under_way.deliver(match, batch, picks, extra)
        if only is not None:
            return self._send_to(only, batch, picks, extra)
        sent = 0
        for subscription in match.plain:
            sent += self._send_to(subscription, batch, picks, extra)
        for members in match.queues:
            sent += self._share(members, batch, picks, extra)
        return sent

    def _send_to_listener(
        self, listener: Addressee, batch: DeliveryBatch, picks: array[int] | None, extra: bytes
    ) -> int:
        if isinstance(listener, Subscription):
            return self._send_to(listener, batch, picks, extra)
        # Members may have left since it was looked up whom this reaches.
        members = tuple([member for member in listener if not member.closed])
        return self._share(members, batch, picks, extra) if members else 0

    def _share(
        self,
        members: tuple[Subscription, ...],
        batch: DeliveryBatch,
        picks: array[int] | None,
        extra: bytes,
    ) -> int:
        """Deal messages out to the members of a queue group, a stretch to each."""
        able = [member for member in members if not self._is_behind(member)] or list(members)
        if picks is None:
            picks = array("Q", range(batch.count))
        length = -(-len(picks) // len(able))
        sent = 0
        for at in range(0, len(picks), length):
            self._turn = (self._turn + 1) % len(able)
            sent += self._send_to(able[self._turn], batch, picks[at : at + length], extra)
        return sent

    def _send_to(
        self,
        subscription: Subscription,
        batch: DeliveryBatch,
        picks: array[int] | None,
        extra: bytes,
    ) -> int:
        outlet = subscription.outlet
        self._workload.used += _UNITS_OF_SEND
        if outlet is None:
            places = range(batch.count) if picks is None else picks
            run = PubRun.of([self._message(batch, at, extra) for at in places])
            count = run.count + len(run.chunk) // BYTES_OF_ONE
            weight = count * self._handing.weight_of(subscription.receiver)
            self._handing.began(weight)
            self._output.hand_over(subscription, run, weight)
            return len(run.chunk)
        window = batch.window
        data, content_bytes = encode_deliveries(
            buffer=cast(bytes, window.buffer),  # the kernel takes an mmap as well
            positions=window.positions,
            sequences=window.sequences,
            start=0,
            stop=batch.count,
            sid=subscription.sid,
            ack_head=self.ack_head,
            delivered=batch.delivered,
            first_consumer_seq=batch.first_consumer_seq,
            pending=batch.pending,
            headers=outlet.headers,
            picks=picks,
            is_falling=batch.is_falling,
            extra=extra,
            headers_only=self.headers_only,
        )
        count = batch.count if picks is None else len(picks)
        self._output.frames(subscription, data, count, content_bytes=content_bytes)
        self._in_flight.add(outlet, subscription, len(data), count)
        return len(data)

    def reply_bytes(self, batch: DeliveryBatch, at: int) -> int:
        """Return the length of an ack subject, which counts towards `max_bytes`."""
        timestamp = timestamp_at(batch.window, at)
        return len(self._reply(batch, at, timestamp))

    def charged_at(self, batch: DeliveryBatch, at: int) -> int:
        """Return what one message counts towards `max_bytes`: all of it that is sent."""
        if self.headers_only:
            return sum(map(len, self._message(batch, at, b"")))
        return batch.window.sizes[at] + self.reply_bytes(batch, at)

    def charged_bytes(self, batch: DeliveryBatch) -> int | None:
        """Return what a batch counts towards `max_bytes`, None when each message would have to be
        looked at.

        That is the sizes and the `reply_bytes` of all its messages; digits are counted a stretch at
        a time.
        """
        if self.headers_only:
            return None
        window, count = batch.window, batch.count
        width = len(str(timestamp_at(window, 0)))
        if width != len(str(timestamp_at(window, count - 1))):
            return None
        digits = _digits(batch.first_consumer_seq, count) + count * width
        if batch.is_falling:
            falling = min(count, batch.pending + 1)  # then it stays at 0, which is one digit
            digits += _digits(batch.pending + 1 - falling, falling) + count - falling
        else:
            digits += count * len(str(batch.pending))
        at, sequences = 0, window.sequences
        while at < count:
            width = len(str(sequences[at]))
            stop = bisect_left(sequences, 10**width, at, count)
            digits += width * (stop - at)
            at = stop
        head = len(self.ack_head) + len(str(batch.delivered)) + len("....")
        return sum(window.sizes[:count]) + count * head + digits

    def even_stretch(self, batch: DeliveryBatch) -> tuple[int, int]:
        """Return how many messages at the front have equal `reply_bytes`, and how many bytes.

        They are equal until a number in the ack subject gains or loses a digit.
        """
        window, first = batch.window, batch.first_consumer_seq
        sequence = window.sequences[0]
        count = min(batch.count, 10 ** len(str(first)) - first)
        count = bisect_left(window.sequences, 10 ** len(str(sequence)), 0, count)
        if batch.is_falling and batch.pending:
            count = min(count, batch.pending - 10 ** (len(str(batch.pending)) - 1) + 1)
        if len(str(timestamp_at(window, 0))) != len(str(timestamp_at(window, count - 1))):
            count = 1
        return count, self.reply_bytes(batch, 0)

    def _message(
        self, batch: DeliveryBatch, at: int, extra: bytes
    ) -> tuple[bytes, bytes, bytes, bytes]:
        window = batch.window
        subject, headers, payload, timestamp = _read(window, at)
        if self.headers_only:
            extra += b"Nats-Msg-Size: %d\r\n" % len(payload)
            payload = b""
        if extra:
            headers = (headers[:-2] if headers else _VERSION_LINE + b"\r\n") + extra + b"\r\n"
        return subject, self._reply(batch, at, timestamp), headers, payload

    def _reply(self, batch: DeliveryBatch, at: int, timestamp: int) -> bytes:
        return b"%b%d.%d.%d.%d.%d" % (
            self.ack_head,
            batch.delivered,
            batch.window.sequences[at],
            batch.first_consumer_seq + at,
            timestamp,
            max(batch.pending - at, 0) if batch.is_falling else batch.pending,
        )

    def status(self, subject: bytes, line: bytes, fields: bytes = b"", reply: bytes = b"") -> None:
        """Publish a status: an empty message with a status line.

        Args:
            line: code and text, as in `404 No Messages`.
            fields: further header lines, each with its CRLF.
        """
        headers = b"%b %b\r\n%b\r\n" % (_VERSION_LINE, line, fields)
        publish = partial(self._output.publish, subject, b"", reply=reply, headers=headers)
        if self.under_way is not None:
            self.under_way.follow(publish)
        else:
            publish()

    def heartbeat(self, subject: bytes, progress: Progress, fields: bytes = b"") -> None:
        """Tell a client how far it should have come."""
        fields = b"Nats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n%b" % (
            progress.consumer_seq,
            progress.stream_seq,
            fields,
        )
        self.status(subject, b"100 Idle Heartbeat", fields)


def _open(match: Match) -> Match:
    """Return a match without those who are gone: of very many that end together some are in the
    list for a few turns more, and what they are sent is lost."""
    if not any(each.closed for each in chain(match.plain, *match.queues)):
        return match
    plain = [each for each in match.plain if not each.closed]
    groups = [[each for each in group if not each.closed] for group in match.queues]
    return Match(plain, [tuple(group) for group in groups if group])


def _permitted(subject: bytes, match: Match) -> Match:
    """Return a match without those who are gone, and those who may not be sent what is published
    to a subject."""
    match = _open(match)
    if not any(each.is_filtered for each in chain(match.plain, *match.queues)):
        return match
    plain = [each for each in match.plain if each.takes(subject, None)]
    groups = [[each for each in group if each.takes(subject, None)] for group in match.queues]
    return Match(plain, [tuple(group) for group in groups if group])


def timestamp_at(window: Window, at: int) -> int:
    """Return when a message of a window was stored."""
    timestamp: int = PREFIX.unpack_from(window.buffer, window.positions[at])[3]
    return timestamp


def _read(window: Window, at: int) -> tuple[bytes, bytes, bytes, int]:
    position = window.positions[at]
    buffer = window.buffer
    length, _, _, timestamp, header_bytes, subject_bytes, _ = PREFIX.unpack_from(buffer, position)
    subject_start = position + PREFIX_BYTES
    headers_start = subject_start + subject_bytes
    payload_start = headers_start + header_bytes
    return (
        bytes(buffer[subject_start:headers_start]),
        bytes(buffer[headers_start:payload_start]),
        bytes(buffer[payload_start : position + length]),
        timestamp,
    )


def _digits(first: int, count: int) -> int:
    """Return how many digits the numbers [first, first + count) have together."""
    digits, stop = 0, first + count
    while first < stop:
        width = len(str(first))
        following = min(stop, 10**width)
        digits += width * (following - first)
        first = following
    return digits
