"""What the driver asks of its streams: checks, positions by word, by sequence and by time."""

from __future__ import annotations

import json
import time

import pytest

from jetstream_spark.client.blocking import Blocking, this_host
from jetstream_spark.errors import (
    OffsetsError,
    RetentionRefusedError,
    StreamNotFoundError,
    SubjectsDoNotOverlapError,
)
from jetstream_spark.options.format_options import SourceOptions
from jetstream_spark.options.option_values import rfc3339, timestamp_ns
from jetstream_spark.source.stream_watch import StreamWatch

pytestmark = pytest.mark.genuine


def watch(stream, /, **options: object) -> Blocking:
    named = {"servers": stream.url, "stream": stream.name}
    return Blocking(
        StreamWatch(
            this_host(), SourceOptions.parse(named | {k: str(v) for k, v in options.items()})
        )
    )


def publish(stream, count: int) -> None:
    for i in range(count):
        stream.control.request_message(f"{stream.subject}.a", b"%d" % i)


def start_of(stream, default="earliest", **options) -> int:
    return watch(stream, **options).starting_offsets(default).streams[stream.name].next


def end_of(stream, **options) -> int:
    watching = watch(stream, **options)
    return watching.ending_offsets(watching.starting_offsets("earliest")).streams[stream.name].next


def test_words_and_sequences(stream):
    assert (start_of(stream, "earliest"), start_of(stream, "latest")) == (1, 1)
    publish(stream, 10)
    stream.control.purge(stream.name, 4)
    assert (start_of(stream, "earliest"), start_of(stream, "latest")) == (4, 11)
    assert start_of(stream, startingOffsets="latest") == 11
    assert start_of(stream, startingOffsets=f'{{"{stream.name}": 7}}') == 7
    assert start_of(stream, startingOffsets=f'{{"{stream.name}": 0}}') == 1
    assert end_of(stream) == 11
    assert end_of(stream, endingOffsets=f'{{"{stream.name}": 9}}') == 9
    with pytest.raises(OffsetsError, match="ends at 11"):
        end_of(stream, endingOffsets=f'{{"{stream.name}": 12}}')
    with pytest.raises(OffsetsError, match="before the start"):
        end_of(stream, endingOffsets=f'{{"{stream.name}": 2}}')
    assert start_of(stream, startingOffsets=f'{{"{stream.name}": 11}}') == 11
    beyond = {"startingOffsets": f'{{"{stream.name}": 12}}'}
    with pytest.raises(OffsetsError, match="at 12, but the next sequence that it gives is 11"):
        start_of(stream, **beyond)
    assert start_of(stream, **beyond, failOnDataLoss="false") == 12


def test_nothing_was_there_before_the_first_sequence_of_a_stream(make_stream, genuine):
    late = make_stream(genuine.url, first_seq=1000)
    for sequence in (0, 1, 1000):
        assert start_of(late, startingOffsets=f'{{"{late.name}": {sequence}}}') == 1000


def test_times(stream):
    publish(stream, 3)
    time.sleep(0.01)
    between = rfc3339(time.time_ns())
    time.sleep(0.01)
    publish(stream, 2)
    assert start_of(stream, startingTimestamp=between) == 4
    for before in ("2020-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z"):
        assert start_of(stream, startingTimestamp=before) == 1
    assert start_of(stream, startingTimestamp=rfc3339(time.time_ns())) == 6
    assert end_of(stream, endingTimestamp=between) == 4
    with pytest.raises(OffsetsError, match="in the future"):
        start_of(stream, startingTimestamp="2999-01-01")
    latest = {"startingTimestamp": "2999-01-01", "startingTimestampStrategy": "latest"}
    assert start_of(stream, **latest) == 6
    assert stream.control.consumers(stream.name) == []


def test_checks(stream, genuine, make_stream):
    with pytest.raises(SubjectsDoNotOverlapError, match="can never match"):
        watch(stream, subjects="elsewhere.>").check()
    watch(stream, subjects=f"{stream.subject}.x,{stream.subject}.*").check()
    missing = SourceOptions.parse({"servers": stream.url, "stream": "NO_SUCH"})
    with pytest.raises(StreamNotFoundError):
        Blocking(StreamWatch(this_host(), missing)).check()
    assert Blocking(StreamWatch(this_host(), missing)).tails() == {"NO_SUCH": None}
    mirror = make_stream(genuine.url, subjects=None, mirror={"name": stream.name})
    watch(mirror, subjects="whatever").check()
    kept = make_stream(genuine.url, deny_purge=True)
    with pytest.raises(RetentionRefusedError, match="denies purging"):
        watch(kept, commitMode="purge").check()
    queue = make_stream(genuine.url, retention="workqueue", allow_direct=True)
    with pytest.raises(RetentionRefusedError, match="one subject pattern"):
        watch(queue, commitMode="none", subjects=f"{queue.subject}.a,{queue.subject}.b").check()


def test_stored_subjects_may_be_others_than_those_that_are_collected(genuine, make_stream):
    transform = {"subject_transform": {"src": ">", "dest": "elsewhere.>"}}
    for config in ({"sources": [{"name": make_stream(genuine.url).name}]}, transform):
        watch(make_stream(genuine.url, **config), subjects="elsewhere.>").check()


THEIRS = [{}, {"filter_subject": "{}.a"}, {"filter_subjects": ["{}.x", "{}.a"]}]


