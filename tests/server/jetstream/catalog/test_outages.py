"""Streams and sources that trip go alone, and come back with all that was acknowledged."""

from __future__ import annotations

import re
from random import Random

import pytest
from jetstream_server.base.clock import MINUTE, SECOND
from jetstream_server.core.transform import Transform
from jetstream_server.jetstream.catalog import unopened
from jetstream_server.jetstream.consumers.ack import Acks
from jetstream_server.jetstream.consumers.consumer import Consumer
from jetstream_server.jetstream.consumers.progress.progress import Progress
from jetstream_server.jetstream.consumers.pull import Pull
from jetstream_server.jetstream.origins.source import Source
from jetstream_server.jetstream.stream import Stream
from jetstream_server.jetstream.streams.batches.atomic_batch import AtomicBatches
from jetstream_server.jetstream.streams.contents import Contents
from jetstream_server.jetstream.streams.removal.removal import Removal
from jetstream_server.jetstream.streams.schedules.schedule import Schedules
from jetstream_server.jetstream.streams.storing.run_storing import RunStoring
from jetstream_server.store.file import FileStore
from jetstream_server.store.vault import UNOPENED_NAME

from tests.contained import World
from tests.planted import PlantedError, plant

# Each message is looked at by itself, as the config asks for a decision.

EACH_DECIDED = {"republish": {"src": "none.>", "dest": "gone.>"}}
ID = b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n"


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


@pytest.fixture
def client(world):
    client = world.connect()
    client.stream(**EACH_DECIDED)
    client.stream("W")
    return client


def offline(client, name="S"):
    """Return why a stream is offline, as STREAM.INFO tells."""
    answer = client.api(f"STREAM.INFO.{name}")
    if "error" not in answer:
        return ""
    assert answer["error"]["err_code"] == 10194
    return answer["error"]["description"]


def has_poison(self, message, *given, **named):
    return message.payload == b"poison"


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_a_stream_half_changed_is_offline_and_comes_back_with_all_of_it(
    world, monkeypatch, storage
):
    client = world.connect()
    client.stream(storage=storage, **EACH_DECIDED)
    client.stream("W", storage=storage)
    client.consumer()
    assert [client.store("s.a", b"%d" % n, ID % b"%d" % n) for n in range(3)] == [1, 2, 3]
    plant(monkeypatch, Contents, "_note_stored", has_poison)
    assert client.store("s.a", b"poison", ID % b"p") == 0
    assert re.fullmatch(
        r"stream is offline: internal server error \(incident 1 in the server's log\)",
        offline(client),
    )
    assert client.store("s.a", b"x") == 0
    assert client.store("w.a", b"x") == 1  # the others go on
    (ailment,) = world.health()
    assert ailment["type"] == "STREAM" and ailment["stream"] == "S"
    assert world.counted() == {"stream": 1}
    world.wait(2 * SECOND)
    assert offline(client) == "" and world.health() == []
    state = client.api("STREAM.INFO.S")["state"]
    assert state["messages"] in (3, 4) and state["consumer_count"] == 1
    answer = client.ask("s.a", b"1", ID % b"1")
    assert answer["duplicate"] and answer["seq"] == 2  # what it knew of ids, it knows again
    assert client.store("s.a", b"next") == state["last_seq"] + 1
    assert client.pull(batch=9).count(b" $JS.ACK.S.C.") == state["messages"] + 1


def test_the_same_input_twice_stays_offline(world, client, monkeypatch):
    plant(monkeypatch, Contents, "_note_stored", has_poison)
    client.publish("s.a", b"poison")
    world.wait(2 * SECOND)
    assert offline(client) == ""
    client.publish("s.a", b"poison")
    world.wait(60 * MINUTE)
    assert offline(client).endswith("for the same input as before, so it stays offline")
    assert world.health() and client.store("w.a") == 1
    # It can still be removed, and made anew.
    assert client.api("STREAM.DELETE.S") == {
        "type": "io.nats.jetstream.api.v1.stream_delete_response",
        "success": True,
    }
    client.stream()
    assert client.store("s.a") == 1 and world.health() == []


