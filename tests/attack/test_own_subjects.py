"""What only the server's own parts may say is taken from nobody else, nor in their name.

Mirrors and sources hear their origins on subjects that every client of the account sees. A client
may say something there itself, or have the server say it: as the answer to a request, as what a
consumer delivers, as a backup. Nothing of that is taken.
"""

from __future__ import annotations

import json

import pytest
from jetstream_server.base.clock import SECOND

from tests.contained import World

FORGED = b"forged"


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


class Copied:
    """A stream that sources another one, and a spy that knows the names of all."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.client = client = world.connect()
        spy = world.connect()
        spy.say(b"SUB > 2\r\n")
        client.stream("S")
        client.stream("OTHER")
        client.store("s.a", b"true")
        seen = client.api("STREAM.CREATE.T", {"name": "T", "sources": [{"name": "S"}]})
        assert "error" not in seen
        world.wait(SECOND)
        client.say(b"PUB s.a 4\r\ntrue\r\n")
        world.wait(SECOND)
        said = spy.read()
        # The request for a consumer says where it is to deliver, and so does each heartbeat.
        word = next(word for word in said.split() if word.startswith(b"$JS.S."))
        ack = next(word for word in said.split() if word.startswith(b"$JS.ACK.S."))
        self.subject, self.name = word.decode(), ack.split(b".")[3].decode()

    @property
    def messages(self) -> int:
        return int(self.client.api("STREAM.INFO.T")["state"]["messages"])

    def is_well(self) -> bool:
        """Tell whether it still copies what is stored, and nothing else."""
        before = self.messages
        self.client.store("s.b", b"true")
        self.world.wait(0)
        texts = [
            self.client.api("STREAM.MSG.GET.T", {"seq": seq})["message"].get("data", "")
            for seq in range(1, self.messages + 1)
        ]
        return self.messages == before + 1 and set(texts) == {"dHJ1ZQ=="}


@pytest.fixture
def copied(world):
    return Copied(world)


def by_publishing(copied: Copied) -> None:
    numbers = b"1.3.3.1700000000000000000.0"
    reply = b"$JS.ACK.S.%b.%b" % (copied.name.encode(), numbers)
    copied.client.publish(copied.subject, FORGED, reply.decode())
    copied.client.publish(copied.subject, FORGED)


def by_a_consumer_of_that_name(copied: Copied) -> None:
    client = copied.client
    for _ in range(5):
        client.store("other.a", FORGED)
    config = {"deliver_subject": copied.subject, "name": copied.name, "durable_name": copied.name}
    config |= {"ack_policy": "none", "deliver_policy": "by_start_sequence", "opt_start_seq": 1}
    body = {"stream_name": "OTHER", "config": config}
    answer = client.api(f"CONSUMER.CREATE.OTHER.{copied.name}", body)
    assert answer["error"]["err_code"] == 10112
    copied.world.wait(SECOND)


def by_heartbeats_of_a_consumer(copied: Copied) -> None:
    config = {"deliver_subject": copied.subject, "idle_heartbeat": SECOND // 10}
    body = {"stream_name": "OTHER", "config": config}
    assert "error" in copied.client.api("CONSUMER.CREATE.OTHER", body)
    copied.world.wait(SECOND)


def by_a_pull(copied: Copied) -> None:
    client = copied.client
    for _ in range(5):
        client.store("other.a", FORGED)
    client.consumer(copied.name, "OTHER")
    wish = json.dumps({"batch": 5, "expires": SECOND}).encode()
    client.publish(f"$JS.API.CONSUMER.MSG.NEXT.OTHER.{copied.name}", wish, copied.subject)


def by_an_answer(copied: Copied) -> None:
    for subject in ("$JS.API.INFO", "$JS.API.STREAM.INFO.S", "other.a", "$SYS.REQ.USER.INFO"):
        copied.client.publish(subject, b"", copied.subject)
    copied.client.publish("$JS.API.DIRECT.GET.S", b'{"seq":1}', copied.subject)


def by_a_backup(copied: Copied) -> None:
    wish = {"deliver_subject": copied.subject, "chunk_size": 1024}
    answer = copied.client.api("STREAM.SNAPSHOT.OTHER", wish)
    assert answer["error"]["err_code"] == 10015
    copied.world.wait(SECOND)


def by_republishing(copied: Copied) -> None:
    destination = copied.subject.rsplit(".", 1)[0] + ".>"
    copied.client.api(
        "STREAM.CREATE.R",
        {"name": "R", "subjects": ["r.>"], "republish": {"src": "r.>", "dest": destination}},
    )
    copied.client.publish("r." + copied.subject.rsplit(".", 1)[1], FORGED)


def by_a_trace(copied: Copied) -> None:
    headers = b"NATS/1.0\r\nNats-Trace-Dest: %b\r\n\r\n" % copied.subject.encode()
    copied.client.publish("other.a", FORGED, "", headers)


WAYS = (
    by_publishing,
    by_a_consumer_of_that_name,
    by_heartbeats_of_a_consumer,
    by_a_pull,
    by_an_answer,
    by_a_backup,
    by_republishing,
    by_a_trace,
)


@pytest.mark.parametrize("way", WAYS)
def test_a_source_hears_nobody_but_its_origin(copied, monkeypatch, way):
    from jetstream_server.jetstream.origins.feed import Feed

    heard: list[bytes] = []
    original = Feed._take

    def take(self: Feed, run, start, stop, now, **named):
        found = [run.payload(at) + run.headers(at) for at in range(start, stop)]
        heard.extend(each for each in found if b"Idle Heartbeat" not in each)  # the origin's
        original(self, run, start, stop, now, **named)

    monkeypatch.setattr(Feed, "_take", take)
    way(copied)
    copied.world.turn()
    assert heard == [], "it was listened to"
    assert copied.is_well() and copied.messages == 3


@pytest.mark.parametrize("subject", ["$JS.S.x", "$JS.M.x", "$JS.FC.S.C.x", "$JSC.R.x"])
def test_no_answer_goes_where_only_the_server_speaks(world, subject):
    client = world.connect()
    said = client.publish("$JS.API.INFO", b"", subject)
    assert b"Permissions Violation for Publish with Reply of" in said and client.is_well()


def test_nobody_goes_on_with_a_restore_in_its_place(world, monkeypatch):
    from jetstream_server.jetstream.snapshots.restore import Restore

    client = world.connect()
    answer = client.api("STREAM.RESTORE.R", {"config": {"name": "R"}, "state": {}})
    steps: list[int] = []
    monkeypatch.setattr(Restore, "_step", lambda self, now: steps.append(now))
    client.publish(answer["deliver_subject"] + ".flushed", b"")
    assert steps == []


class Prepared:
    """A work queue whose messages go to a mirror by a consumer that a client has made."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        from jetstream_server.jetstream.origins.feed import Feed

        # A mirror that is slow: it has not said yet that it stored anything.
        monkeypatch.setattr(Feed, "_answer_flow_control", lambda self, subject: None)
        self.world = world
        self.client = client = world.connect()
        client.say(b"SUB d 2\r\n")
        queue = {"name": "Q", "subjects": ["q.>"], "retention": "workqueue"}
        client.api("STREAM.CREATE.Q", queue)
        config = {"durable_name": "D", "ack_policy": "flow_control", "deliver_subject": "d"}
        client.api("CONSUMER.CREATE.Q.D", {"stream_name": "Q", "config": config})

    def be_mirrored(self) -> None:
        """Have a mirror read it."""
        mirror = {"name": "Q", "consumer": {"name": "D", "deliver_subject": "d"}}
        self.client.api("STREAM.CREATE.M", {"name": "M", "mirror": mirror})
        self.world.wait(SECOND)

    def deliver(self) -> bytes:
        """Store a message; return what the consumer says until it asks how far that came."""
        said = self.client.publish("q.a", b"1") + b"".join(self._pass() for _ in range(3))
        assert b"FlowControl Request" in said
        return said

    def _pass(self) -> bytes:
        self.world.wait(SECOND)
        return self.client.read()

    def answer(self, said: bytes) -> None:
        """Say, as a client, that everything was stored."""
        question = next(word for word in said.split() if word.startswith(b"$JS.FC."))
        self.client.publish(question.decode(), b"", "", b"NATS/1.0\r\nNats-Last-Stream: 9\r\n\r\n")
        self.world.turn()

    @property
    def messages(self) -> int:
        return int(self.client.api("STREAM.INFO.Q")["state"]["messages"])