@pytest.mark.parametrize("theirs", THEIRS, ids=["all", "one", "several"])
def test_a_purge_may_not_take_what_another_consumer_waits_for(genuine, make_stream, theirs):
    queue = make_stream(genuine.url, retention="workqueue", allow_direct=True)
    text = json.dumps({"name": "C", "durable_name": "C", "ack_policy": "explicit"} | theirs)
    queue.control.create_consumer(queue.name, json.loads(text.replace("{}", queue.subject)))
    for subjects in ({}, {"subjects": f"{queue.subject}.*"}, {"subjects": f"{queue.subject}.a"}):
        with pytest.raises(RetentionRefusedError, match="consumer 'C' still waits for"):
            watch(queue, commitMode="purge", **subjects).check()
    other = watch(queue, commitMode="purge", subjects=f"{queue.subject}.b")
    if theirs:
        other.check()
    else:
        with pytest.raises(RetentionRefusedError, match="consumer 'C' still waits for"):
            other.check()


@pytest.mark.parametrize("first", [1, 2])
def test_a_purge_may_not_take_what_lies_before_the_start(genuine, make_stream, first):
    queue = make_stream(genuine.url, retention="workqueue", allow_direct=True)
    publish(queue, 3)
    queue.control.purge(queue.name, first)
    begin = json.dumps({queue.name: 3})
    watching = watch(queue, commitMode="purge", startingOffsets=begin)
    with pytest.raises(RetentionRefusedError, match=rf"sequence 3 of.*from sequence {first} on"):
        watching.check_unread(watching.starting_offsets("earliest"))
    elsewhere = watch(queue, commitMode="purge", startingOffsets=begin, subjects="x.y")
    elsewhere.check_unread(watching.starting_offsets("earliest"))
    queue.control.purge(queue.name, 3)
    watching.check_unread(watching.starting_offsets("earliest"))


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_times_in_a_stream_that_consumers_would_change(genuine, make_stream, retention):
    """A work queue refuses a second consumer, and one on interest would be a reader."""
    stream = make_stream(genuine.url, retention=retention, allow_direct=True)
    taken = {"name": "taken", "durable_name": "taken", "ack_policy": "explicit"}
    stream.control.create_consumer(stream.name, taken)
    publish(stream, 20)
    stream.control.request(f"STREAM.MSG.DELETE.{stream.name}", {"seq": 12})
    times = {}
    for sequence in (1, 11, 13, 20):
        body = {"seq": sequence}
        answer = stream.control.request(f"STREAM.MSG.GET.{stream.name}", body)
        times[sequence] = timestamp_ns(answer["message"]["time"])
    state = stream.control.stream_state(stream.name)
    for sequence, time_ns in times.items():
        # At 12 there is nothing, so to begin there is to begin at 13.
        assert stream.control.first_since(state, time_ns) in {sequence, 12 if sequence == 13 else 0}
        assert stream.control.first_since(state, time_ns + 1) == sequence + 1
    moment = rfc3339(times[11])
    assert start_of(stream, startingTimestamp=moment, commitMode="none") == 11
    names = [one["name"] for one in stream.control.consumers(stream.name)]
    assert names == ["taken"]


def test_a_time_is_not_looked_up_at_a_replica_that_lags(stream, lagging_replica):
    publish(stream, 3)
    time.sleep(0.01)
    between = rfc3339(time.time_ns())
    publish(stream, 2)
    assert start_of(stream, startingTimestamp=between) == 4
    assert end_of(stream, endingTimestamp=between) == 4
    assert lagging_replica == [], "a consumer was made, which may be anywhere"


def test_a_time_for_each_of_several_streams(genuine, make_stream):
    one, other = make_stream(genuine.url), make_stream(genuine.url)
    publish(one, 3)
    publish(other, 3)
    time.sleep(0.01)
    between = rfc3339(time.time_ns())
    time.sleep(0.01)
    publish(one, 2)
    publish(other, 2)
    names = {"stream": f"{one.name},{other.name}"}
    early = {one.name: between, other.name: "2020-01-01T00:00:00Z"}
    late = {one.name: "2999-01-01", other.name: between}
    asking = watch(one, startingTimestamp=json.dumps(early), endingTimestamp=between, **names)
    start = asking.starting_offsets("earliest")
    assert [start.streams[name].next for name in (one.name, other.name)] == [4, 1]
    end = asking.ending_offsets(start)
    assert [end.streams[name].next for name in (one.name, other.name)] == [4, 4]
    ending = watch(one, endingTimestamp=json.dumps(late), **names).ending_offsets(start)
    assert [ending.streams[name].next for name in (one.name, other.name)] == [6, 4]


@pytest.mark.parametrize("look", ["consumers", "check_purge"])
def test_a_stream_that_goes_while_it_is_checked_is_not_found(genuine, make_stream, look):
    queue = make_stream(genuine.url, retention="workqueue", allow_direct=True)
    watching = watch(queue, commitMode="purge")
    control = watching.inner.control
    ask = getattr(control, look)

    def too_late(name):
        queue.control.request(f"STREAM.DELETE.{name}")
        return (yield from ask(name))

    setattr(control, look, too_late)
    with pytest.raises(StreamNotFoundError, match=f"stream not found: '{queue.name}'"):
        watching.check()
