"""The consumer that holds what a query has not committed, on the genuine server."""

from __future__ import annotations

import pytest

from jetstream_spark.client.blocking import Blocking
from jetstream_spark.embedded import JetStreamServer
from jetstream_spark.errors import (
    ConsumerDeletedError,
    MessagesAcknowledgedError,
    RetentionRefusedError,
)
from jetstream_spark.options.offsets import StreamOffset
from jetstream_spark.source.anchor import Anchor
from tests.ports import free_port

pytestmark = pytest.mark.genuine


@pytest.fixture
def interest(genuine, make_stream):
    return make_stream(genuine.url, retention="interest")


def at(sequence: int) -> StreamOffset:
    return StreamOffset("t", sequence)


def publish(stream, count: int, token: str = "a") -> None:
    for i in range(count):
        stream.control.request_message(f"{stream.subject}.{token}", b"%d" % i)


def test_it_holds_and_lets_go(interest):
    anchor = Blocking(Anchor(interest.control.inner, interest.name, "query"))
    anchor.check_server()
    anchor.hold(at(1))
    publish(interest, 10)
    assert interest.count == 10
    anchor.acknowledge(at(5))
    assert interest.control.stream_state(interest.name).first == 5
    anchor.acknowledge(at(5))
    anchor.acknowledge(at(11))
    assert interest.count == 0
    anchor.hold(at(11))


def test_it_never_goes_back(interest):
    anchor = Blocking(Anchor(interest.control.inner, interest.name, "query"))
    anchor.hold(at(1))
    publish(interest, 10)
    anchor.acknowledge(at(8))
    assert isinstance(anchor.find(at(5)), MessagesAcknowledgedError)
    for call in (anchor.acknowledge, anchor.hold):
        with pytest.raises(MessagesAcknowledgedError, match=r"up to sequence 7.* stands at 5"):
            call(at(5))
    assert interest.count == 3


def test_one_that_is_gone(interest):
    anchor = Blocking(Anchor(interest.control.inner, interest.name, "query"))
    assert isinstance(anchor.find(at(3)), ConsumerDeletedError)
    with pytest.raises(ConsumerDeletedError, match=r"'query' .* from sequence 3 on"):
        anchor.acknowledge(at(3))
    anchor.hold_again(at(3))
    assert anchor.find(at(3)) is None


@pytest.mark.parametrize("call", ["hold", "hold_again"])
def test_it_is_made_where_the_query_stands(interest, call):
    config = {"name": "other", "durable_name": "other", "ack_policy": "explicit"}
    interest.control.create_consumer(interest.name, config)
    publish(interest, 5)
    created = interest.control.stream_state(interest.name).created
    anchor = Blocking(Anchor(interest.control.inner, interest.name, "query"))
    getattr(anchor, call)(StreamOffset(created, 4))
    assert anchor.find(at(4)) is None
    assert isinstance(anchor.find(at(3)), MessagesAcknowledgedError)


@pytest.mark.parametrize("call", ["hold", "hold_again"])
def test_a_stream_made_anew_meanwhile_is_held_from_its_first_message_on(interest, call):
    anchor = Blocking(Anchor(interest.control.inner, interest.name, "query"))
    getattr(anchor, call)(StreamOffset("before it was made anew", 5))
    publish(interest, 3)
    assert anchor.find(at(1)) is None
    assert interest.count == 3


def test_consumers_of_others_are_left_alone(interest):
    config = {"name": "worker", "durable_name": "worker", "ack_policy": "explicit"}
    interest.control.create_consumer(interest.name, config)
    with pytest.raises(RetentionRefusedError, match="was not made by this connector"):
        Blocking(Anchor(interest.control.inner, interest.name, "worker")).hold(at(1))
    one = Blocking(
        Anchor(interest.control.inner, interest.name, "query", (f"{interest.subject}.a",))
    )
    one.hold(at(1))
    other = Blocking(
        Anchor(interest.control.inner, interest.name, "query", (f"{interest.subject}.b",))
    )
    with pytest.raises(RetentionRefusedError, match=r"holds the subjects .*\.a"):
        other.hold(at(1))


def test_a_filter_holds_nothing_else(interest):
    subjects = f"{interest.subject}.a", f"{interest.subject}.b"
    anchor = Blocking(Anchor(interest.control.inner, interest.name, "query", subjects))
    anchor.hold(at(1))
    for token in "abc":
        publish(interest, 2, token)
    assert interest.count == 4


def test_an_older_server(interest, monkeypatch):
    anchor = Blocking(Anchor(interest.control.inner, interest.name, "query"))

    def info(_operation):
        yield from ()
        return {"api": {"level": 1}}

    monkeypatch.setattr(interest.control.inner, "request", info)
    with pytest.raises(RetentionRefusedError, match=r"needs nats-server 2\.14"):
        anchor.check_server()


@pytest.fixture(params=["genuine", "bundled"])
def restarted(request, start_genuine, tmp_path):
    """A server, and how to restart it on the same address."""
    if request.param == "genuine":
        server = start_genuine()
        yield server.url, lambda: (server.kill(), server.start())
        return
    with JetStreamServer(tmp_path, free_port()) as server:
        port = int(server.url.rpartition(":")[2])

        def restart() -> None:
            server.stop()
            again.append(JetStreamServer(tmp_path, port).start())

        again: list[JetStreamServer] = []
        yield server.url, restart
        for each in again:
            each.stop()


def test_messages_of_other_subjects_and_a_restart_acknowledge_nothing(restarted, make_stream):
    """They leave a stream with interest at once, and its beginning moves."""
    url, restart = restarted
    stream = make_stream(url, retention="interest")
    subjects = (f"{stream.subject}.a",)
    anchor = Blocking(Anchor(stream.control.inner, stream.name, "query", subjects))
    anchor.hold(at(1))
    publish(stream, 3, "b")
    restart()
    assert anchor.find(at(1)) is None
    publish(stream, 2)
    anchor.acknowledge(at(5))
    assert stream.count == 1
