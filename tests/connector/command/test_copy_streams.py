"""Streams at either end of a copy."""

from __future__ import annotations

import pyarrow as pa
import pytest

from jetstream_spark.command.copy_plan import CopyError
from jetstream_spark.command.copy_streams import StreamDestination, StreamOrigin
from jetstream_spark.options.format_options import SinkOptions
from tests.leasing import lease


@pytest.fixture
def filled(stream):
    """Ten messages."""
    for number in range(10):
        stream.control.request_message(f"{stream.subject}.{number % 2}", b"%d" % number)
    return stream


def origin(stream, chunk: int = 4, **options: str) -> StreamOrigin:
    return StreamOrigin({"servers": stream.url, "stream": stream.name, **options}, chunk)


def read(source: StreamOrigin, plan: dict) -> list[list[bytes]]:
    return [
        [value for batch in source.read(plan, chunk) for value in batch.column("data").to_pylist()]
        for chunk in range(plan["chunks"])
    ]


def test_a_stream_is_cut_into_chunks_up_to_where_it_ends(filled):
    source = origin(filled)
    plan = source.plan()
    filled.control.request_message(f"{filled.subject}.late", b"late")
    assert (plan["chunks"], plan["rows"]) == (3, 10)
    assert [len(chunk) for chunk in read(source, plan)] == [4, 4, 2]


def test_a_part_of_a_stream(filled):
    some = origin(filled, subjects=f"{filled.subject}.1")
    plan = some.plan()
    assert plan["rows"] is None
    assert [one for chunk in read(some, plan) for one in chunk] == [b"1", b"3", b"5", b"7", b"9"]
    later = origin(filled, startingOffsets=f'{{"{filled.name}": 8}}').plan()
    assert (later["first"], later["stop"], later["rows"]) == (8, 11, None)


def test_an_empty_stream(stream):
    plan = origin(stream).plan()
    assert (plan["chunks"], plan["rows"]) == (0, 0)


def test_more_than_one_stream_is_refused(stream):
    with pytest.raises(CopyError, match="one stream"):
        StreamOrigin({"servers": stream.url, "stream": "A,B"}, 4)


@pytest.fixture
def into(make_stream, genuine):
    """A stream of its own, and how to make a copy into it."""
    stream = make_stream(genuine.url)

    def make(renaming=None, **options: str) -> StreamDestination:
        given = {"servers": stream.url, "stream": stream.name, "ledgerBucket": f"l-{stream.name}"}
        return StreamDestination({**given, **options}, "a copy", renaming)

    make.stream = stream  # type: ignore[attr-defined]
    return make


def rows(subject: str, count: int, **columns: list) -> pa.RecordBatch:
    data = [b"%d" % number for number in range(count)]
    return pa.RecordBatch.from_pydict({"subject": [subject] * count, "data": data, **columns})


def test_chunks_are_written_once(into):
    target = into()
    subject = f"{into.stream.subject}.a"
    assert (target.kept_plan(), target.done()) == (None, 0)
    begun = target.begin()
    target.keep_plan("plan")
    with pytest.raises(CopyError, match="somebody else"):
        target.keep_plan("another")
    assert target.write(0, [rows(subject, 3)]) == 3
    assert into().done() == 1
    into().write(0, [rows(subject, 3)])  # its end was not noticed
    into().write(1, [rows(subject, 2)])
    again = into()
    assert (again.kept_plan(), again.done(), again.count(begun)) == ("plan", 2, 5)


def test_a_target_that_was_made_anew_is_not_gone_on_with(into):
    target = into()
    begun = target.begin()
    target.check(begun)
    target.check({"next": 1})  # of an earlier version
    control, name = into.stream.control, into.stream.name
    control.request(f"STREAM.DELETE.{name}")
    control.request(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name.lower()}.>"]})
    with pytest.raises(CopyError, match="was deleted and made again since the copy was begun"):
        into().check(begun)


def test_subjects_may_change_and_headers_for_a_server_stay_behind(into):
    headers = [
        [("a", ["1", "2"]), ("Nats-Expected-Last-Sequence", ["77"]), ("Nats-Rollup", ["all"])],
        None,
        [("Nats-Msg-Id", ["x"])],
    ]
    kind = pa.map_(pa.string(), pa.list_(pa.string()))
    batch = pa.RecordBatch.from_pydict(
        {"subject": ["old", "old.b", "older"], "data": ["1", "2", "3"],
         "headers": pa.array(headers, kind)}
    )  # fmt: skip
    target = into(("old", f"{into.stream.subject}.new"))
    target.write(0, [batch.slice(0, 2)])
    first, second = into.stream.messages()
    assert (first[0], second[0]) == (f"{into.stream.subject}.new", f"{into.stream.subject}.new.b")
    assert b"a: 1\r\na: 2\r\n" in first[1]
    assert b"Expected-Last" not in first[1] and b"Rollup" not in first[1]
    assert (first[2], second[2]) == (b"1", b"2")
    outgoing = target._outgoing(batch.slice(1, 2))
    assert outgoing["subject"].to_pylist()[1] == "older"
    assert outgoing["headers"].to_pylist() == [[], []]


def test_a_subject_that_would_become_another_one_is_refused(filled, into):
    with lease(SinkOptions.parse({"servers": filled.url}).connection, "test") as flow:
        flow.publish(filled.subject.encode() + b".\xff", b"x")
        assert flow.check(30)
    source = origin(filled, chunk=100)
    plan = source.plan()
    assert plan["rows"] == 11
    with pytest.raises(CopyError, match="not UTF-8"):
        into((filled.subject, into.stream.subject)).write(0, source.read(plan, 0))
    assert into.stream.count < 11


@pytest.mark.parametrize(
    "options", [{"ledger": "none"}, {"dedupe": "none"}, {"txnAppId": "a", "txnVersion": "1"}]
)
def test_what_would_not_be_written_once_is_refused(into, options):
    with pytest.raises(CopyError, match="needs the stream's name and the ledger"):
        into(**options)