@pytest.fixture
def prepared(world, monkeypatch):
    return Prepared(world, monkeypatch)


def test_a_client_answers_for_itself(prepared):
    said = prepared.deliver()
    prepared.answer(said)
    assert prepared.messages == 0


def test_a_client_does_not_answer_for_a_mirror_by_a_prepared_consumer(prepared):
    prepared.be_mirrored()
    said = prepared.deliver()
    prepared.answer(said)
    assert prepared.messages == 1


def test_a_client_answers_for_itself_once_the_mirror_is_gone(prepared):
    client = prepared.client
    prepared.be_mirrored()
    client.api("STREAM.DELETE.M")
    client.say(b"UNSUB 2\r\n")
    prepared.world.wait(SECOND)
    client.say(b"SUB d 3\r\n")
    said = prepared.deliver()
    prepared.answer(said)
    assert prepared.messages == 0


def test_a_client_that_has_it_start_over_answers_for_itself(prepared):
    prepared.be_mirrored()
    prepared.client.api("STREAM.DELETE.M")
    prepared.client.api("CONSUMER.RESET.Q.D")
    said = prepared.deliver()
    prepared.answer(said)
    assert prepared.messages == 0


def test_what_is_acknowledged_by_flow_control_hears_no_other_acks(prepared):
    said = prepared.deliver()
    ack = next(word for word in said.split() if word.startswith(b"$JS.ACK."))
    assert b" 503" in prepared.client.publish(ack.decode(), b"+ACK", "_INBOX.a")
    assert prepared.messages == 1
