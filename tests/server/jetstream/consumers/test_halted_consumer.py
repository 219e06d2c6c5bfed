"""A consumer that trips is stopped alone, and restarted from what is stored of it."""

from __future__ import annotations

import json
import re

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.core import pattern_tree
from jetstream_server.core.pattern_tree import PatternTree
from jetstream_server.jetstream.consumers import consumer_creation
from jetstream_server.jetstream.consumers.ack import Acks
from jetstream_server.jetstream.consumers.consumer import Consumer
from jetstream_server.jetstream.consumers.progress.progress import Progress
from jetstream_server.jetstream.consumers.pull import Pull
from jetstream_server.jetstream.consumers.push import Push
from jetstream_server.store.disk.state_log import StateLog

from tests.contained import World
from tests.planted import plant


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


@pytest.fixture
def client(world):
    client = world.connect()
    client.stream()
    client.consumer()
    client.consumer("D")
    for number in range(3):
        client.store("s.a", b"%d" % number)
    return client


def acks(said):
    """Return the ack subjects of the messages that came."""
    return [each.decode() for each in re.findall(rb" (\$JS\.ACK\.\S+) ", said)]


def of(name):
    return lambda self, *given, **named: getattr(self, "_shared", self).name == name


def stopped(client, name="C"):
    """Return why a consumer is stopped, as CONSUMER.INFO tells."""
    answer = client.api(f"CONSUMER.INFO.S.{name}")
    if "error" not in answer:
        return ""
    assert answer["error"]["err_code"] == 10195
    return answer["error"]["description"]


PLACES = {
    "its turn": (Consumer, "advance"),
    "its timer": (Consumer, "tick"),
    "a pull": (Pull, "receive"),
    "an ack": (Acks, "receive"),
    "a message": (Consumer, "stored"),
}


