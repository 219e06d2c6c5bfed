"""Writes into object stores, against the genuine server; what nats-py finds then."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from jetstream_spark.client.blocking import run, this_host
from jetstream_spark.client.link import Link
from jetstream_spark.client.operation import EFFECTS, Effect, Pause, Transfer, Until
from jetstream_spark.errors import (
    AttemptSupersededError,
    NotAcknowledgedError,
    PublishRefusedError,
    RowRefusedError,
)
from jetstream_spark.object_info import CHUNK_BYTES
from jetstream_spark.object_store import ObjectStore
from jetstream_spark.sink.object_publisher import ObjectPublisher
from jetstream_spark.sink.recovery import Recovery
from tests import patient_client
from tests.connector.cut_wires import outgoing, watched, without_answer
from tests.connector.stores import Store, put

pytestmark = pytest.mark.genuine
ROOT = Path(__file__).parents[3]
BIG = bytes(range(256)) * (3 * CHUNK_BYTES // 256) + b"end"


@pytest.fixture
def store(genuine) -> Store:
    return Store(genuine.url)


def is_info(sent: bytes) -> bool:
    return b"Nats-Rollup" in sent


def is_chunk(sent: bytes) -> bool:
    return b".C." in sent and b"HPUB" in sent


def run_until(operation, is_reached) -> Effect:
    """Carry out an operation up to where it would send something, leave it there; return that."""
    from jetstream_spark.client.blocking import _carry_out

    effect = next(operation)
    while not is_reached(outgoing(effect)):
        effect = _carry_out(operation, effect)
        assert isinstance(effect, EFFECTS)
    return effect


def test_nats_py_reads_what_was_written(store) -> None:
    whole = BIG[: 2 * CHUNK_BYTES]
    rows = [put("empty"), put("one", b"1"), put("whole", whole), put("größe/a b.>", BIG)]
    said = {"description": "text", "headers": [("K", ["1", "2"])]}
    written = store.write(*rows, put("said", b"x", **said))
    assert (written.rows, written.duplicates, written.skipped) == (5, 0, 0)
    for row in rows:
        assert store.get(row["name"]) == row["bytes"], row["name"]
    info = store.ask(lambda one: one.get_info("größe/a b.>"))
    assert (info.size, info.chunks, info.bucket) == (len(BIG), 4, store.name)
    assert (info.options.max_chunk_size, info.deleted) == (CHUNK_BYTES, False)
    info = store.ask(lambda one: one.get_info("said"))
    assert (info.description, info.headers) == ("text", {"K": ["1", "2"]})
    assert sorted(store.chunks().values()) == [1, 1, 2, 4]


def test_an_object_that_is_replaced_or_deleted_leaves_no_chunks(store) -> None:
    store.put("theirs", BIG)
    store.put("gone", BIG)
    store.write(put("theirs", b"2"), put("a", b"1"), put("a", b"2"))
    rows = [put("gone", None, operation="DEL"), put("never", None, operation="delete")]
    store.write(*rows, put("a", b"3", operation=None), version=2)
    assert (store.get("theirs"), store.get("a")) == (b"2", b"3")
    info = store.ask(lambda one: one.get_info("gone", show_deleted=True))
    assert (info.deleted, info.size, info.chunks) == (True, 0, 0)
    names = {one.name for one in store.ask(lambda one: one.list(ignore_deletes=True))}
    assert names == {"theirs", "a"}
    assert list(store.chunks().values()) == [1, 1]


def test_a_write_that_runs_again_does_nothing(store) -> None:
    rows = [put("a", BIG), put("b", b"1"), put("b", b"2"), put("c", b"3")]
    store.put("c", b"")
    store.write(*rows)
    state = store.control.stream_state(store.stream)
    again = store.write(*rows)
    assert (again.rows, again.skipped) == (4, 4)
    without = {"ledger": "none"}
    assert store.write(*rows[:1], **without).duplicates == 1
    assert store.control.stream_state(store.stream) == state


@pytest.mark.parametrize("is_lost", [is_info, is_chunk])
@pytest.mark.parametrize("times", [1, 2])
def test_each_object_is_written_once_though_an_answer_is_lost(store, is_lost, times) -> None:
    store.put("b", b"before")
    store.put("d", b"deleted")
    rows = [put("a", BIG), put("b", BIG[1:]), put("d", None, operation="delete")]
    written = run(without_answer(store.writing(*rows), is_lost, times))
    assert written.rows == 3
    assert (store.get("a"), store.get("b")) == (BIG, BIG[1:])
    assert list(store.chunks().values()) == [4, 4]
    names = {one.name for one in store.ask(lambda one: one.list(ignore_deletes=True))}
    assert names == {"a", "b"}


@pytest.mark.parametrize("is_reached", [is_info, is_chunk])
def test_what_a_killed_attempt_left_is_removed_by_the_next_one(store, is_reached) -> None:
    rows = [put("a", b"1"), put("b", BIG)]
    first = store.writing(*rows)
    seen = []

    def is_at_b(sent: bytes) -> bool:
        seen.append(is_reached(sent))
        return sum(seen) == 2

    run_until(first, is_at_b)
    first.close()
    written = store.write(*rows)
    assert (written.rows, written.skipped) == (2, 1)
    assert (store.get("a"), store.get("b")) == (b"1", BIG)
    assert sorted(store.chunks().values()) == [1, 4]


def test_without_a_ledger_they_stay_and_the_documented_way_removes_them(store) -> None:
    store.put("theirs", BIG)
    store.write(put("gone", b"1"), put("gone", None, operation="delete"))
    write = store.writing(put("a", BIG), ledger="none")
    run_until(write, is_info)
    write.close()
    store.write(put("a", BIG), ledger="none")
    assert list(store.chunks().values()) == [4, 4, 4]
    page = (ROOT / "docs/objects.md").read_text()
    [snippet] = re.findall(r"```python\n(async def remove_unused_chunks.*?)```", page, re.DOTALL)
    known: dict[str, Any] = {}
    exec(snippet, known)

    async def remove() -> None:
        client = await patient_client.connect(store.url)
        await known["remove_unused_chunks"](client, store.name)
        await client.close()

    asyncio.run(remove())
    assert list(store.chunks().values()) == [4, 4]
    assert store.get("a") == store.get("theirs") == BIG


def test_an_attempt_that_should_be_dead_changes_nothing(store) -> None:
    store.put("a", b"before")
    rows = [put("a", BIG), put("b", b"1")]
    zombie = store.writing(*rows)
    lose_connection(run_until(zombie, is_info))
    store.write(*rows)
    state = store.control.stream_state(store.stream)
    with pytest.raises(AttemptSupersededError):
        resume(zombie)
    assert (store.get("a"), store.get("b")) == (BIG, b"1")
    assert sorted(store.chunks().values()) == [1, 4]
    assert store.control.stream_state(store.stream).messages == state.messages


@pytest.mark.parametrize("ledger", ["auto", "none"])
def test_such_an_attempt_damages_nothing_that_a_third_one_writes(store, ledger) -> None:
    """The attempt that followed it has removed its chunks, and its message is not refused as that
    of a row which is written: the object is somebody else's by then."""
    rows = [put("a", BIG)]
    zombie = store.writing(*rows, ledger=ledger)
    lose_connection(run_until(zombie, is_info))
    store.write(*rows, ledger=ledger)
    store.put("a", b"theirs")
    stopped = AttemptSupersededError if ledger == "auto" else StopIteration
    with pytest.raises(stopped):
        resume(zombie)
    assert store.get("a") == b"theirs"
    assert ledger == "none" or list(store.chunks().values()) == [1]


