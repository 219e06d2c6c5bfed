"""An outage is waited out: no new data, a reason in the progress, an error only at its limit."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from jetstream_spark.client import blocking
from jetstream_spark.client.blocking import Blocking, BlockingHost, run, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.client.operation import Operation, Pause, Transfer
from jetstream_spark.embedded import JetStreamServer
from jetstream_spark.errors import (
    ConnectionFailedError,
    MessagesAcknowledgedError,
    OffsetsError,
    RetentionRefusedError,
    RetryableError,
    StreamDeletedError,
    StreamNotFoundError,
    StreamRecreatedError,
    StreamRestoredError,
)
from jetstream_spark.options.format_options import SourceOptions
from jetstream_spark.options.offsets import Offsets, StreamOffset, Tasks
from jetstream_spark.source import stream_watch
from jetstream_spark.source.anchor import Anchor
from jetstream_spark.source.outage import DriverOutage
from jetstream_spark.source.planner import plan_ranges
from jetstream_spark.source.stream_source import StreamSource
from jetstream_spark.source.stream_watch import StreamWatch
from tests.connector.batches import sequences_between
from tests.connector.snapshots import restore, take_snapshot
from tests.ports import free_port

pytestmark = pytest.mark.genuine


class Clock(BlockingHost):
    """A host whose clock is put forward by the test, and by whoever waits."""

    ahead_s = 0.0

    def now(self) -> float:
        return time.monotonic() + self.ahead_s

    def sleep(self, seconds: float) -> None:
        self.ahead_s += seconds


@pytest.fixture
def outage(start_genuine, make_stream, monkeypatch):
    """A query whose server was killed: the clock, the source, its position, the server."""
    server = start_genuine()
    stream = make_stream(server.url)
    stream.control.request_message(f"{stream.subject}.a", b"1")
    options = {"servers": server.url, "stream": stream.name, "commitMode": "purge"}
    options |= {"startingOffsets": "earliest", "pollInterval": "1ms", "connectTimeout": "500ms"}
    clock = Clock()
    its_time = SimpleNamespace(monotonic=clock.now, sleep=clock.sleep, time_ns=time.time_ns)
    monkeypatch.setattr(blocking, "time", its_time)
    source = Blocking(StreamSource(clock, SourceOptions.parse(options)))
    start = source.initial_offset()
    at = source.latest_offset(start)
    assert at.streams[stream.name].next == 2
    server.kill()
    clock.ahead_s += 1
    return clock, source, at, server


def test_it_is_a_pause_and_says_what_it_waits_for(outage):
    clock, source, at, server = outage
    for _ in range(3):
        assert source.latest_offset(at) == at
        source.commit(at)
        clock.ahead_s += 10
    report = source.report()
    assert "could be reached" in report["waitingFor"]
    assert 20 <= report["waitingSeconds"] <= 40
    server.start()
    assert source.latest_offset(at) == at
    assert "waitingFor" not in source.report()
    # What was committed meanwhile is told now.
    (stream,) = at.streams
    state = run(source.inner._watch.control.stream_state(stream))
    assert (state.first, state.messages) == (2, 0)


def test_it_ends_the_query_at_its_limit(outage):
    clock, source, at, _ = outage
    assert source.latest_offset(at) == at
    clock.ahead_s += 301
    with pytest.raises(ConnectionFailedError):
        source.latest_offset(at)


def test_while_it_pauses_nobody_is_asked(outage):
    clock, source, at, _ = outage
    assert source.latest_offset(at) == at
    source.inner._outage._quiet_until = clock.now() + 2
    source.inner._watch.control.request = None  # whoever asks now fails
    assert source.latest_offset(at) == at
    clock.ahead_s += 3
    with pytest.raises(TypeError):
        source.latest_offset(at)


class Away(BlockingHost):
    """A host that reaches no server, on a clock of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 100.0
        self.tries: list[float] = []

    def now(self) -> float:
        return self.time

    def outcome(self, operation: Operation[Any]) -> Any:
        try:
            effect = next(operation)
            while True:
                if isinstance(effect, Pause):
                    self.time = max(self.time, effect.until)
                    effect = next(operation)
                else:
                    self.tries.append(self.time)
                    effect = operation.throw(ConnectionRefusedError())
        except StopIteration as end:
            return end.value


