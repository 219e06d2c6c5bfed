"""Entries of the ledger as people see them."""

from __future__ import annotations

from jetstream_spark.client.blocking import Blocking, run, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.command.ledger_entries import LedgerEntry, read_entries, standings
from jetstream_spark.sink.kv import NO_ENTRY, KvBucket
from jetstream_spark.sink.ledger import Ledger, Scope, ScopeKind
from jetstream_spark.sink.message_ids import Fingerprint


def entry(key: str, version: int, state: str = "", rows: int | None = None) -> LedgerEntry:
    kind, name, stream, *partition = key.split(".")
    number = int(partition[0]) if partition else None
    return LedgerEntry(key, kind, name, stream, number, version, state, rows, version)


def test_what_a_write_left_is_read(stream):
    control = Control(this_host(), stream.sink().connection, "test")
    bucket = f"ledger-{stream.name}"
    assert run(read_entries(control, bucket)) == []
    ledger = Blocking(Ledger(control, bucket, Scope(ScopeKind.QUERY, "a b", 7), stream.name))
    attempt = ledger.begin(0)
    ledger.finish(attempt, Fingerprint(5, 1, 2), 0)
    ledger.begin(1)
    ledger.commit(9)
    run(KvBucket(control, bucket).put("somebody.else.s", b"{}", NO_ENTRY))
    run(KvBucket(control, bucket).put("query.x", b"no json", NO_ENTRY))
    found = {one.partition: one for one in run(read_entries(control, bucket))}
    assert set(found) == {None, 0, 1}
    assert {(one.kind, one.name, one.stream) for one in found.values()} == {
        ("query", "a b", stream.name)
    }
    assert (found[0].state, found[0].rows, found[1].state) == ("done", 5, "started")
    assert (found[None].version, found[None].rows) == (7, 9)
    [standing] = standings(found.values())
    assert (standing.version, standing.rows, standing.begun) == (7, 9, 7)
    assert (standing.started, standing.done, standing.entries) == (1, 1, 3)
    assert standing.prefix == f"query.=612062.{stream.name}"


def test_partitions_of_older_versions_do_not_count():
    found = [
        entry("query.q.S.0", 3, "done"),
        entry("query.q.S.1", 4, "started"),
        entry("query.q.S.2", 4, "done"),
        entry("query.q.S.3", 2, "done"),
        entry("query.q.S", 3, rows=10),
        entry("txn.q.S", 1),
    ]
    one, other = standings(found)
    assert (one.version, one.rows, one.begun, one.started, one.done) == (3, 10, 4, 1, 1)
    assert (one.entries, one.written_us, one.prefix) == (5, 4, "query.q.S")
    assert (other.kind, other.version, other.begun) == ("txn", 1, None)