@pytest.mark.parametrize("place", PLACES)
def test_it_goes_alone_and_comes_back(world, client, monkeypatch, place):
    (first,) = acks(client.pull())
    with monkeypatch.context() as patched:
        plant(patched, *PLACES[place], of("C"))
        client.publish(first, b"", "_INBOX.ack")
        client.pull(batch=5)
        client.pull()  # waits
        assert client.store("s.a") == 4  # the stream goes on
        for _ in range(200):
            if stopped(client):
                break
            world.wait(SECOND // 5)  # until its timer
        assert "consumer is offline: internal server error (incident " in stopped(client)
        assert acks(client.pull("D", batch=2)) and client.is_well()  # and so do other readers
        (ailment,) = world.health()
        assert (ailment["type"], ailment["consumer"]) == ("CONSUMER", "C")
        assert world.counted().keys() == {"consumer"}
        assert client.api("CONSUMER.NAMES.S")["consumers"] == ["C", "D"]
        listing = client.api("CONSUMER.LIST.S")
        assert [each["name"] for each in listing["consumers"]] == ["D"]
        assert listing["missing"] == ["C"] and "incident" in listing["offline"]["C"]
    world.wait(6 * 60 * SECOND)
    assert stopped(client) == "" and world.health() == []
    assert client.api("CONSUMER.INFO.S.C")["ack_floor"]["stream_seq"] <= 1
    client.read()
    assert len(acks(client.pull(batch=9))) >= 3


def test_who_waits_is_told_when_it_is_back(world, client, monkeypatch):
    client.pull(batch=9)  # all there is
    client.pull()  # waits
    with monkeypatch.context() as patched:
        plant(patched, Consumer, "advance", of("C"))
        said = client.say(b"PUB s.a 1\r\nx\r\n")
        assert b"409 Leadership Change" in said  # it was waiting
        assert b"409" not in client.pull()  # waits for the restart
    world.wait(2 * SECOND)
    assert b"409 Leadership Change" in client.read()
    assert len(acks(client.pull(batch=9))) >= 1


def test_more_than_so_many_are_not_kept_waiting(world, client, monkeypatch):
    from jetstream_server.jetstream.consumers import halted_consumer

    monkeypatch.setattr(halted_consumer, "_WAITING_MAX", 1)
    plant(monkeypatch, Pull, "advance", of("C"))
    client.pull()
    assert b"409" not in client.pull() and b"409 Leadership Change" in client.pull()


def test_an_answered_ack_is_never_forgotten(world, client, monkeypatch):
    """What trips behind an ack, in the same turn, takes the answer back or leaves it saved."""
    one, *_ = acks(client.pull(batch=2))
    world.wait(SECOND)  # that it was delivered is saved
    plant(monkeypatch, Pull, "advance", of("C"))
    pull = "PUB $JS.API.CONSUMER.MSG.NEXT.S.C _INBOX.p 0\r\n\r\n"
    said = client.say(f"PUB {one} _INBOX.one 0\r\n\r\n{pull}".encode())
    monkeypatch.undo()
    world.wait(2 * SECOND)
    floor = client.api("CONSUMER.INFO.S.C")["ack_floor"]["stream_seq"]
    assert b"_INBOX.one" not in said and floor == 0
    # One whose answer has left is saved, whatever trips later, and though the process ends.
    assert b"_INBOX.two" in client.publish(one, b"", "_INBOX.two")
    with monkeypatch.context() as patched:
        plant(patched, Pull, "receive", of("C"))
        client.pull()
    world.start()
    assert world.connect().api("CONSUMER.INFO.S.C")["ack_floor"]["stream_seq"] == 1


def test_interest_keeps_what_it_has_yet_to_read(world, client, monkeypatch):
    client.stream("I", retention="interest")
    client.consumer("a", "I")
    client.consumer("b", "I")
    with monkeypatch.context() as patched:
        plant(patched, Consumer, "advance", of("a"))
        assert client.store("i.a") == 1
        client.pull("a", "I")
        (mine,) = acks(client.pull("b", "I"))
        client.publish(mine, b"")
        assert client.store("i.a") == 2
        assert client.api("STREAM.INFO.I")["state"]["messages"] == 2
    world.wait(2 * SECOND)
    assert len(acks(client.pull("a", "I", batch=5))) == 2
    state = client.api("STREAM.INFO.I")["state"]
    assert state["messages"] == 2 and state["consumer_count"] == 2


def test_a_stopped_one_can_be_removed_and_made_anew(world, client, monkeypatch):
    plant(monkeypatch, Consumer, "advance", of("C"))
    client.pull()
    config = {"durable_name": "C", "ack_policy": "explicit"}
    body = {"stream_name": "S", "config": config}
    assert client.api("CONSUMER.CREATE.S.C", body)["error"]["err_code"] == 10195
    assert client.api("CONSUMER.DELETE.S.C")["success"]
    assert client.api("CONSUMER.INFO.S.C")["error"]["err_code"] == 10014 and world.health() == []
    monkeypatch.undo()
    client.consumer()
    world.wait(5 * SECOND)
    assert len(acks(client.pull(batch=9))) == 3
    world.start()
    assert world.connect().api("CONSUMER.NAMES.S")["consumers"] == ["C", "D"]


def test_a_state_that_trips_the_start_does_not_trip_the_stream(world, client, monkeypatch):
    client.pull()
    world.wait(SECOND)
    plant(monkeypatch, StateLog, "load", lambda self: "/C/" in str(self._path))
    world.start()
    client = world.connect()
    assert stopped(client) and client.store("s.a") == 4
    assert len(acks(client.pull("D", batch=9))) == 4
    world.wait(3 * SECOND)
    assert stopped(client)
    monkeypatch.undo()
    world.wait(60 * SECOND)
    assert not stopped(client) and len(acks(client.pull(batch=9))) >= 3


def test_one_in_memory_goes_on_behind_what_is_acknowledged(world, client, monkeypatch):
    client.consumer("M", mem_storage=True)
    one, *_ = acks(client.pull("M", batch=2))
    client.publish(one, b"")
    tripped = []
    plant(
        monkeypatch,
        Consumer,
        "tick",
        lambda self, now: self.name == "M" and not tripped and not tripped.append(1),
    )
    world.wait(40 * SECOND)
    assert tripped and not stopped(client, "M")
    client.read()
    assert [each.split(".")[5] for each in acks(client.pull("M", batch=9))] == ["2", "3"]


def test_a_push_consumer_delivers_again(world, client, monkeypatch):
    client.say(b"SUB deliver 2\r\n")
    client.consumer("P", deliver_subject="deliver", ack_wait=60 * SECOND)
    with monkeypatch.context() as patched:
        plant(patched, Push, "advance", of("P"))
        client.store("s.a", b"tripped over")
        assert stopped(client, "P")
    world.wait(2 * SECOND)
    assert b"tripped over" in client.read() and not stopped(client, "P")


def test_a_request_about_one_that_only_looks_leaves_it_alone(world, client, monkeypatch):
    plant(monkeypatch, Consumer, "info", of("C"))
    answer = client.api("CONSUMER.INFO.S.C")
    assert answer["error"]["err_code"] == 10051 and world.counted() == {"request": 1}
    assert len(acks(client.pull(batch=9))) == 3 and world.health() == []


def test_a_change_that_trips_halfway_is_undone(world, client, monkeypatch):
    with monkeypatch.context() as patched:
        plant(patched, Progress, "refilter")
        config = {"durable_name": "C", "ack_policy": "explicit", "filter_subject": "s.b"}
        answer = client.api("CONSUMER.CREATE.S.C.s.b", {"stream_name": "S", "config": config})
        assert answer["error"]["err_code"] == 10051 and stopped(client)
    world.wait(2 * SECOND)
    assert "filter_subject" not in client.api("CONSUMER.INFO.S.C")["config"]
    assert len(acks(client.pull(batch=9))) == 3


def test_one_that_trips_while_it_is_made_is_not_there(world, client, monkeypatch):
    with monkeypatch.context() as patched:
        plant(patched, Consumer, "start", of("N"))
        config = {"durable_name": "N", "ack_policy": "explicit"}
        answer = client.api("CONSUMER.CREATE.S.N", {"stream_name": "S", "config": config})
        assert answer["error"]["err_code"] == 10051
    assert client.api("CONSUMER.INFO.S.N")["error"]["err_code"] == 10014
    assert world.health() == []
    client.consumer("N")
    world.wait(5 * SECOND)
    assert len(acks(client.pull("N", batch=9))) == 3


def test_one_that_trips_again_and_again_is_tried_less_and_less_often(world, client, monkeypatch):
    with monkeypatch.context() as patched:
        plant(patched, Consumer, "advance", of("C"))
        plant(patched, StateLog, "load", lambda self: "/C/" in str(self._path))
        client.pull()
        counts = []
        for _ in range(3):
            world.wait(20 * SECOND)
            counts.append(world.counted()["consumer"])
        assert counts[0] <= 6 and counts[2] - counts[1] <= 1 and stopped(client)
    world.wait(6 * 60 * SECOND)
    assert not stopped(client) and len(acks(client.pull(batch=9))) == 3


@pytest.mark.parametrize("mem_storage", [False, True])
def test_very_many_filters_are_read_and_noted_in_steps(world, client, monkeypatch, mem_storage):
    """The turn in which 40,000 were restarted took 80 ms, and so did the first message before it
    for one whose filter nobody had."""
    filters = [f"s.*.{number}" for number in range(3000)]
    client.say(b"".join(b"PUB s.a.%d 0\r\n\r\n" % number for number in range(100)))
    config = {"durable_name": "F", "ack_policy": "explicit", "mem_storage": mem_storage}
    body = {"stream_name": "S", "config": config | {"filter_subjects": filters}}
    client.publish("$JS.API.CONSUMER.CREATE.S.F", json.dumps(body).encode(), "_INBOX.made")
    world.wait(SECOND)
    assert "error" not in client.api("CONSUMER.INFO.S.F")
    added, add = [0], PatternTree.add

    def counted(tree, pattern):
        added[-1] += 1
        add(tree, pattern)

    run = world.node.run
    monkeypatch.setattr(PatternTree, "add", counted)
    monkeypatch.setattr(world.node, "run", lambda now: (added.append(0), run(now)))
    with monkeypatch.context() as patched:
        plant(patched, Pull, "receive", of("F"))
        client.pull("F")
        assert stopped(client, "F")
    assert client.store("s.b.2999") and not sum(added)
    world.wait(5 * SECOND)
    assert not stopped(client, "F")
    # There are three tokens in each.
    assert sum(added) >= 3000 and max(added) <= pattern_tree.AT_ONCE // 3 + 1
    assert len(acks(client.read() + client.pull("F", batch=200))) == 101


def test_one_that_is_removed_while_it_is_restarted_stays_away(world, client, monkeypatch):
    monkeypatch.setattr(consumer_creation, "_CONFIG_AT_ONCE_MAX", 1)
    with monkeypatch.context() as patched:
        plant(patched, Pull, "receive", of("C"))
        client.pull()
    assert stopped(client)
    (halted,) = (each for each in world.catalog.outages._halted if each.name == "C")
    while halted._steps is None:
        world.now = max(world.now, world.node.next_deadline())
        world.node.run(world.now)
    assert client.api("CONSUMER.DELETE.S.C")["success"]
    world.wait(10 * SECOND)
    assert client.api("CONSUMER.NAMES.S")["consumers"] == ["D"] and world.health() == []


def test_what_leaves_while_it_is_restarted_is_not_pending(world, client, monkeypatch):
    monkeypatch.setattr(consumer_creation, "_TAKEN_BACK_AT_ONCE", 1)
    client.stream("W", retention="workqueue")
    client.consumer("w", "W")
    for number in range(4):
        client.store("w.a", b"%d" % number)
    assert len(acks(client.pull("w", "W", batch=3))) == 3
    world.wait(SECOND)
    with monkeypatch.context() as patched:
        plant(patched, Pull, "receive", of("w"))
        client.pull("w", "W")
    (halted,) = world.catalog.outages._halted
    while halted._steps is None:
        world.now = max(world.now, world.node.next_deadline())
        world.node.run(world.now)
    stream = world.catalog.stream("W")
    stream.delete_message(2, False, world.now)
    assert stream.consumers["w"] is halted
    world.wait(SECOND)
    assert stream.consumers["w"] is not halted
    info = client.api("CONSUMER.INFO.W.w")
    assert (info["num_ack_pending"], info["num_pending"]) == (2, 1)
