"""Pull consumers: four pulls outstanding a consumer, so that one is filled while others wait.

Each consumer is a durable one of its own with its own connection and reads the whole stream.
Without acks, messages are counted; with explicit acks each message is acknowledged by its own
frame, encoded beforehand, in one write a received chunk. In the end the consumer must have as many
messages acknowledged as acks were sent.
"""

from __future__ import annotations

import json
import time
from functools import partial

from benchmarks.bench import Bench, Case, LoadResult, Settings
from benchmarks.delivery_flow import DeliveryFlow
from benchmarks.event_loop import EventLoop
from benchmarks.loads.publish import fill
from benchmarks.loads.rate import measure_rate
from benchmarks.numbered_frames import NumberedFrames, encoded_acks
from benchmarks.servers import Target
from benchmarks.wire import STREAM, LoadError, Wire

PULLS_OUTSTANDING = 4
_ACK_PENDING_MIN = 1_000  # the server's default
_EXPIRES_NS = 30 * 10**9
_SETTLE_S = 20.0


class PullConsumer:
    """One consumer on one connection; `wanted` messages and it is done.

    Args:
        acks: of a consumer that acknowledges each message; then it reads from the first one.
    """

    def __init__(
        self,
        port: int,
        name: str,
        batch: int,
        wanted: int,
        *,
        acks: NumberedFrames | None = None,
        first_seq: int = 1,
    ) -> None:
        wire = Wire(port)
        wire.subscribe_inbox()
        policy = "explicit" if acks is not None else "none"
        settings: dict[str, object] = {"ack_policy": policy}
        if first_seq > 1:
            settings |= {"deliver_policy": "by_start_sequence", "opt_start_seq": first_seq}
        if acks is not None:
            # No more than what is asked for: deliveries must not run ahead of the acks' handling.
            settings["max_ack_pending"] = max(_ACK_PENDING_MIN, PULLS_OUTSTANDING * batch)
        wire.create_consumer(name, **settings)
        self.name = name
        self.wanted = wanted
        self.acked = 0
        self.flow = DeliveryFlow(wire)
        self.flow.on_data = self._pull_on if acks is None else self._acknowledge
        self._acks = acks
        self._batch = batch
        self._pulled = 0
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
        if pulls := self._next_pulls():
            self.flow.send(pulls)

    def _acknowledge(self, buffer: bytearray, end: int) -> None:
        assert self._acks is not None
        if self.flow.first_seqs not in (None, (1, 1)):
            raise LoadError(f"the first message has the sequences {self.flow.first_seqs}")
        if self.flow.messages > self.acked:
            acks = self._acks.between(self.acked, self.flow.messages)
            self.acked = self.flow.messages
            self.flow.send(acks, self._next_pulls())

    def _next_pulls(self) -> bytes:
        """Return the pulls for the batches that came since."""
        filled = self.flow.messages + PULLS_OUTSTANDING * self._batch - self._pulled
        count = filled // self._batch
        self._pulled += count * self._batch
        return self._pull * count

    def close(self) -> None:
        self.flow.wire.close()


def prepare(target: Target, settings: Settings, *, size: int) -> LoadResult:
    """Make and fill the stream."""
    with Wire(target.port) as control:
        control.subscribe_inbox()
        control.create_stream(allow_direct=True)
    fill(target, settings.stored_messages, size)
    return LoadResult({}, settings.stored_messages)


def prepare_with_acks(
    target: Target, settings: Settings, *, size: int, consumers: int
) -> LoadResult:
    """Make and fill the stream; encode the acks, so that no row has to."""
    for number in range(consumers):
        encoded_acks(_name(number), settings.stored_messages)
    return prepare(target, settings, size=size)


def _name(number: int) -> str:
    return f"C{number:02}"


def pull(
    target: Target, settings: Settings, *, batch: int, sends_acks: bool, consumers: int
) -> LoadResult:
    """Pull until the time is up or the first consumer has read the stream."""
    wanted = settings.stored_messages // batch * batch
    if wanted == 0:
        raise LoadError(f"the stream holds less than one batch of {batch}")
    crowd = []
    for name in map(_name, range(consumers)):
        acks = encoded_acks(name, settings.stored_messages) if sends_acks else None
        crowd.append(PullConsumer(target.port, name, batch, wanted, acks=acks))
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
    if not target.is_null:
        # The connections stay open: what a closed one has not read yet would be lost.
        loop.run(lambda: not any(consumer.flow.is_blocked for consumer in crowd))
        with Wire(target.port) as control:
            control.subscribe_inbox()
            for consumer in crowd:
                if sends_acks:
                    _await_acks(control, consumer)
                control.delete_consumer(consumer.name)
    for consumer in crowd:
        consumer.close()
    loop.close()
    return LoadResult({"rate": rate}, count)


def _await_acks(control: Wire, consumer: PullConsumer) -> None:
    """Wait until the server has taken every ack that was sent, and no other."""
    deadline = time.monotonic() + _SETTLE_S
    while True:
        info = control.api(f"CONSUMER.INFO.{STREAM}.{consumer.name}")
        floor = info["ack_floor"]["consumer_seq"]
        pending = info["num_ack_pending"]
        if floor == consumer.acked and pending == info["delivered"]["consumer_seq"] - floor:
            return
        if floor > consumer.acked or time.monotonic() > deadline:
            raise LoadError(
                f"{consumer.acked} messages of {consumer.name} were acknowledged, the server says "
                f"{floor}, with {pending} pending"
            )


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
        prepare_all = partial(prepare_with_acks, size=128, consumers=consumers)
        found.append(Bench(f"pull-{consumers}", tuple(cases), prepare_all))
    return found