def test_spark_that_asks_again_at_once_is_answered_about_once_a_second():
    away = Away()
    options = {"servers": "nats://localhost:1", "stream": "S", "outageTimeout": "60s"}
    source = StreamSource(away, SourceOptions.parse(options))
    at = Offsets({"S": StreamOffset("t", 5)})
    answered = [away.time]
    with pytest.raises(ConnectionFailedError):
        while True:
            assert away.outcome(source.latest_offset(at)) == at
            answered.append(away.time)
            away.time += 0.01  # Spark's own pause
    assert 60 <= away.time - answered[0] <= 62
    assert len(answered) < 120
    assert max(after - before for before, after in pairwise(answered)) < 1.1
    # A server that comes back is found as soon as before.
    assert max(after - before for before, after in pairwise(away.tries)) < 2.1


def test_a_run_with_available_now_does_not_end_because_of_an_outage(outage, monkeypatch):
    _, source, at, server = outage
    (name,) = at.streams
    server.start()
    other = Control(this_host(), source.inner.options.connection, "test")
    run(other.request_message(f"{name.lower()}.a", b"2"))
    source.freeze()
    server.kill()
    note = DriverOutage.note

    def note_and_start(outage: DriverOutage, error: RetryableError) -> None:
        note(outage, error)
        server.start()

    monkeypatch.setattr(DriverOutage, "note", note_and_start)
    # To answer with the same position again would be to say that all is read.
    assert source.latest_offset(at).streams[name].next == 3


def test_a_new_query_is_told_soon(start_genuine, make_stream):
    server = start_genuine()
    stream = make_stream(server.url)
    server.kill()
    options = {"servers": server.url, "stream": stream.name, "requestTimeout": "300ms"}
    source = Blocking(StreamSource(BlockingHost(), SourceOptions.parse(options)))
    with pytest.raises(ConnectionFailedError):
        source.initial_offset()


def test_an_offset_of_other_streams_is_refused():
    options = SourceOptions.parse({"servers": "nats://h:1", "stream": "S"})
    source = Blocking(StreamSource(BlockingHost(), options))
    with pytest.raises(ValueError, match="Restore the option"):
        source.latest_offset(Offsets({"OTHER": StreamOffset("t", 1)}))


@pytest.fixture(scope="module")
def bundled(tmp_path_factory):
    with JetStreamServer(tmp_path_factory.mktemp("bundled"), free_port()) as server:
        yield server


@pytest.fixture(params=["genuine", "bundled"])
def anywhere(request, make_stream):
    """A stream with ten messages, on each kind of server."""
    stream = make_stream(request.getfixturevalue(request.param).url)
    publish(stream, 10)
    return stream


def publish(stream, count: int) -> None:
    for i in range(count):
        stream.control.request_message(f"{stream.subject}.a", b"%d" % i)


def query(stream, host=None, /, **options: str) -> Blocking:
    named = {"servers": stream.url, "stream": stream.name, "pollInterval": "1us"}
    named |= {"startingOffsets": "earliest"} | options
    named = {key: value for key, value in named.items() if value}
    return Blocking(StreamSource(host or BlockingHost(), SourceOptions.parse(named)))


def read(stream, start, end, /, **options: str) -> list[int]:
    """The sequences of a batch."""
    named = {"servers": stream.url, "stream": stream.name} | options
    return sequences_between(start, end, **named)


ACCEPT = {"failOnDataLoss": "false"}


