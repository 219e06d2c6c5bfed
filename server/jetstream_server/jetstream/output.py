"""What the JetStream state machines want sent.

The two lists are the durability rule. `sends` may leave now; `sends_after_flush` only once
everything queued for the disk so far is there. Publish acks, API replies and deliveries all go to
the second one: nobody outside ever sees a message, a sequence or a config that a crash could take
back. When nothing waits for the disk the second list leaves at once, so it costs nothing then. Only
publishers to a stream in memory are told at once (`streams/storing/publish_answers.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from jetstream_server.core.answers import Answers
from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Subscription
from jetstream_server.jetstream.frames_in_flight import FramesInFlight
from jetstream_server.kernels import acks
from jetstream_server.protocol.ops import PubRun


@dataclass(slots=True)
class Frames:
    """Encoded MSG and HMSG frames for one client subscription.

    Attributes:
        content_bytes: how many their headers and payloads have, None to be counted.
    """

    subscription: Subscription
    data: bytes
    count: int
    content_bytes: int | None = None


@dataclass(slots=True)
class Publish:
    """Messages that the server publishes itself; routed like anybody's."""

    run: PubRun


@dataclass(slots=True)
class Handover:
    """Messages for a receiver inside this server: a mirror, a source, an import.

    Attributes:
        weight: what they count as until they are taken (`core/handing_over.py`).
    """

    subscription: Subscription
    run: PubRun
    weight: int


@dataclass(slots=True)
class Released:
    """Nothing to send: the answers before it no longer count as a client's."""

    answers: Answers
    size: int


Send = Frames | Publish | Handover | Released


# What reaches more than a few at once is work of the turn. A turn makes no more of it than it is
# sure to deliver, or what is late (`node/late_output.py`) becomes more and more.
_FEW_REACHED = 8
_REACHED_OF_UNIT = 30
_KEPT_BYTES_OF_UNIT = 64 * 1024  # until it leaves
_WITHIN_UNITS = 0.5  # what a part of the server takes, as a stream does


def _nobody() -> None:
    pass


def _spend_nothing(units: float) -> None:
    pass


def _promise_nothing(units: float, account: object) -> None:
    pass


