"""The consumer that a mirror or source makes at its origin, seen from the origin."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from jetstream_server import API_LEVEL
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.base.nuid import Nuid
from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Sender, Stretch, Subscription
from jetstream_server.jetstream.configs.stream_config import OriginConfig
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.origins.arrival import Arrival
from jetstream_server.jetstream.origins.feed import Feed
from jetstream_server.jetstream.origins.origin_request import MIRROR, SOURCE, FeedKind
from jetstream_server.jetstream.output import Output, Publish
from jetstream_server.jetstream.wire.go_json import decode
from jetstream_server.protocol.ops import PubRun

START = 1_700_000_000 * SECOND
CREATED: dict[str, Any] = {
    "name": "C",
    "delivered": {"consumer_seq": 0, "stream_seq": 0},
}
Message = tuple[bytes, bytes, bytes, bytes]


class Reader:
    """Stands for a mirror or source; remembers what it was given."""

    def __init__(self) -> None:
        self.position = 0
        self.identity: bytes | None = b""
        self.begun: list[tuple[int, bytes]] = []
        self.taken: list[tuple[int, int]] = []
        self.refuses = False
        self.is_complete = True
        self.started_over = 0

    def begin(self, skipped: int, identity: bytes, now: int) -> None:
        self.begun.append((skipped, identity))

    def start_over(self) -> None:
        self.started_over += 1
        self.position = 0

    def take(self, arrival: Arrival, now: int) -> bool:
        if self.refuses:
            return False
        self.taken += zip(arrival.sequences, arrival.timestamps, strict=True)
        self.position = arrival.sequences[-1]
        return True


class Client:
    """Somebody who publishes."""

    echo = True
    is_server = False
    answers = None

    def client_info(self, now: int) -> dict[str, Any]:
        return {}

    def unanswered(self, run: PubRun, start: int, stop: int) -> int:
        return 0


class Line:
    """A feed, and the origin at its other end."""

    def __init__(self, kind: FeedKind = MIRROR, domain: str = "", **source: Any) -> None:
        self.now = START
        self.sublist = Sublist()
        self.output = Output(self.sublist)
        self.context = Context("$G", "S", domain, self.sublist, self.output, Nuid(Random(1)))
        self.reader = Reader()
        config = decode(json.dumps({"name": "O", **source}).encode(), OriginConfig)
        self.feed = Feed(self.context, "M", config, kind, "M $G", self.reader)
        self.deliver = b""
        self.inbox = b""

    def sent(self) -> list[Message]:
        found = []
        for send in self.output.sends_after_flush:
            assert isinstance(send, Publish)
            run = send.run
            found.append((run.subject(0), run.reply(0), run.headers(0), run.payload(0)))
        self.output.sends_after_flush.clear()
        return found

    def advance(self, nanoseconds: int) -> list[Message]:
        """Let time pass and return what is sent meanwhile."""
        until = self.now + nanoseconds
        while (due := self.context.deadlines.next_deadline()) is not None and due <= until:
            self.now = max(due, self.now)
            for scheduled in self.context.deadlines.pop_due(self.now):
                scheduled.tick(self.now)
        self.now = until
        return self.sent()

    def ask(self, nanoseconds: int = 200 * MILLISECOND) -> tuple[bytes, bytes, dict[str, Any]]:
        """Wait for the request; return its subject, headers and body."""
        ((subject, self.inbox, headers, payload),) = self.advance(nanoseconds)
        body = json.loads(payload) if payload else {}
        if body:
            self.deliver = body["config"]["deliver_subject"].encode()
        return subject, headers, body

    def answer(self, headers: bytes = b"", by: Sender | None = None, **body: Any) -> None:
        run = PubRun.single(self.inbox, b"", headers, json.dumps(body).encode())
        self._route(self.inbox, run, by)

    def deliver_all(
        self, *numbers: tuple[int, int], pending: int = 0, by: Sender | None = None
    ) -> None:
        """Deliver messages of these stream and consumer sequences as one run."""
        run = PubRun.of(
            [
                (b"o.a", b"$JS.ACK.O.C.1.%d.%d.%d.%d" % (s, c, s * 100, pending), b"", b"m")
                for s, c in numbers
            ]
        )
        self._route(self.deliver, run, by)

    def status(self, line: bytes, *fields: bytes, reply: bytes = b"") -> None:
        headers = b"NATS/1.0 100 %b\r\n%b\r\n" % (line, b"".join(fields))
        self._route(self.deliver, PubRun.single(self.deliver, reply, headers, b""))

    def _route(self, subject: bytes, run: PubRun, by: Sender | None = None) -> None:
        for sub in self.sublist.match(subject).plain:
            sub.receiver.receive(Stretch(run, 0, run.count, sub, by, self.now))

    def run(self) -> None:
        """Let the feed become active."""
        self.feed.start(self.now)
        self.ask()
        self.answer(**CREATED)


@pytest.fixture
def line() -> Line:
    return Line()


def test_what_is_asked_for(line: Line) -> None:
    line.feed.start(line.now)
    assert line.advance(99 * MILLISECOND) == []
    subject, headers, body = line.ask()
    assert subject == b"$JS.API.CONSUMER.CREATE.O"
    assert headers == (b"NATS/1.0\r\nNats-Required-Api-Level: 4\r\nNats-Stream-Identity: \r\n\r\n")
    assert body["stream_name"] == "O"
    config = body["config"]
    assert config["name"] == "JS_MIRROR_ih8eMwqr"
    assert config["deliver_subject"].startswith("$JS.M.")
    assert config["metadata"] == {"_nats.mirror.acc": "$G", "_nats.mirror.stream": "M"}
    assert (config["direct"], config["sourcing"], config["flow_control"]) == (True, True, True)
    assert config["deliver_policy"] == "all"


def test_a_mirror_names_no_identity_and_a_source_does() -> None:
    line = Line(SOURCE)
    line.reader.identity = b"abc"
    line.feed.start(line.now)
    _, headers, body = line.ask()
    level = b"%d" % min(5, API_LEVEL)
    assert headers == (
        b"NATS/1.0\r\nNats-Required-Api-Level: %b\r\nNats-Stream-Identity: abc\r\n\r\n" % level
    )
    assert body["config"]["deliver_subject"].startswith("$JS.S.")
    line = Line()
    line.reader.identity = None
    line.feed.start(line.now)
    assert line.ask()[1] == b"NATS/1.0\r\nNats-Required-Api-Level: 4\r\n\r\n"


def test_one_filter_stands_in_the_subject() -> None:
    line = Line(filter_subject="o.a")
    line.feed.start(line.now)
    subject, _, body = line.ask()
    assert subject == b"$JS.API.CONSUMER.CREATE.O.JS_MIRROR_ih8eMwqr.o.a"
    assert body["config"]["filter_subject"] == "o.a"
    rules = [{"src": "o.*", "dest": "z.$1"}, {"src": "q.*", "dest": ""}]
    line = Line(subject_transforms=rules)
    line.feed.start(line.now)
    subject, _, body = line.ask()
    assert subject == b"$JS.API.CONSUMER.CREATE.O"
    assert body["config"]["filter_subjects"] == ["o.*", "q.*"]


@pytest.mark.parametrize(
    ("source", "position", "start"),
    [
        ({"opt_start_seq": 5}, 0, {"deliver_policy": "by_start_sequence", "opt_start_seq": 5}),
        ({"opt_start_seq": 5}, 8, {"deliver_policy": "by_start_sequence", "opt_start_seq": 9}),
        (
            {"opt_start_time": "2020-01-01T00:00:00Z"},
            0,
            {"deliver_policy": "by_start_time", "opt_start_time": "2020-01-01T00:00:00Z"},
        ),
    ],
)
def test_where_it_starts(source: dict[str, Any], position: int, start: dict[str, Any]) -> None:
    line = Line(**source)
    line.reader.position = position
    line.feed.start(line.now)
    config = line.ask()[2]["config"]
    assert {key: config[key] for key in start} == start


def test_an_origin_elsewhere_is_asked_by_its_prefixes() -> None:
    line = Line(external={"api": "$JS.D.API", "deliver": "from.d"})
    line.feed.start(line.now)
    subject, _, body = line.ask()
    assert subject == b"$JS.D.API.CONSUMER.CREATE.O"
    assert body["config"]["deliver_subject"].startswith("from.d.M.")
    line = Line(domain="D", external={"api": "$JS.D.API", "deliver": ""})
    line.feed.start(line.now)
    assert line.ask()[0] == b"$JS.API.CONSUMER.CREATE.O"


def test_messages_before_the_answer_wait_for_it(line: Line) -> None:
    line.feed.start(line.now)
    line.ask()
    line.deliver_all((1, 1), (2, 2))
    assert line.reader.taken == []
    identity = b"NATS/1.0\r\nNats-Stream-Identity: abc\r\n\r\n"
    line.answer(identity, name="C", delivered={"consumer_seq": 0, "stream_seq": 0})
    assert line.reader.begun == [(0, b"abc")]
    assert line.reader.taken == [(1, 100), (2, 200)]


def test_messages_in_order_are_handed_on(line: Line) -> None:
    line.run()
    line.deliver_all((3, 1), (5, 2), pending=4)
    line.deliver_all((6, 3), pending=1)
    line.deliver_all((6, 3), pending=1)  # again: not taken twice
    assert line.reader.taken == [(3, 300), (5, 500), (6, 600)]
    assert line.feed.lag == 0  # the last one left is no lag, as the genuine server counts
    assert line.feed.active_at == line.now


def test_a_gap_makes_it_ask_again_for_what_is_missing(line: Line) -> None:
    line.run()
    line.deliver_all((3, 1))
    line.deliver_all((7, 3))
    line.deliver_all((8, 4))
    config = line.ask()[2]["config"]
    assert config["opt_start_seq"] == 4
    assert line.reader.taken == [(3, 300)]


def test_a_heartbeat_tells_of_lost_messages(line: Line) -> None:
    line.run()
    line.deliver_all((3, 1))
    line.status(b"Idle Heartbeat", b"Nats-Last-Consumer: 1\r\n")
    assert line.advance(SECOND) == []
    line.status(b"Idle Heartbeat", b"Nats-Last-Consumer: 2\r\n")
    assert line.ask()[2]["config"]["opt_start_seq"] == 4


def test_flow_control_is_answered_with_how_far_it_came(line: Line) -> None:
    line.run()
    line.deliver_all((3, 1), (4, 2))
    line.status(b"FlowControl Request", reply=b"$JS.FC.O.C.abcd")
    answer = b"NATS/1.0\r\nNats-Last-Consumer: 2\r\nNats-Last-Stream: 4\r\n\r\n"
    assert line.sent() == [(b"$JS.FC.O.C.abcd", b"", answer, b"")]
    line.status(b"Idle Heartbeat", b"Nats-Consumer-Stalled: $JS.FC.O.C.efgh\r\n")
    assert line.sent() == [(b"$JS.FC.O.C.efgh", b"", answer, b"")]


def test_what_is_not_held_is_not_acknowledged_nor_anything_behind_it(line: Line) -> None:
    line.run()
    line.deliver_all((3, 1))
    line.reader.is_complete = False
    line.deliver_all((4, 2), (5, 3))
    line.status(b"FlowControl Request", reply=b"$JS.FC.O.C.abcd")
    answer = b"NATS/1.0\r\nNats-Last-Consumer: 1\r\nNats-Last-Stream: 3\r\n\r\n"
    assert line.sent() == [(b"$JS.FC.O.C.abcd", b"", answer, b"")]
    line.status(b"Idle Heartbeat", b"Nats-Last-Consumer: 3\r\n")  # nothing is missing
    assert line.sent() == []


def test_silence_makes_it_ask_again(line: Line) -> None:
    line.run()
    for _ in range(3):
        assert line.advance(9 * SECOND) == []
        line.status(b"Idle Heartbeat", b"Nats-Last-Consumer: 0\r\n")
    assert line.ask(11 * SECOND)[0] == b"$JS.API.CONSUMER.CREATE.O"


def test_an_answer_that_does_not_come(line: Line) -> None:
    line.feed.start(line.now)
    line.ask()
    assert line.advance(29 * SECOND) == []
    line.ask(12 * SECOND)


def test_refusals_are_shown_and_tried_again_less_and_less_often(line: Line) -> None:
    line.feed.start(line.now)
    line.ask()
    for fails in (1, 2, 3):
        line.answer(error={"code": 404, "err_code": 10059, "description": "stream not found"})
        assert line.feed.error is not None and line.feed.error.err_code == 10059
        assert line.advance(fails * 10 * SECOND - MILLISECOND) == []
        line.ask()
    line.answer(**CREATED)
    assert line.feed.error is None


def test_a_stream_made_here_ends_a_long_wait(line: Line) -> None:
    line.feed.start(line.now)
    line.ask()
    line.answer(error={"code": 404, "err_code": 10059, "description": "stream not found"})
    line.advance(SECOND)
    line.feed.origin_appeared(line.now)
    line.ask()


def test_an_origin_that_is_another_one_now(line: Line) -> None:
    line.reader.position = 9
    line.feed.start(line.now)
    line.ask()
    line.answer(error={"code": 400, "err_code": 10225, "description": "does not match: x"})
    assert line.reader.started_over == 1
    assert line.feed.error is None
    assert line.ask()[2]["config"]["deliver_policy"] == "all"


def test_what_is_refused_comes_again(line: Line) -> None:
    line.run()
    line.deliver_all((1, 1))
    line.reader.refuses = True
    line.deliver_all((2, 2))
    line.deliver_all((3, 3))
    assert line.advance(SECOND) == []
    line.reader.refuses = False
    assert line.ask(2 * SECOND)[2]["config"]["opt_start_seq"] == 2


def test_a_prepared_consumer_is_reset() -> None:
    line = Line(consumer={"name": "D", "deliver_subject": "d"})
    line.reader.identity = None
    line.deliver = b"d"
    line.feed.start(line.now)
    subject, headers, body = line.ask()
    assert (subject, headers, body) == (b"$JS.API.CONSUMER.RESET.O.D", b"", {})
    line.deliver_all((5, 5))  # from before the reset
    delivered = {"consumer_seq": 0, "stream_seq": 0}
    line.answer(name="C", delivered=delivered, config={"ack_policy": "flow_control"})
    line.deliver_all((1, 1))
    assert line.reader.taken == [(1, 100)]
    line.feed.stop(for_good=True)
    assert line.sent() == []  # it is not ours to delete


def test_a_prepared_consumer_needs_acks_by_flow_control() -> None:
    line = Line(SOURCE, consumer={"name": "D", "deliver_subject": "d"})
    line.feed.start(line.now)
    line.ask()
    line.answer(name="D", delivered={}, config={"ack_policy": "none"})
    assert line.feed.error is not None and line.feed.error.err_code == 10217
    line.ask(11 * SECOND)
    assert line.advance(4 * SECOND) == []
    line.ask(22 * SECOND)  # an answer is waited for 5 s, not 30


def test_the_end(line: Line) -> None:
    line.run()
    assert line.sublist.count == 1
    line.feed.stop(for_good=True)
    assert [message[0] for message in line.sent()] == [b"$JS.API.CONSUMER.DELETE.O.C"]
    assert line.sublist.count == 0
    assert line.advance(60 * SECOND) == []
    assert not line.feed.is_started


def test_a_shutdown_leaves_the_consumer(line: Line) -> None:
    line.run()
    line.feed.stop(for_good=False)
    assert line.sent() == []


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b'"x"', b"{}"])
def test_an_answer_that_is_none_changes_nothing(line: Line, payload: bytes) -> None:
    line.feed.start(line.now)
    line.ask()
    line._route(line.inbox, PubRun.single(line.inbox, b"", b"", payload))
    assert line.reader.begun == []


def test_strangers_on_the_deliver_subject_are_ignored(line: Line) -> None:
    line.run()
    for reply in (b"", b"x", b"$JS.ACK.", b"$JS.ACK.O.C.1.x.1.1.1", b"$JS.ACK.O.C.1.2"):
        line._route(line.deliver, PubRun.single(line.deliver, reply, b"NATS/1.0 100 Other\r\n\r\n"))
    assert line.reader.taken == []
    line.deliver_all((1, 1))
    assert line.reader.taken == [(1, 100)]


def test_the_longer_form_of_ack_subjects(line: Line) -> None:
    line.run()
    reply = b"$JS.ACK.D.hash.O.C.1.7.1.700.0.random"
    line._route(line.deliver, PubRun.single(b"o.a", reply, b"", b""))
    assert line.reader.taken == [(7, 700)]


def test_a_feed_is_no_client() -> None:
    line = Line()
    line.run()
    assert all(isinstance(sub, Subscription) and sub.outlet is None for sub in line.sublist)


def test_a_client_has_no_say(line: Line) -> None:
    line.feed.start(line.now)
    line.ask()
    line.answer(by=Client(), **CREATED)
    assert line.reader.begun == []
    line.answer(**CREATED)
    line.deliver_all((1, 1), by=Client())
    assert line.reader.taken == []
    line.deliver_all((1, 1))
    assert line.reader.taken == [(1, 100)]


def test_deliveries_of_another_consumer_are_not_the_origin_s(line: Line) -> None:
    line.feed.start(line.now)
    line.ask()
    line.answer(**CREATED | {"name": "D"})
    line.deliver_all((1, 1))
    assert line.reader.taken == []


@pytest.mark.parametrize("digits", [b"9" * 5000, "²".encode()])
def test_a_heartbeat_with_a_number_that_is_none(line: Line, digits: bytes) -> None:
    line.run()
    line.status(b"Idle Heartbeat", b"Nats-Last-Consumer: %b\r\n" % digits)
    line.deliver_all((1, 1))
    assert line.reader.taken == [(1, 100)]
