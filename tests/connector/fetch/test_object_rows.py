"""Objects as rows, written by nats-py to the genuine server."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from jetstream_spark.client.blocking import iterate, this_host
from jetstream_spark.errors import ObjectDamagedError, OptionsError
from jetstream_spark.fetch.object_rows import OBJECT_COLUMNS
from jetstream_spark.fetch.ranges import SequenceRange
from jetstream_spark.fetch.rows import arrow_schema
from jetstream_spark.object_info import CHUNK_BYTES, info_subject
from jetstream_spark.source.partition import RangePartition, read_partition
from jetstream_spark.source.read_count import ReadCount
from jetstream_spark.validation import columns
from tests.connector.stores import Store

pytestmark = pytest.mark.genuine
BIG = bytes(range(256)) * (2 * CHUNK_BYTES // 256) + b"end"


@pytest.fixture
def store(genuine) -> Store:
    return Store(genuine.url)


def changes(store: Store, count: ReadCount | None = None) -> list[dict]:
    """The rows of a streaming read of all that the store holds."""
    options = store.source_options()
    state = store.control.stream_state(store.stream)
    partition = RangePartition(SequenceRange(store.stream, state.created, 1, state.next))
    schema = arrow_schema(
        columns({"servers": store.url, "objectStore": store.name}), OBJECT_COLUMNS
    )
    reading = iterate(read_partition(this_host(), options, schema, partition, count))
    return [row for batch in reading for row in batch.to_pylist()]


def test_each_object_with_what_is_said_of_it(store) -> None:
    contents = {"empty": b"", "one": b"1", "two/größe": BIG}
    for name, content in contents.items():
        store.put(name, content)
    store.put("gone", b"x")
    store.put("one", b"2")
    store.ask(lambda one: one.delete("gone"))
    rows = store.read()
    assert {row["name"]: row["bytes"] for row in rows} == contents | {"one": b"2"}
    for row in rows:
        info = store.ask(lambda one, name=row["name"]: one.get_info(name))
        assert (row["size"], row["digest"]) == (info.size, info.digest)
        assert (row["operation"], row["link"], row["headers"]) == ("PUT", None, None)
    state = store.control.stream_state(store.stream)
    assert max(row["revision"] for row in rows) == state.next - 2
    assert rows[0]["modified"].year >= 2024


def test_no_objects(store) -> None:
    assert store.read() == [] and changes(store) == []
    store.put("a", b"")
    store.ask(lambda one: one.delete("a"))
    assert store.read() == []


@pytest.mark.parametrize("parts", ["1", "5"])
def test_each_object_is_read_by_one_task(store, parts) -> None:
    for number in range(7):
        store.put(f"o{number}", b"%d" % number)
    rows = store.read("name", "bytes", minPartitions=parts)
    assert [row["bytes"] for row in rows] == [b"%d" % number for number in range(7)]


def test_what_is_asked_for_and_no_content(store) -> None:
    store.put("a", BIG)
    store.control.request(f"STREAM.PURGE.{store.stream}", {"filter": f"$O.{store.name}.C.>"})
    assert store.read("size", "name") == [{"size": len(BIG), "name": "a"}]
    with pytest.raises(ObjectDamagedError, match="object 'a'"):
        store.read("bytes")


def test_changes_and_contents_that_are_gone(store) -> None:
    store.put("a", BIG)
    store.put("b", b"1")
    store.ask(lambda one: one.delete("b"))
    count = ReadCount()
    rows = changes(store, count)
    found = [(row["name"], row["operation"], row["bytes"], row["size"]) for row in rows]
    assert count.data_bytes == sum(len(row["bytes"] or b"") for row in rows) > 0
    assert found == [("a", "PUT", BIG, len(BIG)), ("b", "DEL", None, None)]


def link(store: Store, name: str, target: dict) -> None:
    said = {"name": name, "bucket": store.name, "nuid": "n" + name, "options": {"link": target}}
    subject = info_subject(store.name, name)
    block = b"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n"
    store.control.request_message(subject, json.dumps(said).encode(), block)


def test_links_are_followed(genuine, store) -> None:
    other = Store(genuine.url)
    other.put("there", BIG)
    store.put("here", b"1")
    link(store, "to_other", {"bucket": other.name, "name": "there"})
    link(store, "to_here", {"bucket": store.name, "name": "here"})
    link(store, "to_link", {"bucket": store.name, "name": "to_here"})
    link(store, "to_store", {"bucket": other.name})
    link(store, "to_nothing", {"bucket": "no_such_store", "name": "x"})
    rows = {row["name"]: row for row in store.read()}
    assert {name: row["bytes"] for name, row in rows.items()} == {
        "here": b"1",
        "to_here": b"1",
        "to_other": BIG,
        "to_link": None,
        "to_store": None,
        "to_nothing": None,
    }
    assert rows["to_other"]["size"] == len(BIG) and rows["to_store"]["size"] is None
    assert rows["to_other"]["digest"] == other.read()[0]["digest"]
    assert (rows["to_other"]["link"], rows["to_store"]["link"]) == (
        f"{other.name}/there",
        other.name,
    )


def test_a_mirror_is_read_as_the_store_that_it_mirrors(store) -> None:
    store.put("a", BIG)
    store.put("b", b"1")
    mirror = f"{store.name}_copy"
    config = {"name": f"OBJ_{mirror}", "mirror": {"name": store.stream}}
    last = store.control.stream_state(store.stream).next
    store.control.request(f"STREAM.CREATE.OBJ_{mirror}", config)
    while store.control.stream_state(f"OBJ_{mirror}").next < last:
        pass
    store.name = mirror
    assert [row["bytes"] for row in store.read()] == [BIG, b"1"]


def test_a_message_that_says_nothing_of_an_object(store) -> None:
    store.control.request_message(info_subject(store.name, "a"), b"hello")
    with pytest.raises(ObjectDamagedError, match="message 1 of an object store"):
        store.read()


def test_a_batch_has_no_starting_point(store) -> None:
    with pytest.raises(OptionsError, match="the current objects of a store are all read"):
        store.read(startingOffsets="earliest")


def test_batches_are_cut_by_their_bytes(store, monkeypatch) -> None:
    monkeypatch.setattr("jetstream_spark.fetch.object_rows.BATCH_BYTES", len(BIG))
    for name in "abc":
        store.put(name, BIG)
    options, state = store.source_options(), store.control.stream_state(store.stream)
    partition = RangePartition(SequenceRange(store.stream, state.created, 1, state.next))
    schema = pa.schema([("bytes", pa.binary())])
    reading = iterate(read_partition(this_host(), options, schema, partition))
    assert [batch.num_rows for batch in reading] == [1, 1, 1]