def test_other_input_at_the_same_place_has_it_back_later_and_later(world, client, monkeypatch):
    has_p = lambda self, message, *given: b"p" in message.payload  # noqa: E731
    plant(monkeypatch, Contents, "_note_stored", has_p)
    pauses = []
    for number in range(4):
        client.publish("s.a", b"p%d" % number, headers=ID % b"p%d" % number)
        began = world.now
        while offline(client):
            world.wait(SECOND // 2)
        pauses.append((world.now - began) / SECOND)
    assert pauses == sorted(pauses) and pauses[0] <= 1.5 and pauses[-1] >= 8


def test_nobody_takes_its_subjects_meanwhile(world, client, monkeypatch):
    plant(monkeypatch, Contents, "_note_stored", has_poison)
    client.publish("s.a", b"poison", headers=ID % b"p")
    answer = client.api("STREAM.CREATE.T", {"name": "T", "subjects": ["s.a"]})
    assert answer["error"]["err_code"] == 10065
    assert client.api("STREAM.UPDATE.S", {"name": "S"})["error"]["err_code"] == 10194


def test_a_message_that_only_trips_the_checks_is_refused(world, client, monkeypatch):
    plant(monkeypatch, Contents, "renamed", lambda self, subject: subject == b"s.poison")
    answer = client.ask("s.poison", b"x", b"NATS/1.0\r\nNats-Expected-Stream: S\r\n\r\n")
    assert answer["error"] == {
        "code": 500,
        "err_code": 10051,
        "description": "internal server error (incident 1 in the server's log)",
    }
    assert world.counted() == {"message": 1} and client.store("s.a") == 1
    assert world.health() == []


def test_a_timer_that_trips(world, client, monkeypatch):
    client.stream("A", max_age=SECOND)
    client.store("a.a")
    tripped = []

    def once(self, now):
        if self.name == "A" and not tripped:
            tripped.append(now)
            return True
        return False

    plant(monkeypatch, Contents, "expire", once)
    world.wait(SECOND + SECOND // 2)
    assert offline(client, "A") and client.store("s.a") == 1
    world.wait(2 * SECOND)
    assert client.api("STREAM.INFO.A")["state"]["messages"] == 0  # it goes on where it was


def test_a_stored_message_that_trips_the_start_does_not_trip_the_others(world, client, monkeypatch):
    client.store("s.a", b"poison")
    client.store("w.a", b"x")
    plant(monkeypatch, Stream, "_recover", lambda self, now: self.name == "S")
    world.start()
    client = world.connect()
    assert offline(client) and client.store("w.a") == 2
    world.wait(10 * MINUTE)
    assert offline(client).endswith("stays offline")  # tried once more, and then no more
    assert world.containment.total == 2
    for start in range(2):  # nor does it trip any other start
        world.start()
        client = world.connect()
        world.wait(10 * MINUTE)
        assert "has tripped over it before" in offline(client)
        assert client.store("w.a") == start + 3 and world.containment.total == 0
        assert any("'unopened.json'" in text for level, text in world.log if level == "ERR")
        assert len(world.health()) == 1
    monkeypatch.undo()


def trip_two_starts(world, monkeypatch):
    """Have a stream trip whoever opens it, and then no more."""
    with monkeypatch.context() as patched:
        plant(patched, Stream, "_recover", lambda self, now: self.name == "S")
        for _ in range(2):
            world.start()
            world.wait(MINUTE)


@pytest.mark.parametrize("remedy", ["another version", "the file is removed"])
def test_a_stream_that_tripped_the_start_is_tried_again_with(
    world, client, monkeypatch, tmp_path, remedy
):
    client.store("s.a", b"poison")
    trip_two_starts(world, monkeypatch)
    if remedy == "another version":
        monkeypatch.setattr(unopened, "VERSION", "99.0.0")
    else:
        [file] = tmp_path.rglob(UNOPENED_NAME)
        file.unlink()
    world.start()
    client = world.connect()
    assert client.api("STREAM.INFO.S")["state"]["messages"] == 1 and world.health() == []
    monkeypatch.undo()
    world.wait(SECOND)
    world.start()  # it is not remembered any longer
    client = world.connect()
    assert client.api("STREAM.INFO.S")["state"]["messages"] == 1


def test_a_stream_that_trips_the_start_can_be_removed(world, client, monkeypatch):
    client.store("s.a", b"poison")
    trip_two_starts(world, monkeypatch)
    client = world.connect()
    assert client.api("STREAM.DELETE.S")["success"]
    client.stream("S")
    assert client.store("s.a") == 1
    world.start()
    client = world.connect()
    assert client.api("STREAM.INFO.S")["state"]["messages"] == 1 and world.health() == []


def test_a_stored_message_that_trips_what_reads_them_at_the_start_is_left_out(
    world, client, monkeypatch
):
    from jetstream_server.jetstream.streams.removal import expiry
    from jetstream_server.jetstream.streams.schedules import schedule

    client.stream("D", allow_msg_schedules=True, allow_msg_ttl=True)
    planned = b"NATS/1.0\r\nNats-Schedule: @every %bs\r\nNats-Schedule-Target: d.to.%b\r\n\r\n"
    for name, seconds in ((b"bad", b"13"), (b"good", b"14")):
        client.store("d.ttl", b"", b"NATS/1.0\r\nNats-TTL: %bs\r\n\r\n" % seconds)
        client.store(f"d.{name.decode()}", b"", planned % (seconds, name))
    for module, reader in ((expiry, "parse_ttl"), (schedule, "special_headers")):
        function = getattr(module, reader)

        def tripping(value, function=function):
            if b"13s" in value:
                raise PlantedError
            return function(value)

        monkeypatch.setattr(module, reader, tripping)
    for _ in range(2):
        world.start()
        assert world.counted() == {"message": 2}
        client = world.connect()
        assert not offline(client, "D") and client.store("d.x") > 4
    world.wait(20 * SECOND)
    subjects = client.api("STREAM.INFO.D", {"subjects_filter": ">"})["state"]["subjects"]
    assert subjects == {"d.ttl": 1, "d.bad": 1, "d.good": 1, "d.to.good": 1, "d.x": 2}


def test_a_copy_that_cannot_be_made_is_left_out(world, client, monkeypatch):
    client.stream("R", republish={"src": ">", "dest": "copy.>"})
    client.say(b"SUB copy.> 2\r\n")
    plant(monkeypatch, Transform, "apply", lambda self, subject, *given: b"x" in subject)
    assert client.store("r.x") == 1 and client.store("r.y") == 2
    assert world.counted() == {"message": 1} and not offline(client, "R")


def test_a_batch_that_trips_is_forgotten_and_nothing_of_it_stored(world, client, monkeypatch):
    client.stream("B", allow_atomic=True)

    def head(number, commit=b""):
        lines = b"NATS/1.0\r\nNats-Batch-Id: b\r\nNats-Batch-Sequence: %d\r\n" % number
        return lines + (b"Nats-Batch-Commit: 1\r\n" if commit else b"") + b"\r\n"

    client.publish("b.a", b"1", "_INBOX.b1", head(1))
    with monkeypatch.context() as patched:
        plant(patched, AtomicBatches, "_joined")
        answer = client.ask("b.a", b"2", head(2))
        assert answer["error"]["err_code"] == 10051
    answer = client.ask("b.a", b"3", head(3, b"1"))
    assert "error" in answer
    assert client.api("STREAM.INFO.B")["state"]["messages"] == 0


def test_a_schedule_that_trips_is_left_out(world, client, monkeypatch):
    client.stream("D", allow_msg_schedules=True, allow_msg_ttl=True, subjects=["d.>"])
    plant(monkeypatch, Schedules, "_pop", lambda self, store, subject, now: b"bad" in subject)
    for name in ("bad", "good"):
        headers = b"NATS/1.0\r\nNats-Schedule: @every 2s\r\nNats-Schedule-Target: d.to.%b\r\n\r\n"
        assert client.store(f"d.{name}", b"x", headers % name.encode())
    world.wait(5 * SECOND)
    subjects = client.api("STREAM.INFO.D", {"subjects_filter": ">"})["state"]["subjects"]
    assert "d.to.good" in subjects and "d.to.bad" not in subjects
    assert world.counted() == {"message": 1}
    # Nor does it trip the next start more than once.
    with monkeypatch.context() as patched:
        plant(patched, Schedules, "_resume", lambda self, subject, *given: b"bad" in subject)
        world.start()
    client = world.connect()
    assert world.counted() == {"message": 1}
    assert client.api("STREAM.INFO.D")["state"]["messages"] >= 3


def test_a_source_that_trips_is_reset_and_the_stream_goes_on(world, client, monkeypatch):
    client.stream("T", subjects=["t.>"], sources=[{"name": "S"}])
    world.wait(SECOND)
    assert client.store("s.a", b"1") == 1
    world.wait(SECOND)
    with monkeypatch.context() as patched:
        plant(patched, Source, "_take_all")
        client.store("s.a", b"poison")
        (ailment,) = world.health()
        assert "copies nothing from 'S'" in ailment["error"] and ailment["stream"] == "T"
        (source,) = client.api("STREAM.INFO.T")["sources"]
        assert source["error"]["err_code"] == 10051
        assert client.store("t.a") == 2  # what is published to it is stored
        world.wait(20 * SECOND)
        counted = world.counted()
        assert counted.keys() == {"source"} and 3 <= counted["source"] <= 7  # it backs off
    world.wait(60 * SECOND)
    assert world.health() == [] and "error" not in client.api("STREAM.INFO.T")["sources"][0]
    assert client.api("STREAM.INFO.T")["state"]["messages"] == 3  # each of them once


def test_a_mirror_that_trips(world, client, monkeypatch):
    from jetstream_server.jetstream.origins.mirror import Mirror

    client.api("STREAM.CREATE.M", {"name": "M", "storage": "file", "mirror": {"name": "S"}})
    world.wait(SECOND)
    client.store("s.a", b"1")
    world.wait(SECOND)
    with monkeypatch.context() as patched:
        plant(patched, Mirror, "_plain_stop")
        client.store("s.a", b"2")
        assert world.health() and world.counted() == {"source": 1} and not offline(client, "M")
    with monkeypatch.context() as patched:
        tripped = []

        def once(self, *given):
            return self.name == "M" and not tripped and not tripped.append(1)

        plant(patched, Contents, "append_run", once)
        world.wait(20 * SECOND)
        assert tripped
    world.wait(60 * SECOND)
    assert world.health() == []
    state = client.api("STREAM.INFO.M")["state"]
    assert (state["messages"], state["last_seq"]) == (2, 2)


def test_sources_that_cannot_find_where_they_were_copy_nothing_twice(world, client, monkeypatch):
    from jetstream_server.jetstream.origins import sourcing

    client.stream("T", subjects=["t.>"], sources=[{"name": "S"}])
    world.wait(SECOND)
    for number in range(3):
        client.store("s.a", b"%d" % number)
    world.wait(SECOND)
    with monkeypatch.context() as patched:
        plant(patched, sourcing.Sourcing, "_last_positions")
        world.start()
        client = world.connect()
        world.wait(5 * SECOND)
        assert world.health() and client.store("s.a", b"3") == 4
        assert client.api("STREAM.INFO.T")["state"]["messages"] == 3
        assert client.store("t.a") == 4
    world.wait(60 * SECOND)
    assert world.health() == []
    assert client.api("STREAM.INFO.T")["state"]["messages"] == 5


def test_a_request_that_trips_is_refused_and_nothing_of_it_stays(world, client, monkeypatch):
    tripping = {"subscribe": True}
    plant(monkeypatch, Stream, "subscribe", lambda self: self.name == "N" and tripping["subscribe"])
    answer = client.api("STREAM.CREATE.N", {"name": "N", "subjects": ["n.>"]})
    assert answer["error"]["err_code"] == 10051
    assert client.api("STREAM.INFO.N")["error"]["err_code"] == 10059
    assert "N" not in client.api("STREAM.NAMES")["streams"]
    tripping["subscribe"] = False
    client.stream("N")
    assert client.store("n.a") == 1 and world.health() == []


def test_an_update_that_trips_halfway_is_undone(world, client, monkeypatch):
    client.store("s.a")
    with monkeypatch.context() as patched:
        plant(patched, Removal, "sweep")
        plant(patched, Removal, "trim")
        config = {"name": "S", "subjects": ["s.>", "more.>"], "storage": "file"}
        assert client.api("STREAM.UPDATE.S", config)["error"]["err_code"] == 10051
    assert offline(client)
    world.wait(2 * SECOND)
    assert client.api("STREAM.INFO.S")["config"]["subjects"] == ["s.>"]
    assert client.store("s.a") == 2 and client.store("more.a") == 0


def test_consumers_in_memory_are_there_again(world, client, monkeypatch):
    client.consumer("mem", mem_storage=True)
    client.store("s.a", b"1")
    plant(monkeypatch, Contents, "_note_stored", has_poison)
    client.publish("s.a", b"poison", headers=ID % b"p")
    world.wait(2 * SECOND)
    assert client.api("CONSUMER.INFO.S.mem")["name"] == "mem"
    assert b" $JS.ACK.S.mem." in client.pull("mem")


def test_acknowledged_is_acknowledged_whatever_trips_in_the_same_turn(world, client, monkeypatch):
    """The ack of a message leaves with what was queued for it, though the stream goes offline."""
    plant(monkeypatch, Contents, "_note_stored", has_poison)
    poison = ID % b"p"
    said = client.say(
        b"PUB s.a _INBOX.one 1\r\nx\r\n"
        + b"HPUB s.a _INBOX.two %d %d\r\n%bpoison\r\n" % (len(poison), len(poison) + 6, poison)
        + b"PUB s.a _INBOX.three 1\r\nx\r\n"
    )
    assert b"_INBOX.one" in said and b'"seq":1' in said
    assert b"_INBOX.two" not in said
    world.start()  # without another flush
    assert world.connect().api("STREAM.INFO.S")["state"]["messages"] >= 1


TRIPS = [
    (Contents, "_note_stored"),
    (Contents, "after_storing"),
    (Contents, "append"),
    (RunStoring, "store"),
    (Removal, "settle"),
    (Stream, "tick"),
    (Consumer, "advance"),
    (Consumer, "tick"),
    (Consumer, "stored"),
    (Consumer, "settle"),
    (Acks, "receive"),
    (Acks, "_acked"),
    (Pull, "receive"),
    (Progress, "deliver"),
    (Progress, "ack"),
    (FileStore, "append_run"),
    (FileStore, "append"),
    (FileStore, "delete"),
]


@pytest.mark.parametrize("retention", ["limits", "workqueue", "interest"])
@pytest.mark.parametrize("seed", range(8))
def test_nothing_acknowledged_is_lost_whatever_trips_when(tmp_path, monkeypatch, seed, retention):
    """Publishes and acks that were answered hold, through incidents and a crash; the rest comes
    again until it is acknowledged."""
    random = Random(f"{seed} {retention}")
    world = World(tmp_path)
    client = world.connect()
    client.stream(retention=retention, **(EACH_DECIDED if seed % 2 else {}))
    client.consumer(ack_wait=2 * SECOND)
    armed = [False]

    def is_due(self, *given, **named):
        if not armed[0] or random.random() > 0.3:
            return False
        armed[0] = False
        return True

    for owner, name in TRIPS:
        plant(monkeypatch, owner, name, is_due)
    incidents = 0
    stored, asked, done = set(), set(), set()
    for number in range(60):
        armed[0] = random.random() < 0.25
        if random.random() < 0.6:
            if client.store("s.a", b"m%d." % number):
                stored.add(number)
        else:
            said = client.pull(batch=3, expires_s=1)
            came = re.findall(rb" (\$JS\.ACK\.S\.C\S+) \d+\r\nm(\d+)\.", said)
            # Some may have come twice by now, and are acknowledged once.
            for payload, ack in {payload: ack for ack, payload in came}.items():
                armed[0] = random.random() < 0.25
                asked.add(int(payload))  # which may hold although it is not answered
                answer = b"\n" + client.publish(ack.decode(), b"", "_INBOX.ok")
                if b"\nMSG _INBOX.ok 1 0\r\n" in answer:  # and not 503, with headers
                    assert int(payload) not in done, "came again after its answered ack"
                    done.add(int(payload))
        if random.random() < 0.2:
            world.wait(random.randrange(4) * SECOND)
        if random.random() < 0.03:
            armed[0] = False
            incidents += world.containment.total
            world.start()  # as after the process was killed
            client = world.connect()
    armed[0] = False
    for _ in range(300):
        world.wait(SECOND)
        if not world.health() or any("stays offline" in each["error"] for each in world.health()):
            break
    assert incidents + world.containment.total
    world.start()
    client = world.connect()
    left = set()
    for _ in range(40):
        said = client.pull(batch=100, expires_s=1)
        for ack, payload in re.findall(rb" (\$JS\.ACK\.S\.C\S+) \d+\r\nm(\d+)\.", said):
            left.add(int(payload))
            client.publish(ack.decode(), b"", "_INBOX.ok")
        world.wait(3 * SECOND)
    assert stored - asked <= left, "acknowledged to the publisher, and gone"
    assert not done & left, "came again after its answered ack"