def test_what_a_restored_stream_had_is_not_read_again(anywhere):
    """Its sequences and times tell it from one that was made anew."""
    stream = anywhere
    snapshot = take_snapshot(stream.control, stream.name)
    publish(stream, 5)
    source = query(stream, **ACCEPT)
    start = source.initial_offset()
    before = source.latest_offset(start)
    assert read(stream, start, before) == list(range(1, 16))
    stream.control.request(f"STREAM.DELETE.{stream.name}")
    restore(stream.control, stream.name, snapshot)
    publish(stream, 3)
    with pytest.raises(StreamRestoredError):
        query(stream).latest_offset(before)
    # It goes on with what came after the restore, though its sequences are lower.
    after = query(stream, **ACCEPT).latest_offset(before)
    assert source.latest_offset(before) == after
    assert read(stream, before, after) == [11, 12, 13]
    assert source.latest_offset(after) == after
    publish(stream, 1)
    assert read(stream, after, source.latest_offset(after)) == [14]
    # Offsets travel through the checkpoint.
    assert Offsets.from_json(json.loads(json.dumps(after.to_json()))) == after


def test_a_snapshot_newer_than_the_query_is_read_on_where_the_query_stood(anywhere):
    stream = anywhere
    limited = {"maxOffsetsPerTrigger": "4"} | ACCEPT
    source = query(stream, **limited)
    start = source.initial_offset()
    before = source.latest_offset(start)
    snapshot = take_snapshot(stream.control, stream.name)
    stream.control.request(f"STREAM.DELETE.{stream.name}")
    restore(stream.control, stream.name, snapshot)
    publish(stream, 2)
    after = query(stream, **ACCEPT).latest_offset(before)
    assert read(stream, before, after) == list(range(5, 13))


def test_a_stream_made_anew_is_read_from_its_beginning(anywhere):
    stream = anywhere
    source = query(stream, **ACCEPT)
    before = source.latest_offset(source.initial_offset())
    stream.control.request(f"STREAM.DELETE.{stream.name}")
    gone = source.latest_offset(before)
    assert gone == before
    body = {"name": stream.name, "subjects": [f"{stream.subject}.>"]}
    stream.control.request(f"STREAM.CREATE.{stream.name}", body)
    publish(stream, 3)
    with pytest.raises(StreamRecreatedError):
        query(stream).latest_offset(before)
    after = source.latest_offset(before)
    assert read(stream, before, after) == [1, 2, 3]


def test_a_mirror_that_is_made_again_goes_on(genuine, make_stream):
    origin = make_stream(genuine.url)
    publish(origin, 5)
    mirror = {"name": "MIRROR_AGAIN", "mirror": {"name": origin.name}}

    def make() -> None:
        origin.control.request("STREAM.CREATE.MIRROR_AGAIN", mirror)
        deadline = time.monotonic() + 60
        while (
            origin.control.stream_state("MIRROR_AGAIN").next
            != origin.control.stream_state(origin.name).next
        ):
            assert time.monotonic() < deadline

    make()
    source = query(origin, stream="MIRROR_AGAIN", **ACCEPT)
    before = source.latest_offset(source.initial_offset())
    origin.control.request("STREAM.DELETE.MIRROR_AGAIN")
    publish(origin, 2)
    make()
    after = source.latest_offset(before)
    assert read(origin, before, after, stream="MIRROR_AGAIN") == [6, 7]
    origin.control.request("STREAM.DELETE.MIRROR_AGAIN")


@pytest.mark.parametrize(("start", "begins_at"), [("earliest", 5), ("latest", 7), ("", 7)])
def test_what_goes_and_comes_before_an_anchor_is_made(
    genuine, make_stream, monkeypatch, start, begins_at
):
    """`latest` is the end at the first look, `earliest` what there is when nothing can go."""
    stream = make_stream(genuine.url, retention="interest")
    reader = {"name": "reader", "durable_name": "reader", "ack_policy": "explicit"}
    stream.control.create_consumer(stream.name, reader)
    publish(stream, 6)
    hold = Anchor.hold

    def late(self, at):
        stream.control.purge(stream.name, 5)
        publish(stream, 2)
        return (yield from hold(self, at))

    monkeypatch.setattr(Anchor, "hold", late)
    named = {"commitMode": "ack", "consumer": "query", "startingOffsets": start}
    begin = query(stream, **named).initial_offset()
    assert begin.streams[stream.name].next == begins_at