@dataclass(slots=True, eq=False)
class Output:
    """Collects sends of one account; the node drains it once a turn.

    Attributes:
        sublist: the account's interest.
        stir: called with each send; whoever drains looks only at accounts that were stirred.
        spend: told of what reaches many at once, in units of the workload.
        promise: the same of what reaches them after a flush, and of what is stored again; and in
            whose output.
        delivered_bytes: of frames and of messages handed over so far.
        delivered_messages: likewise, those in frames.
        in_flight: frames that clients have yet to be handed.
    """

    sublist: Sublist
    stir: Callable[[], None] = _nobody
    spend: Callable[[float], None] = _spend_nothing
    promise: Callable[[float, object], None] = _promise_nothing
    sends: list[Send] = field(default_factory=list)
    sends_after_flush: list[Send] = field(default_factory=list)
    delivered_bytes: int = 0
    delivered_messages: int = 0
    in_flight: FramesInFlight = field(default_factory=FramesInFlight)

    def publish(
        self, subject: bytes, payload: bytes, *, reply: bytes = b"", headers: bytes = b""
    ) -> Publish:
        """Publish one message after the flush: an API reply, an advisory, a status."""
        send = Publish(PubRun.single(subject, reply, headers, payload))
        self.sends_after_flush.append(send)
        if units := self._units_of(subject):
            self.promise(units + len(payload) // _KEPT_BYTES_OF_UNIT, self)
        self.stir()
        return send

    def withdraw(self, sends: Collection[Send]) -> None:
        """Do not publish these after all; none of them has left yet."""
        if sends:
            gone = set(map(id, sends))
            kept = [each for each in self.sends_after_flush if id(each) not in gone]
            self.sends_after_flush[:] = kept

    def publish_now(self, subject: bytes, payload: bytes, *, headers: bytes = b"") -> None:
        """Publish one message that need not wait: a refusal, or what says nothing of the disk."""
        self.sends.append(Publish(PubRun.single(subject, b"", headers, payload)))
        if units := self._units_of(subject):
            self.spend(units)
        self.stir()

    def _units_of(self, subject: bytes) -> float:
        match = self.sublist.match(subject)
        if (only := match.only) is not None:
            return 0.0 if only.outlet is not None else _WITHIN_UNITS
        reached = match.width
        return reached / _REACHED_OF_UNIT if reached > _FEW_REACHED else 0.0

    def frames(
        self,
        subscription: Subscription,
        data: bytes,
        count: int,
        *,
        content_bytes: int | None = None,
        waits: bool = True,
    ) -> None:
        """Deliver encoded frames, after the flush if they are to wait for it.

        Args:
            content_bytes: how many their headers and payloads have, None to be counted.
        """
        sends = self.sends_after_flush if waits else self.sends
        sends.append(Frames(subscription, data, count, content_bytes))
        self.delivered_bytes += len(data)
        self.delivered_messages += count
        self.stir()

    def hand_over(self, subscription: Subscription, run: PubRun, weight: int) -> None:
        """Deliver messages within the server after the flush.

        Args:
            weight: as in `Handover`.

        What a mirror stores must not outlive its origin's messages: their sequences would be used
        again, for messages that the mirror would then take for known ones.
        """
        self.sends_after_flush.append(Handover(subscription, run, weight))
        self.delivered_bytes += len(run.chunk)
        self.stir()

    def owe(self, answers: Answers | None, size: int) -> None:
        """Count what was just queued after the flush as answers to a client, until it is sent."""
        if answers is not None:
            answers.owe(size)
            self.sends_after_flush.append(Released(answers, size))
            self.stir()

    def pub_acks(
        self, run: PubRun, start: int, stop: int, head: bytes, first_seq: int, *, waits: bool = True
    ) -> None:
        """Acknowledge messages of a run, stored with consecutive sequences from `first_seq`.

        `head` is the JSON up to the number, as in `{"stream":"ORDERS","seq":`. Messages without
        a reply get nothing.
        """
        cut, reply, target = self.reply_stretch(run, start, stop)
        if cut == stop and not reply:
            return
        if cut == stop and target is not None and _takes_frames(target):  # as nearly always
            data, content_bytes = acks.encode_pub_acks(
                run.chunk, run.fields, start, stop, target.sid, head, first_seq
            )
            self.frames(target, data, stop - start, content_bytes=content_bytes, waits=waits)
            return

        def framed(first: int, cut: int, sid: bytes) -> tuple[bytes, int]:
            sequence = first_seq + first - start
            return acks.encode_pub_acks(run.chunk, run.fields, first, cut, sid, head, sequence)

        def body(at: int) -> bytes:
            return b"%b%d}" % (head, first_seq + at - start)

        self.answer(run, start, stop, framed, body, waits=waits)

    def answer(
        self,
        run: PubRun,
        start: int,
        stop: int,
        framed: Callable[[int, int, bytes], tuple[bytes, int]],
        body: Callable[[int], bytes],
        *,
        waits: bool = True,
    ) -> None:
        """Answer messages of a run, each stretch that goes to one client as one buffer.

        Args:
            framed: gives the MSG frames for messages from one up to another, for a sid, and how
                many bytes their payloads have.
            body: gives the answer to one message, for where several listen, or others than clients.
            waits: whether the answers leave after the flush.
        """
        publish = self.publish if waits else self.publish_now
        index = start
        while index < stop:
            cut, reply, target = self.reply_stretch(run, index, stop)
            if target is not None and _takes_frames(target):
                data, content_bytes = framed(index, cut, target.sid)
                self.frames(target, data, cut - index, content_bytes=content_bytes, waits=waits)
            elif reply:
                for at in range(index, cut):
                    publish(run.reply(at), body(at))
            index = cut

    def answered_together(self, run: PubRun, start: int, stop: int) -> int:
        """Return how far messages from `start` may be taken together, as none of their answers
        reaches many; the first one that does is taken on its own."""
        index = start
        while index < stop:
            cut, reply, target = self.reply_stretch(run, index, stop)
            if reply and target is None:
                for at in range(index, cut):
                    if self.sublist.match(run.reply(at)).width > _FEW_REACHED:
                        return max(at, start + 1)
            index = cut
        return stop

    def reply_stretch(
        self, run: PubRun, start: int, stop: int
    ) -> tuple[int, bytes, Subscription | None]:
        """Return (cut, reply, target) for the messages from `start` that are answered alike.

        They end before `cut`. `reply` is empty where they want no answer; `target` is the one
        subscription that takes all the answers, None if there is none.
        """
        cut, reply, exact = acks.reply_run(run.chunk, run.fields, start, stop)
        if not reply:
            return cut, reply, None
        match = self.sublist.match_one if exact else self.sublist.match_prefix
        return cut, reply, match(reply)


def _takes_frames(target: Subscription) -> bool:
    """Tell whether answers can go to a subscription as frames, however many they are, and whatever
    their subjects."""
    return target.outlet is not None and not (target.max_messages or target.is_filtered)
