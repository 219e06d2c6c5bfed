"""Pull consumers: two pulls outstanding a consumer, so that one is filled while the other waits.

Each consumer is a durable one of its own with its own connection and reads the whole stream.
Without acks, messages are counted; with explicit acks each message is acknowledged by its own
frame, in one write a received chunk, which is the only parsing done here.
"""

from __future__ import annotations

import json
import re
from functools import partial

from benchmarks.bench import Bench, Case, LoadResult, Settings
from benchmarks.event_loop import EventLoop, Flow
from benchmarks.loads.publish import fill
from benchmarks.loads.rate import measure_rate
from benchmarks.servers import Target
from benchmarks.wire import STREAM, LoadError, Wire

PULLS_OUTSTANDING = 2
_ACK_PENDING_MIN = 1_000  # the server's default
_EXPIRES_NS = 30 * 10**9
# The end of the line is part of it: a reply that the end of a chunk cuts short is left for later.
_ACK_REPLY = re.compile(rb"(\$JS\.ACK\.\S+) \d+\r\n")
_MARKER_HEAD = b"$JS.ACK.%s." % STREAM.encode()


class PullConsumer:
    """One consumer on one connection; `wanted` messages and it is done."""

    def __init__(
        self,
        port: int,
        name: str,
        batch: int,
        wanted: int,
        *,
        sends_acks: bool,
        first_seq: int = 1,
    ) -> None:
        wire = Wire(port)
        wire.subscribe_inbox()
        policy = "explicit" if sends_acks else "none"
        settings: dict[str, object] = {"ack_policy": policy}
        if first_seq > 1:
            settings |= {"deliver_policy": "by_start_sequence", "opt_start_seq": first_seq}
        if sends_acks:
            # No more than what is asked for: deliveries must not run ahead of the acks' handling.
            settings["max_ack_pending"] = max(_ACK_PENDING_MIN, PULLS_OUTSTANDING * batch)
        wire.create_consumer(name, **settings)
        self.name = name
        self.wanted = wanted
        self.flow = Flow(wire, _MARKER_HEAD + name.encode() + b".1.")
        self.flow.on_data = self._acknowledge if sends_acks else self._pull_on
        self._batch = batch
        self._pulled = 0
        self._tail = b""
        body = json.dumps({"batch": batch, "expires": _EXPIRES_NS}).encode()
        self._pull = b"PUB $JS.API.CONSUMER.MSG.NEXT.%s.%s %s.pull %d\r\n%s\r\n" % (
            STREAM.encode(),
            name.encode(),
            wire.inbox,
            len(body),
            body,
        )

    @property
    def is_done(self) -> bool:
        return self.flow.messages >= self.wanted

    def start(self) -> None:
        """Send the first pulls."""
        self._pulled = PULLS_OUTSTANDING * self._batch
        self.flow.send(self._pull * PULLS_OUTSTANDING)

    def _pull_on(self, buffer: bytearray, end: int) -> None:
        filled = self.flow.messages + PULLS_OUTSTANDING * self._batch - self._pulled
        if (count := filled // self._batch) > 0:
            self._pulled += count * self._batch
            self.flow.send(self._pull * count)

    def _acknowledge(self, buffer: bytearray, end: int) -> None:
        # `read` keeps the end of the last chunk at the front of the buffer; here it is in the tail.
        received = self._tail + buffer[self.flow.carried : end]
        replies = _ACK_REPLY.findall(received)
        if replies:
            self.flow.send(b"PUB " + b" 0\r\n\r\nPUB ".join(replies) + b" 0\r\n\r\n")
            self._tail = received[received.rindex(replies[-1]) + len(replies[-1]) :]
        else:
            self._tail = received
        self._pull_on(buffer, end)

    def close(self) -> None:
        self.flow.wire.close()


def prepare(target: Target, settings: Settings, *, size: int) -> LoadResult:
    """Make and fill the stream."""
    with Wire(target.port) as control:
        control.subscribe_inbox()
        control.create_stream(allow_direct=True)
    fill(target, settings.stored_messages, size)
    return LoadResult({}, settings.stored_messages)


def pull(
    target: Target, settings: Settings, *, batch: int, sends_acks: bool, consumers: int
) -> LoadResult:
    """Pull until the time is up or the first consumer has read the stream."""
    wanted = settings.stored_messages // batch * batch
    if wanted == 0:
        raise LoadError(f"the stream holds less than one batch of {batch}")
    crowd = [
        PullConsumer(target.port, f"C{number}", batch, wanted, sends_acks=sends_acks)
        for number in range(consumers)
    ]
    loop = EventLoop([consumer.flow for consumer in crowd])
    for consumer in crowd:
        consumer.start()
    rate = measure_rate(
        loop,
        lambda: sum(consumer.flow.messages for consumer in crowd),
        settings.seconds,
        foremost=lambda: max(consumer.flow.messages for consumer in crowd),
        limit=wanted,
    )
    count = sum(consumer.flow.messages for consumer in crowd)
    for consumer in crowd:
        consumer.close()
    loop.close()
    if not target.is_null:
        with Wire(target.port) as control:
            control.subscribe_inbox()
            for consumer in crowd:
                control.delete_consumer(consumer.name)
    return LoadResult({"rate": rate}, count)


def benches() -> list[Bench]:
    """Row 4."""
    found = []
    for consumers in (1, 4, 16):
        cases = []
        for sends_acks in (False, True):
            for batch in (100, 1_000, 5_000, 10_000):
                policy = "explicit" if sends_acks else "none"
                crowd = f", {consumers} consumers" if consumers > 1 else ""
                cases.append(
                    Case(
                        f"pull 128 B, ack {policy}, batch {batch:,}{crowd}",
                        partial(pull, batch=batch, sends_acks=sends_acks, consumers=consumers),
                    )
                )
        found.append(Bench(f"pull-{consumers}", tuple(cases), partial(prepare, size=128)))
    return found