def test_what_is_passed_over_is_in_the_progress(stream):
    publish(stream, 10)
    source = query(stream, maxOffsetsPerTrigger="2", **ACCEPT)
    start = source.initial_offset()
    end = source.latest_offset(start)
    assert "loss" not in source.report()["streams"][stream.name]
    stream.control.purge(stream.name, 8)
    then = source.latest_offset(end)
    report = source.report()
    assert report["skipped"] == report["streams"][stream.name]["skipped"] == 5
    assert "[MESSAGES_EXPIRED]" in report["streams"][stream.name]["loss"]
    source.latest_offset(then)
    report = source.report()
    assert report["skipped"] == 5 and "loss" not in report["streams"][stream.name]


def test_what_tasks_may_have_missed_is_in_the_progress(stream, caplog):
    """A task that comes too late has no way to say so; the next look sees what it may be."""
    publish(stream, 10)
    source = query(stream, maxOffsetsPerTrigger="6", **ACCEPT)
    start = source.initial_offset()
    end = source.latest_offset(start)
    assert end.streams[stream.name].next == 7
    stream.control.purge(stream.name, 5)
    assert read(stream, start, end, **ACCEPT) == [5, 6]
    then = source.latest_offset(end)
    report = source.report()
    assert report["overtaken"] == report["streams"][stream.name]["overtaken"] == 4
    assert report["skipped"] == 0
    assert "sequences 1 to 4" in caplog.text
    stream.control.purge(stream.name, 7)  # what was read in time
    source.latest_offset(then)
    assert source.report()["overtaken"] == 4


def test_what_went_after_the_last_look_is_counted_with_the_batch(stream):
    """However seldom the streams are looked at: an older answer knows nothing of the batch."""
    publish(stream, 10)
    source = query(stream, pollInterval="1h", maxOffsetsPerTrigger="6", **ACCEPT)
    end = source.latest_offset(source.initial_offset())
    stream.control.purge(stream.name, 5)
    source.latest_offset(end)
    assert source.report()["overtaken"] == 4


def test_a_work_queue_made_anew_while_a_batch_is_read_is_counted(genuine, make_stream):
    """What is removed from a queue was read, unless all of the queue went."""
    queue = make_stream(genuine.url, retention="workqueue", allow_direct=True)
    publish(queue, 7)
    source = query(queue, commitMode="purge", **ACCEPT)
    end = source.latest_offset(source.initial_offset())
    queue.control.request(f"STREAM.DELETE.{queue.name}")
    body = {"name": queue.name, "subjects": [f"{queue.subject}.>"], "retention": "workqueue"}
    queue.control.request(f"STREAM.CREATE.{queue.name}", body | {"allow_direct": True})
    source.latest_offset(end)
    assert source.report()["overtaken"] == 7


def test_with_subjects_an_interest_stream_that_is_made_anew_is_counted(genuine, make_stream):
    """Others remove what the query does not read, which is no loss; that all is gone is."""
    held = make_stream(genuine.url, retention="interest")
    named = {"commitMode": "ack", "consumer": "COUNTS", "subjects": f"{held.subject}.a"}
    source = query(held, **named, **ACCEPT)
    start = source.initial_offset()
    publish(held, 4)
    end = source.latest_offset(start)
    held.control.request(f"STREAM.DELETE.{held.name}")
    body = {"name": held.name, "subjects": [f"{held.subject}.>"], "retention": "interest"}
    held.control.request(f"STREAM.CREATE.{held.name}", body)
    source.latest_offset(end)
    assert source.report()["overtaken"] == 4