def test_a_server_that_was_restarted_has_forgotten_the_ids_of_rows_that_were_replaced(
    start_genuine,
) -> None:
    """It knows those of messages that it still has, so the earlier row is taken again, and the
    later one is not: an object would end with the earlier one."""
    server = start_genuine()
    store = Store(server.url)
    rows = [put("a", b"1"), put("a", b"2"), put("b", b"1"), put("b", None, operation="delete")]
    store.write(*rows, ledger="none")
    server.kill()
    server.start()
    for _ in range(2):  # the second time nothing is forgotten, and the last row has another id
        store.write(*rows, ledger="none")
        assert store.get("a") == b"2"
        names = {one.name for one in store.ask(lambda one: one.list(ignore_deletes=True))}
        assert names == {"a"}
        assert list(store.chunks().values()) == [1]


@pytest.mark.parametrize("last", [put("a", b"2"), put("a", None, operation="delete")])
def test_the_same_when_an_attempt_ended_between_the_two_rows(start_genuine, last) -> None:
    """Then the server knows both ids, and only what is there tells which row came last."""
    server = start_genuine()
    store = Store(server.url)
    rows = [put("a", b"1"), last]
    store.write(*rows, ledger="none")
    server.kill()
    server.start()
    store.write(*rows[:1], ledger="none")
    assert store.get("a") == b"1"
    store.write(*rows, ledger="none")
    info = store.ask(lambda one: one.get_info("a", show_deleted=True))
    assert info.deleted == (last["bytes"] is None)
    assert info.deleted or store.get("a") == b"2"


def test_what_somebody_else_wrote_meanwhile_is_not_covered_by_a_row_that_is_said_again(
    store,
) -> None:
    rows = [put("a", b"1"), put("a", b"2")]
    store.write(*rows, ledger="none")
    store.put("a", b"theirs")
    assert store.write(*rows, ledger="none").duplicates == 2
    assert store.get("a") == b"theirs"


