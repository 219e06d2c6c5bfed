"""A server whose files were put back from an older copy, under a query and under its restart."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from jetstream_spark.client import pool
from jetstream_spark.client.blocking import Blocking, BlockingHost, run, this_host
from jetstream_spark.client.control import Control, StreamState
from jetstream_spark.errors import (
    PermissionDeniedError,
    ReadTimeoutError,
    StreamTruncatedError,
)
from jetstream_spark.options.format_options import SourceOptions
from jetstream_spark.options.offsets import Newest, Offsets, StreamOffset
from jetstream_spark.source.older_copy import CLOCK_STEP_MAX_NS, OlderCopies
from jetstream_spark.source.stream_source import StreamSource
from tests.connector.batches import sequences_between
from tests.put_back import Place

pytestmark = pytest.mark.genuine

ACCEPT = {"failOnDataLoss": "false"}


@pytest.fixture(params=["genuine", "bundled"])
def place(request, tmp_path):
    made = Place(request.param, tmp_path, request.getfixturevalue)
    yield made
    made.stop()
    pool.close_all(this_host())


def publish(stream, count: int) -> None:
    for i in range(count):
        stream.control.request_message(f"{stream.subject}.a", b"%d" % i)


def query(stream, **options: str) -> Blocking:
    named = {"servers": stream.url, "stream": stream.name, "pollInterval": "1us"}
    named |= {"startingOffsets": "earliest", "readTimeout": "60s"} | options
    return Blocking(StreamSource(BlockingHost(), SourceOptions.parse(named)))


def patiently(source: Blocking, at: Offsets) -> Offsets:
    """What Spark gets in the end: while the server is away, nothing is new."""
    for _ in range(5):
        if (end := source.latest_offset(at)) != at:
            return end
    return at


def read(stream, start, end, **options: str) -> list[int]:
    named = {"servers": stream.url, "stream": stream.name, "readTimeout": "60s"} | options
    return sequences_between(start, end, **named)


def from_checkpoint(at: Offsets) -> Offsets:
    return Offsets.from_json(json.loads(json.dumps(at.to_json())))


@pytest.mark.parametrize("later", [3, 20], ids=["it is behind", "it has overtaken"])
def test_a_query_ends_and_its_restart_as_well(place, make_stream, later):
    stream = make_stream(place.url)
    publish(stream, 4)
    place.take_copy()
    publish(stream, 6)
    source = query(stream)
    at = source.latest_offset(source.initial_offset())
    assert at.streams[stream.name].next == 11
    place.put_back()
    publish(stream, later)
    with pytest.raises(StreamTruncatedError, match=r"older copy.* from sequence 5 on"):
        patiently(source, at)
    with pytest.raises(StreamTruncatedError):
        query(stream).latest_offset(from_checkpoint(at))
    # Whoever accepts it is told how much was passed over, and gets what follows.
    accepting = query(stream, **ACCEPT)
    end = patiently(accepting, from_checkpoint(at))
    report = accepting.report()
    assert "[STREAM_TRUNCATED]" in str(report) or later == 20
    assert report["skipped"] == 6, "what is stored there since is passed over as well"
    if later == 20:
        assert read(stream, at, end) == list(range(11, 25))
        assert query(stream).latest_offset(from_checkpoint(end)) == end, "and once"


@pytest.mark.parametrize("later", [3, 20], ids=["it is behind", "it has overtaken"])
@pytest.mark.parametrize("mode", ["purge", "ack"])
def test_nothing_that_was_not_read_is_given_up(place, make_stream, mode, later):
    retention = {"purge": "workqueue", "ack": "interest"}[mode]
    stream = make_stream(place.url, retention=retention, allow_direct=True)
    named = {"commitMode": mode} | ({"consumer": "HOLDS"} if mode == "ack" else {})
    source = query(stream, **named)
    start = source.initial_offset()
    publish(stream, 4)
    place.take_copy()
    publish(stream, 6)
    at = source.latest_offset(start)
    while at == start:  # the server was away for a moment
        at = source.latest_offset(start)
    assert at.streams[stream.name].next == 11
    source.commit(at)
    assert stream.count == 0
    place.put_back()
    publish(stream, later)
    for again in (source, query(stream, **named)):
        again.commit(from_checkpoint(at))
        with pytest.raises(StreamTruncatedError):
            patiently(again, from_checkpoint(at))
    state = stream.control.stream_state(stream.name)
    held = range(max(5, state.first), state.next)
    assert (held.start, held.stop) == (5, 5 + later)


@pytest.mark.parametrize("goes_on", [False, True], ids=["it began so", "it goes on so"])
def test_a_run_with_available_now_ends_before_what_was_given_again(place, make_stream, goes_on):
    """It went on to where the stream had ended, and purged what nobody had read."""
    stream = make_stream(place.url, retention="workqueue", allow_direct=True)
    named = {"commitMode": "purge"} | ACCEPT
    source = query(stream, maxOffsetsPerTrigger="3", **named)
    start = source.initial_offset()
    publish(stream, 4)
    if goes_on:  # what is known at its position stays as it is
        at = source.latest_offset(start)
    place.take_copy()
    publish(stream, 6)
    if goes_on:
        source = query(stream, **named)
        strict = query(stream, commitMode="purge")
        strict.freeze()  # it has lost nothing either
    source.freeze()
    if not goes_on:
        at = source.latest_offset(start)
    assert at.streams[stream.name].next == 4
    place.put_back()
    end = source.latest_offset(at)
    assert end.streams[stream.name].next == 5
    publish(stream, 20)
    if goes_on:
        assert strict.latest_offset(at).streams[stream.name].next == 5
    assert read(stream, at, end, **named) == [4]
    assert source.latest_offset(end) == end, "the run ends"
    source.commit(end)
    assert stream.control.stream_state(stream.name).first == 5
    # The next run reads all that came since.
    following, later = from_checkpoint(end), query(stream, **named)
    last = patiently(later, following)
    assert read(stream, following, last, **named) == list(range(5, 25))
    later.commit(last)
    assert stream.count == 0 and not later.report()["skipped"]


@pytest.mark.parametrize("mode", ["consumer", "direct"])
def test_a_task_misses_the_end_of_its_range(place, make_stream, mode):
    """A torn batch is read again after a restart, before anybody looks at the stream."""
    stream = make_stream(place.url, allow_direct=True)
    publish(stream, 4)
    place.take_copy()
    publish(stream, 6)
    source = query(stream)
    start = source.initial_offset()
    end = source.latest_offset(start)
    place.put_back()
    with pytest.raises(StreamTruncatedError):
        read(stream, start, end, fetchMode=mode)
    assert read(stream, start, end, fetchMode=mode, **ACCEPT) == [1, 2, 3, 4]


@pytest.mark.parametrize("mode", ["consumer", "direct"])
def test_a_stream_that_gets_as_far_again_while_a_task_looks(
    genuine, make_stream, monkeypatch, mode
):
    """It was shorter than the range when the reader was made, and is not when it is compared."""
    stream = make_stream(genuine.url, allow_direct=True)
    publish(stream, 4)
    start = query(stream).latest_offset(None)
    name, at = next(iter(start.streams.items()))
    end = Offsets({name: replace(at, next=8)})
    ask, published = Control.stream_state, []

    def late(control, name):
        if not published:
            published.append(True)
            publish(stream, 3)
        return (yield from ask(control, name))

    monkeypatch.setattr(Control, "stream_state", late)
    assert read(stream, start, end, fetchMode=mode) == [5, 6, 7]


def test_a_leader_that_lags_is_asked_again(genuine, make_stream, monkeypatch):
    stream = make_stream(genuine.url, allow_direct=True)
    publish(stream, 4)
    source = query(stream)
    start = source.initial_offset()
    end = source.latest_offset(start)
    ask = Control.stream_state
    for mode in ("consumer", "direct"):
        asked = []

        def late(control, name, asked=asked):
            state = replace((yield from ask(control, name)))
            state.config["num_replicas"] = 3
            asked.append(state)
            return replace(state, next=3) if len(asked) == 1 else state

        with monkeypatch.context() as patched:
            patched.setattr(Control, "stream_state", late)
            assert read(stream, start, end, fetchMode=mode) == [1, 2, 3, 4]
        assert len(asked) > 1
        with monkeypatch.context() as patched:
            patched.setattr(
                Control,
                "stream_state",
                lambda control, name: replace(
                    (yield from ask(control, name)), next=3, config={"num_replicas": 3}
                ),
            )
            with pytest.raises(ReadTimeoutError, match="leader lacks something"):
                read(stream, start, end, fetchMode=mode, readTimeout="2s")


def test_a_server_that_was_only_restarted_is_the_same(place, make_stream):
    stream = make_stream(place.url)
    publish(stream, 5)
    source = query(stream)
    at = source.latest_offset(source.initial_offset())
    place.stop()
    place.start()
    publish(stream, 1)
    end = patiently(source, at)
    assert end.streams[stream.name].next == 7
    assert query(stream).latest_offset(from_checkpoint(at)) == end
    # What was the newest message may be gone.
    stream.control.request(f"STREAM.MSG.DELETE.{stream.name}", {"seq": 5})
    assert query(stream).latest_offset(from_checkpoint(at)) == end


class Answers:
    """A stream, in place of a server: times by sequence."""

    def __init__(self, times: dict[int, int]) -> None:
        self.times = times
        self.server_id = "N1"
        self.asked = 0

    def time_at(self, stream, sequence):
        yield from ()
        self.asked += 1
        if not self.times:
            raise PermissionDeniedError("not allowed", "")
        found = [(seq, time) for seq, time in sorted(self.times.items()) if seq >= sequence]
        return found[0] if found else None

    def first_since(self, state, since_ns):
        yield from ()
        older = [seq for seq, time in self.times.items() if time < since_ns]
        return max(older, default=0) + 1  # where nothing need be


LONG = CLOCK_STEP_MAX_NS


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ({1: 10, 5: 50, 9: 90}, None),
        ({1: 10, 4: 80, 5: 81, 9: 90}, 4),
        ({1: 10, 9: 90}, None),  # it was removed, and nothing says more
        ({1: 10, 9: 90 + LONG}, None),
        ({1: 10, 4: 50 + LONG, 9: 90 + LONG}, 4),
        ({1: 10, 4: 51, 9: 90}, None),  # a clock was set
        ({1: 10, 3: 51, 4: 50 + LONG, 9: 90 + LONG}, 3),  # it was not: all of it is known then
        # It is there with another time, and the clock was set back since the files were put back.
        ({1: 10, 4: 30, 5: 31, 9: 90}, 5),
        ({1: 10, 4: 30, 5: 31}, 5),
        ({9: 90}, None),
        ({}, None),
    ],
)
def test_the_newest_message_tells(times, found):
    control = Answers(times)
    copies = OlderCopies(control)
    state = _state(10)
    at = StreamOffset("t", 6, newest=Newest(5, 50))
    assert run(copies.find(state, at)) == found
    asked = control.asked
    assert run(copies.find(state, at)) == found
    assert (control.asked == asked) is (found is None), "once for each start of a server"
    control.server_id = "N2"
    run(copies.find(state, at))
    assert control.asked > asked
    copies.accept("S")
    assert run(copies.find(state, at)) is None


def _state(following: int, **config: int) -> StreamState:
    return StreamState("S", "t", 1, following, 9, 9, config)


def test_what_is_known_without_asking():
    copies = OlderCopies(Answers({}))
    newest = Newest(9, 50)
    assert run(copies.find(_state(7), StreamOffset("t", 6, newest=newest))) == 7
    assert run(copies.find(_state(9), StreamOffset("t", 6, newest=newest))) == 9
    assert run(copies.find(_state(7), StreamOffset("other", 6, newest=newest))) is None
    # A leader that has just been elected may be late, but not with what was read.
    late = _state(7, num_replicas=3)
    assert run(copies.find(late, StreamOffset("t", 7, newest=newest))) is None
    assert run(copies.find(late, StreamOffset("t", 8, newest=newest))) == 7
    assert run(copies.find(_state(7), StreamOffset("t", 6))) is None
    assert run(copies.find(_state(10), StreamOffset("t", 6, newest=Newest(9, 0)))) is None


@pytest.mark.parametrize(
    ("times", "last_ns", "found"),
    [
        ({1: 10, 4: 60, 6: 61}, 61, 4),
        ({1: 10, 4: 60, 6: 61}, 0, 7),  # the server does not say when it stored something last
        ({1: 10, 6: 40}, 40, 7),  # nothing was stored since
        ({1: 10, 6: 60}, 60, 6),
        ({1: 10}, 60, 7),  # it was removed
        ({}, 60, 7),  # nobody may look
    ],
)
def test_what_is_stored_again_before_the_newest_message_counts(times, last_ns, found):
    control = Answers(times)
    copies = OlderCopies(control)
    state = replace(_state(7), newest=Newest(6, last_ns))
    at = StreamOffset("t", 9, newest=Newest(9, 50))
    assert run(copies.find(state, at)) == found
    asked = control.asked
    assert run(copies.find(replace(state, next=8), at)) in (found, 8), "it is asked again"
    assert control.asked == asked or not asked
    control.server_id = "N2"
    run(copies.find(state, at))
    assert (control.asked > asked) is (asked > 0)


def test_a_user_who_may_not_look_is_told(start_genuine, make_stream, tmp_path, caplog):
    config = tmp_path / "server.conf"
    config.write_text(
        """authorization { users: [
             { user: all, password: x },
             { user: some, password: x, permissions: { subscribe: "_INBOX.>",
               publish: ["$JS.API.STREAM.INFO.*", "$JS.API.CONSUMER.>"] } }] }"""
    )
    server = start_genuine("-c", str(config))
    stream = make_stream(server.url, {"user": "all", "password": "x"})
    publish(stream, 5)
    source = query(stream, user="some", password="x")
    at = source.latest_offset(source.initial_offset())
    publish(stream, 2)
    assert source.latest_offset(at).streams[stream.name].next == 8
    assert source.latest_offset(at).streams[stream.name].next == 8
    assert caplog.text.count("was restored from an older copy is not known") == 1


def test_what_was_known_before_the_position_is_no_older_copy(stream):
    publish(stream, 3)
    source = query(stream)
    source.freeze()
    publish(stream, 3)
    end = source.latest_offset(source.initial_offset())
    assert end.streams[stream.name].next == 4
    assert source.latest_offset(end) == end