def test_a_run_that_ends_where_the_stream_ended_counts_what_goes_meanwhile(stream):
    """With availableNow: the ends stand, and what is removed below them is loss all the same."""
    publish(stream, 10)
    source = query(stream, maxOffsetsPerTrigger="4", **ACCEPT)
    start = source.initial_offset()
    source.freeze()
    end = source.latest_offset(start)
    assert end.streams[stream.name].next == 5
    stream.control.purge(stream.name, 8)
    then = source.latest_offset(end)
    report = source.report()
    assert (report["overtaken"], report["skipped"]) == (4, 3)
    assert read(stream, end, then, **ACCEPT) == [8, 9, 10]
    stream.control.request(f"STREAM.DELETE.{stream.name}")
    source.latest_offset(then)
    report = source.report()
    assert (report["overtaken"], report["skipped"]) == (7, 3), "nothing is counted twice"


@pytest.mark.parametrize("origin", [1, 100])
def test_what_a_stream_made_anew_has_lost_and_what_went_with_the_old_one_is_counted(stream, origin):
    publish(stream, 5)
    source = query(stream, **ACCEPT)
    before = source.latest_offset(source.initial_offset())
    stream.control.request(f"STREAM.DELETE.{stream.name}")
    body = {"name": stream.name, "subjects": [f"{stream.subject}.>"], "first_seq": origin}
    stream.control.request(f"STREAM.CREATE.{stream.name}", body)
    publish(stream, 4)
    stream.control.purge(stream.name, origin + 3)
    source.latest_offset(before)
    report = source.report()
    assert (report["overtaken"], report["skipped"]) == (5, 3)


def test_what_goes_while_the_first_batch_of_a_stream_made_anew_is_read_is_counted(stream):
    """Such a batch begins in the old stream and ends in the new one, which goes in its turn."""
    publish(stream, 5)
    source = query(stream, **ACCEPT)
    before = source.latest_offset(source.initial_offset())
    body = {"name": stream.name, "subjects": [f"{stream.subject}.>"], "first_seq": 100}
    for count in (4, 1):
        stream.control.request(f"STREAM.DELETE.{stream.name}")
        stream.control.request(f"STREAM.CREATE.{stream.name}", body)
        publish(stream, count)
        before = source.latest_offset(before)
    assert source.report()["overtaken"] == 5 + 4


@pytest.mark.parametrize("mode", ["purge", "ack"])
def test_a_stream_that_goes_while_a_batch_is_committed_is_loss(
    genuine, make_stream, monkeypatch, mode
):
    """Between the look whether it is still the same stream and the request there is time."""
    retention = {"purge": "workqueue", "ack": "interest"}[mode]
    held = make_stream(genuine.url, retention=retention, allow_direct=True)
    consumer = {"purge": "", "ack": "HOLDS"}[mode]
    source = query(held, commitMode=mode, consumer=consumer, **ACCEPT)
    start = source.initial_offset()
    publish(held, 3)
    end = source.latest_offset(start)
    states = StreamWatch.states

    def too_late(watch, age_max_s=None):
        found = yield from states(watch, age_max_s)
        held.control.request(f"STREAM.DELETE.{held.name}")
        monkeypatch.undo()
        return found

    monkeypatch.setattr(StreamWatch, "states", too_late)
    source.commit(end)
    assert source.latest_offset(end) == end
    assert "[STREAM_DELETED]" in source.report()["streams"][held.name]["loss"]


def test_a_deleted_stream_is_named_for_as_long_as_it_is_missing(stream, caplog):
    publish(stream, 3)
    clock = Clock()
    source = query(stream, clock, **ACCEPT)
    end = source.latest_offset(source.initial_offset())
    stream.control.request(f"STREAM.DELETE.{stream.name}")
    for _ in range(5):
        assert source.latest_offset(end) == end
    assert "[STREAM_DELETED]" in source.report()["streams"][stream.name]["loss"]
    assert caplog.text.count("STREAM_DELETED") == 1
    clock.ahead_s += 400
    source.latest_offset(end)
    assert caplog.text.count("STREAM_DELETED") == 2