def test_what_was_replaced_and_said_again_has_chunks_of_its_own(store) -> None:
    """Of a message whose answer is lost nobody knows whether it was replaced, and its chunks with
    it; without ids it looks as if somebody else had been quicker."""
    said: list[Link] = []

    def note(effect: Effect) -> list[Effect]:
        if not said and is_info(outgoing(effect)):
            said.append(effect.link)
        return []

    def lose_answer(effect: Effect) -> None:
        is_answer = isinstance(effect, Transfer) and effect.until is Until.RECEIVED
        if is_answer and effect.link in said:
            store.put("a", b"theirs")
            raise ConnectionResetError("cut by the test")

    run(watched(store.writing(put("a", BIG), dedupe="none", ledger="none"), note, lose_answer))
    assert store.get("a") == BIG


def lose_connection(effect) -> None:
    """Cut the connection of an effect that is not carried out; its operation does not know."""
    effect.link.carrier.close()


def resume(operation) -> None:
    """Go on with an operation whose last effect was not carried out: its connection is gone."""
    from jetstream_spark.client.blocking import _carry_out

    effect = operation.throw(ConnectionResetError("it was away for long"))
    while True:
        effect = _carry_out(operation, effect)


def test_a_connection_that_broke_between_objects_is_replaced_after_a_moment(store) -> None:
    options, host = store.sink_options(), this_host()
    publisher = ObjectPublisher(host, options, "tag", False, Recovery(host, options, None))
    pauses: list[Effect] = []

    def note(effect: Effect) -> list[Effect]:
        pauses.extend([effect] if isinstance(effect, Pause) else [])
        return []

    def connection():
        return run(watched(publisher._connection(), note))

    first = connection()
    assert connection() is first and not pauses
    first.close()
    assert connection() is not first and len(pauses) == 1
    publisher.abandon()


def test_somebody_else_may_write_the_same_object_meanwhile(store) -> None:
    write = store.writing(put("a", BIG))
    run_until(write, is_info)
    store.put("a", b"theirs")
    with pytest.raises(StopIteration):
        resume(write)
    assert store.get("a") == BIG
    assert list(store.chunks().values()) == [4]


def test_what_an_attempt_replaced_and_did_not_remove_is_removed(store) -> None:
    store.put("a", BIG)
    write = store.writing(put("a", b"1"))
    run_until(write, lambda sent: b"STREAM.PURGE.OBJ" in sent)
    write.close()
    assert sorted(store.chunks().values()) == [1, 4]
    assert store.write(put("a", b"1")).skipped == 1
    assert list(store.chunks().values()) == [1]


def test_a_full_store_refuses_by_name_and_keeps_no_chunks(genuine) -> None:
    store = Store(genuine.url, max_bytes=3 * CHUNK_BYTES)
    with pytest.raises(PublishRefusedError, match=r"'b'.*maximum bytes exceeded"):
        store.write(put("a", b"1"), put("b", BIG))
    assert store.get("a") == b"1"
    assert list(store.chunks().values()) == [1]


def test_chunks_of_a_refused_object_are_removed_when_all_are_answered(genuine, monkeypatch) -> None:
    store = Store(genuine.url, max_bytes=3 * CHUNK_BYTES)
    answers: list[object] = []
    check, purge, answered = ObjectPublisher._check_ack, ObjectStore.purge, []

    def noted(publisher, row, message):
        answers.append(message)
        return check(publisher, row, message)

    def removed(objects, subject):
        answered.append(len(answers))
        return purge(objects, subject)

    monkeypatch.setattr(ObjectPublisher, "_check_ack", noted)
    monkeypatch.setattr(ObjectStore, "purge", removed)
    with pytest.raises(PublishRefusedError, match="maximum bytes exceeded"):
        store.write(put("b", bytes(6 * CHUNK_BYTES)))
    assert answered and answered[0] == 6


def test_a_sealed_store_refuses(store) -> None:
    store.ask(lambda one: one.seal())
    with pytest.raises(PublishRefusedError, match=r"'a'.*sealed"):
        store.write(put("a", b"1"))


def test_a_message_about_an_object_must_fit(store) -> None:
    with pytest.raises(RowRefusedError, match=r"'a'.*description and headers take"):
        store.write(put("a", b"1", description="x" * (1 << 20)))
    assert store.chunks() == {}


def test_an_object_that_others_replace_all_the_time(store, monkeypatch) -> None:
    monkeypatch.setattr("jetstream_spark.sink.object_publisher._CONFLICTS_MAX", 1)
    write = store.writing(put("a", BIG))
    run_until(write, is_info)
    store.put("a", b"theirs")
    with pytest.raises(NotAcknowledgedError, match="'a' was replaced by others 1 times"):
        resume(write)
    assert store.get("a") == b"theirs"
    assert list(store.chunks().values()) == [1]