def test_a_stream_that_goes_while_a_restarted_query_checks_it_is_loss(stream, monkeypatch):
    publish(stream, 3)
    source = query(stream)
    end = source.latest_offset(source.initial_offset())
    clock = Clock()
    again = query(stream, clock)
    watch = again.inner._watch
    check = watch.check

    def too_late():
        stream.control.request(f"STREAM.DELETE.{stream.name}")
        monkeypatch.undo()
        return (yield from check())

    monkeypatch.setattr(watch, "check", too_late)
    with pytest.raises(StreamDeletedError):
        for _ in range(2):
            assert again.latest_offset(end) == end
            clock.ahead_s += 1


def test_a_rolled_back_work_queue_was_acknowledged(genuine, make_stream):
    queue = make_stream(genuine.url, retention="workqueue", allow_direct=True)
    publish(queue, 6)
    source = query(queue, commitMode="purge", maxOffsetsPerTrigger="3")
    start = source.initial_offset()
    end = source.latest_offset(start)
    source.commit(end)
    with pytest.raises(MessagesAcknowledgedError, match="sequences 1 to 3"):
        query(queue, commitMode="purge").latest_offset(start)
    accepting = query(queue, commitMode="purge", **ACCEPT)
    assert accepting.latest_offset(start).streams[queue.name].next == 7
    assert accepting.report()["skipped"] == 3
    # A task of the batch that was rolled back says the same.
    with pytest.raises(MessagesAcknowledgedError):
        read(queue, start, end, commitMode="purge")


def test_the_lag_has_the_names_that_kafka_gives_it(genuine, make_stream):
    one, other = make_stream(genuine.url), make_stream(genuine.url)
    publish(one, 4)
    publish(other, 1)
    source = query(one, stream=f"{one.name},{other.name}", maxOffsetsPerTrigger="1")
    start = source.initial_offset()
    source.latest_offset(start)
    report = source.report()
    lags = [entry["lag"] for entry in report["streams"].values()]
    assert sorted(lags) == sorted([report["minOffsetsBehindLatest"], report["lag"] - min(lags)])
    assert report["maxOffsetsBehindLatest"] == max(lags) and sum(lags) == report["lag"] == 4
    assert report["avgOffsetsBehindLatest"] == 2.0
    held = [entry["bytes"] for entry in report["streams"].values()]
    assert 0 < report["estimatedTotalBytesBehindLatest"] < sum(held)


@pytest.fixture
def orders(start_genuine, make_stream, monkeypatch):
    """Makes streams whose names begin with ORDERS_, on a server of their own."""
    monkeypatch.setattr(stream_watch, "DISCOVERY_INTERVAL_S", 0.0)
    place = make_stream(start_genuine().url)

    def make(number: int, count: int, **config: object) -> str:
        name = f"ORDERS_{number}"
        body = {"name": name, "subjects": [f"orders.{number}.>"], **config}
        place.control.request(f"STREAM.CREATE.{name}", body)
        for i in range(count):
            place.control.request_message(f"orders.{number}.a", b"%d" % i)
        return name

    make.place = place
    return make


def test_streams_that_match_are_found_while_the_query_runs(orders):
    pattern = {"streamPattern": "ORDERS_.*", "stream": ""}
    place = orders.place
    with pytest.raises(StreamNotFoundError, match="no stream matches"):
        query(place, **pattern).initial_offset()
    orders(1, 3)
    source = query(place, **pattern)
    start = source.initial_offset()
    first = source.latest_offset(start)
    assert list(first.streams) == ["ORDERS_1"]
    # One that comes later is read from its beginning, also when it has lost its first messages.
    orders(2, 4, max_msgs=3)
    orders(3, 0)
    second = source.latest_offset(first)
    assert second.streams["ORDERS_2"] == StreamOffset(second.streams["ORDERS_2"].created, 5, 2)
    assert read(place, first, second) == [2, 3, 4]
    # A batch is the same when it is planned again from the checkpoint.
    replayed = [Offsets.from_json(json.loads(json.dumps(o.to_json()))) for o in (first, second)]
    assert plan_ranges(*replayed, Tasks(1000, 1, 8)) == plan_ranges(
        first, second, Tasks(1000, 1, 8)
    )
    assert source.latest_offset(second) == second, "nothing new"
    assert query(place, **pattern).latest_offset(second) == second, "after a restart as well"
    # What is gone is loss, and with the user's consent forgotten.
    place.control.request("STREAM.DELETE.ORDERS_1")
    with pytest.raises(StreamDeletedError):
        source.latest_offset(second)
    accepting = query(place, **pattern, **ACCEPT)
    third = accepting.latest_offset(second)
    assert sorted(third.streams) == ["ORDERS_2", "ORDERS_3"]
    assert accepting.latest_offset(third) == third
    with pytest.raises(OffsetsError, match="does not match: ORDERS_2"):
        query(place, streamPattern="ORDERS_3", stream="").latest_offset(third)


def test_a_stream_that_a_list_lacks_is_asked_for(orders, monkeypatch):
    """Who has just come to lead a cluster may list less than there is."""
    orders(1, 3)
    orders(2, 4)
    source = query(orders.place, streamPattern="ORDERS_.*", stream="")
    at = source.latest_offset(source.initial_offset())
    orders.place.control.request_message("orders.2.a", b"more")

    def list_one(self):
        yield from ()
        return ["ORDERS_1"]

    monkeypatch.setattr(Control, "all_stream_names", list_one)
    end = source.latest_offset(at)
    assert {name: one.next for name, one in end.streams.items()} == {"ORDERS_1": 4, "ORDERS_2": 6}


@pytest.mark.parametrize("is_run", [False, True], ids=["goes on", "ends with what is there"])
def test_a_leader_that_is_behind_is_not_loss(stream, monkeypatch, is_run):
    """One that was halted knows of less than the query has read."""
    for i in range(5):
        stream.control.request_message(f"{stream.subject}.a", b"%d" % i)
    source = query(stream)
    at = source.latest_offset(source.initial_offset())
    stream.control.request_message(f"{stream.subject}.a", b"more")
    told = iter([3, 2])
    ask = Control.stream_state

    def behind(self, name):
        state = yield from ask(self, name)
        config = state.config | {"num_replicas": 3}
        return replace(state, config=config, next=state.next - next(told, 0))

    monkeypatch.setattr(Control, "stream_state", behind)
    if is_run:
        source.freeze()
    end = source.latest_offset(at)
    assert end.streams[stream.name].next == (6 if is_run else 7)
    assert next(told, None) is None


def test_a_new_stream_that_cannot_be_read_is_an_error(orders):
    orders(1, 1)
    source = query(orders.place, streamPattern="ORDERS_.*", stream="")
    at = source.latest_offset(source.initial_offset())
    orders(2, 1, retention="workqueue")
    with pytest.raises(RetentionRefusedError, match="ORDERS_2"):
        source.latest_offset(at)


def test_a_new_stream_that_goes_while_it_is_checked_never_was(orders, monkeypatch):
    orders(1, 1)
    source = query(orders.place, streamPattern="ORDERS_.*", stream="", commitMode="purge")
    at = source.latest_offset(source.initial_offset())
    orders(2, 1)
    control = source.inner._watch.control
    ask = control.check_purge

    def too_late(name):
        orders.place.control.request(f"STREAM.DELETE.{name}")
        return (yield from ask(name))

    monkeypatch.setattr(control, "check_purge", too_late)
    assert source.latest_offset(at) == at


def test_nothing_new_is_said_no_sooner_than_it_could_be_otherwise(anywhere):
    calm = query(anywhere, pollInterval="60s")
    at = calm.latest_offset(calm.initial_offset())
    assert calm.latest_offset(at) == at
    asked_at = time.monotonic()
    again = calm.inner.latest_offset(at)
    pause = next(again)
    assert isinstance(pause, Pause)
    assert asked_at < pause.until <= time.monotonic() + 0.1
    with pytest.raises(StopIteration) as answered:
        again.send(None)
    assert answered.value.value == at


def test_a_message_that_has_come_is_not_waited_for(anywhere):
    """What Spark says that a batch took has no pause in it."""
    clock = Clock()
    eager = query(anywhere, clock, pollInterval="100ms")
    at = eager.latest_offset(eager.initial_offset())
    for _ in range(5):
        clock.ahead_s += 0.011  # the time that Spark takes to ask again
        assert eager.latest_offset(at) == at
    publish(anywhere, 1)
    clock.ahead_s += 0.011
    effects = []

    def watched():
        again = eager.inner.latest_offset(at)
        try:
            effects.append(next(again))
            while True:
                effects.append(again.send((yield effects[-1])))
        except StopIteration as end:
            return end.value

    assert run(watched()) != at
    assert effects
    assert {type(effect) for effect in effects} == {Transfer}


def test_a_queue_keeps_what_a_query_did_not_read_before_it_purged(make_stream, genuine):
    queue = make_stream(genuine.url, retention="workqueue", allow_direct=True)
    subject = f"{queue.subject}.a"
    queue.control.request_message(subject, b"unread")
    source = query(queue, commitMode="none", startingOffsets="latest")
    start = source.initial_offset()
    queue.control.request_message(subject, b"read")
    end = source.latest_offset(start)
    assert (end.streams[queue.name].next, end.is_purged) == (3, False)
    again = query(queue, commitMode="purge")
    with pytest.raises(RetentionRefusedError, match=r"goes on at sequence 3 .* from sequence 1 on"):
        again.latest_offset(end)
    assert queue.count == 2
    queue.control.purge(queue.name, 3)
    queue.control.request_message(subject, b"new")
    then = again.latest_offset(end)
    assert (then.streams[queue.name].next, then.is_purged) == (4, True)
    assert query(queue, commitMode="purge").latest_offset(then) == then
    assert queue.count == 0


def test_a_queue_keeps_what_a_query_did_not_read_under_other_subjects(make_stream, genuine):
    queue = make_stream(genuine.url, retention="workqueue", allow_direct=True)
    one, two = (f"{queue.subject}.{n}" for n in (1, 2))
    for subject in (one, two, one, two):
        queue.control.request_message(subject, b"")
    options = {"commitMode": "purge", "subjects": one, "pollInterval": "1us"}
    source = query(queue, **options)
    start = source.initial_offset()
    end = source.latest_offset(start)
    assert end.streams[queue.name].next == 5
    # The batch is read, and the query is started again with a subject more.
    again = query(queue, **options | {"subjects": f"{queue.subject}.*"})
    with pytest.raises(
        RetentionRefusedError, match=r"from sequence 2 on, which it may not have read"
    ):
        again.latest_offset(end)
    assert (queue.count, queue.control.next_sequence(queue.name, 1, two)) == (2, 2)
    # A torn batch has the rows that it was planned with, and no others leave the queue with it.
    source, at = query(queue, **options | {"subjects": two}), start.streams[queue.name]
    begun = source.latest_offset(Offsets({queue.name: replace(at, next=2)}))
    assert begun.subjects == (two,)
    queue.control.request_message(one, b"")
    later = query(queue, **options)
    later.commit(begun)
    assert (queue.count, queue.control.next_sequence(queue.name, 1, one)) == (1, 5)
    assert later.latest_offset(begun).streams[queue.name].next == 6
