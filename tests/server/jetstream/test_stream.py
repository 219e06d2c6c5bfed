"""Runs in, acks out; what consumers are told; recovery, reconfiguration and the end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import ApiError, StoreError
from jetstream_server.core.subscription import Stretch
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.ending import Ending
from jetstream_server.jetstream.stream import Stream
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store import memory


def plain(count: int, payload: bytes = b"x") -> list[tuple[bytes, bytes, tuple[str, ...]]]:
    return [(b"s.%d" % (i % 3), payload, ()) for i in range(count)]


def test_a_run_is_stored_and_acked_as_a_whole(bench: Any, make_consumer: Any) -> None:
    stream = bench.stream()
    stream.add_consumer(consumer := make_consumer("c"))
    answers = bench.publish_all(stream, plain(5))
    assert answers == [b'{"stream":"S","seq":%d}' % n for n in range(1, 6)]
    assert stream.store.state().messages == 5
    assert consumer.told == [("stored", 1, 5)]


def test_acks_of_one_run_leave_as_one_buffer(bench: Any) -> None:
    stream = bench.stream()
    for headers in (b"", bench.block("Nats-Msg-Id: same")):
        run = PubRun.of([(b"s.a", bench.reply(), headers, b"x") for _ in range(50)])
        stream.receive(Stretch(run, 0, 50, bench.inbox, None, bench.now))
        counts = [send.count for send in bench.output.sends]
        assert counts == ([1, 49] if headers else [50])
        bench.sent()


def test_the_domain_is_in_acks_but_not_in_refusals(domain_bench: Any) -> None:
    stream = domain_bench.stream()
    (answer,) = domain_bench.publish_all(stream, plain(1))
    assert answer == b'{"stream":"S","domain":"hub","seq":1}'
    (answer,) = domain_bench.publish_all(stream, [(b"s.a", b"", ("Nats-Expected-Stream: T",))])
    assert answer == (
        b'{"error":{"code":400,"err_code":10060,"description":"expected stream does not match"},'
        b'"stream":"S","seq":0}'
    )


def test_no_ack_streams_are_silent(bench: Any) -> None:
    stream = bench.stream(no_ack=True)
    assert bench.publish_all(stream, plain(3)) == []
    id_twice = [(b"s.a", b"", ("Nats-Msg-Id: 1",))] * 2
    assert bench.publish_all(stream, id_twice) == []
    assert bench.publish_all(stream, [(b"s.a", b"", ("Nats-Expected-Stream: T",))]) == []
    assert stream.store.last_seq == 4


def test_specials_are_decided_between_stretches(bench: Any, make_consumer: Any) -> None:
    stream = bench.stream()
    stream.add_consumer(consumer := make_consumer("c"))
    messages = plain(3)
    messages.append((b"s.a", b"", ("Nats-Expected-Last-Sequence: 3",)))
    messages.append((b"s.a", b"", ("Nats-Expected-Last-Sequence: 3",)))
    messages += plain(2)
    answers = [json.loads(answer) for answer in bench.publish_all(stream, messages)]
    assert [answer["seq"] for answer in answers] == [1, 2, 3, 4, 0, 5, 6]
    assert answers[4]["error"]["err_code"] == 10071
    assert consumer.told == [("stored", 1, 3), ("stored", 4, 4), ("stored", 5, 6)]


def test_the_store_failing_is_an_error_ack(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = bench.stream()

    def fail(*arguments: object) -> int:
        raise StoreError("no space left on device", "/data")

    monkeypatch.setattr(stream.store, "append_run", fail)
    monkeypatch.setattr(stream.store, "append", fail)
    with_ids = [(b"s.a", b"", (f"Nats-Msg-Id: {i}",)) for i in (1, 2, 1)]
    expected = [(b"s.a", b"", ("Nats-Expected-Last-Sequence: 0",))]
    for messages in (plain(2), with_ids, expected):
        answers = [json.loads(answer) for answer in bench.publish_all(stream, messages)]
        assert len(answers) == len(messages)
        for answer in answers:
            assert answer["seq"] == 0
            assert answer["error"] == {
                "code": 503,
                "err_code": 10077,
                "description": "no space left on device",
            }
    assert len(bench.logged) == 1  # not once a message
    monkeypatch.undo()
    answers = [json.loads(answer) for answer in bench.publish_all(stream, with_ids)]
    assert [answer["seq"] for answer in answers] == [1, 2, 1]
    assert "duplicate" in answers[2]


def test_limits_hold_after_a_run(bench: Any, make_consumer: Any) -> None:
    stream = bench.stream(max_msgs=3)
    stream.add_consumer(consumer := make_consumer("c"))
    bench.publish_all(stream, plain(10))
    assert (stream.store.first_seq, stream.store.last_seq) == (8, 10)
    assert consumer.told == [("stored", 1, 10), ("removed", [*range(1, 8)])]


def test_a_record_larger_than_the_stream_is_acked_and_gone(bench: Any) -> None:
    stream = bench.stream(max_bytes=100)
    bench.publish(stream, b"s.a", b"x")
    assert bench.publish(stream, b"s.a", b"x" * 200) == {"stream": "S", "seq": 2}
    state = stream.store.state()
    assert (state.messages, state.first_seq, state.last_seq) == (0, 3, 2)


def test_transform_before_everything_else(bench: Any) -> None:
    stream = bench.stream(subject_transform={"src": "s.*", "dest": "t.$1"})
    bench.publish(stream, b"s.a", b"1")
    bench.publish(stream, b"s.x.y", b"2")
    assert [stream.store.load(n).subject for n in (1, 2)] == [b"t.a", b"s.x.y"]
    answer = bench.publish(stream, b"s.a", b"", "Nats-Expected-Last-Subject-Sequence: 1")
    assert answer["seq"] == 3


def test_rollup(bench: Any, make_consumer: Any) -> None:
    stream = bench.stream(allow_rollup_hdrs=True)
    stream.add_consumer(consumer := make_consumer("c"))
    bench.publish_all(stream, [(b"s.a", b"", ()), (b"s.b", b"", ()), (b"s.a", b"", ())])
    bench.publish(stream, b"s.a", b"", "Nats-Rollup: Sub")
    assert stream.store.subject_counts(b">") == {b"s.b": 1, b"s.a": 1}
    assert consumer.told[-2:] == [("stored", 4, 4), ("purged", 2, [1, 3])]
    bench.publish(stream, b"s.a", b"", "Nats-Rollup: all")
    assert stream.store.state().messages == 1


def test_purge_and_what_forbids_it(bench: Any, make_consumer: Any) -> None:
    stream = bench.stream()
    stream.add_consumer(consumer := make_consumer("c"))
    bench.publish_all(stream, plain(9))
    assert stream.purge(b"s.0", 0, 1, bench.now) == 2
    assert stream.purge(b"", 4, 0, bench.now) == 2
    assert stream.purge(b"", 0, 0, bench.now) == 5
    assert (stream.store.first_seq, stream.store.last_seq) == (10, 9)
    assert consumer.told[-1] == ("purged", 10, [5, 6, 7, 8, 9])
    stream.reconfigure(bench.config(deny_purge=True), bench.now)
    with pytest.raises(ApiError, match="stream purge not permitted"):
        stream.purge(b"", 0, 0, bench.now)


def test_purge_below_1_leaves_an_unused_stream_unused(bench: Any) -> None:
    stream = bench.stream()
    assert stream.purge(b"", 1, 0, bench.now) == 0
    assert stream.store.state().first_seq == 0


def test_an_offline_stream_knows_no_duplicates(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The original may be lost with the store; who repeats it must not take it for stored."""
    stream = bench.stream()
    assert bench.publish(stream, b"s.a", b"", "Nats-Msg-Id: 1")["seq"] == 1
    monkeypatch.setattr(type(stream.store), "offline", property(lambda store: "fsync failed"))
    refused = bench.publish(stream, b"s.a", b"", "Nats-Msg-Id: 1")
    assert refused["error"]["err_code"] == 10077


def test_an_offline_stream_refuses(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = bench.stream()
    bench.publish_all(stream, plain(2))
    monkeypatch.setattr(type(stream.store), "offline", property(lambda store: "fsync failed"))
    with pytest.raises(ApiError) as caught:
        stream.purge(b"", 0, 0, bench.now)
    assert (caught.value.err_code, caught.value.description) == (10051, "stream closed")
    assert _delete_errors(stream, [1], bench.now) == [(10057, "stream closed")]
    # Opened while offline, it is there to be looked at and removed.
    again = Stream(bench.context, stream.config, 0, stream.folder, stream.store, bench.now)
    again.tick(bench.now)
    assert again.state()["messages"] == 2


def _delete_errors(stream: Stream, sequences: list[int], now: int) -> list[tuple[int, str]]:
    found = []
    for sequence in sequences:
        with pytest.raises(ApiError) as caught:
            stream.delete_message(sequence, True, now)
        found.append((caught.value.err_code, caught.value.description))
    return found


def test_delete_message_words_its_refusals_by_storage(bench: Any, make_consumer: Any) -> None:
    for storage in ("memory", "file"):
        stream = bench.stream(storage=storage)
        stream.add_consumer(consumer := make_consumer("c"))
        bench.publish_all(stream, plain(5))
        for sequence in (1, 3, 5):
            stream.delete_message(sequence, False, bench.now)
        assert consumer.told[-1] == ("removed", [5])
        found = _delete_errors(stream, [0, 1, 3, 5, 6], bench.now)
        if storage == "memory":
            assert found == [(10043, f"sequence {n} not found") for n in (0, 1, 3, 5, 6)]
        else:
            assert found == [
                (10057, "no message found"),
                (10057, "no message found"),
                (10043, "sequence 3 not found"),
                (10043, "sequence 5 not found"),
                (10057, "stream store EOF"),
            ]
    stream.reconfigure(bench.config(deny_delete=True), bench.now)
    assert _delete_errors(stream, [2], bench.now) == [(10057, "message delete not permitted")]


def test_a_sealed_stream_takes_nothing(bench: Any) -> None:
    stream = bench.stream()
    bench.publish_all(stream, plain(1))
    stream.reconfigure(bench.config(sealed=True, discard="new"), bench.now)
    assert bench.publish(stream)["error"]["err_code"] == 10109
    for refused in (
        lambda: stream.purge(b"", 0, 0, bench.now),
        lambda: stream.delete_message(1, False, bench.now),
    ):
        with pytest.raises(ApiError, match="invalid operation on sealed stream"):
            refused()


def test_reconfigure_applies_limits_and_subjects_at_once(bench: Any, make_consumer: Any) -> None:
    stream = bench.stream()
    stream.add_consumer(consumer := make_consumer("c"))
    bench.publish_all(stream, plain(9))
    stream.reconfigure(bench.config(max_msgs=2, subjects=["t.*"], allow_direct=True), bench.now)
    assert consumer.told[-1] == ("removed", [*range(1, 8)])
    assert not bench.sublist.has_interest(b"s.a")
    assert bench.sublist.has_interest(b"t.a")
    assert bench.sublist.has_interest(b"$JS.API.DIRECT.GET.S")
    stream.reconfigure(bench.config(max_msgs_per_subject=1), bench.now)
    assert not bench.sublist.has_interest(b"$JS.API.DIRECT.GET.S")
    assert stream.store.state().messages == 2
    bench.advance(60 * SECOND)
    stream.reconfigure(bench.config(max_age=SECOND, duplicate_window=SECOND), bench.now)
    assert stream.store.state().messages == 0


def test_the_store_compresses_as_the_config_says(bench: Any) -> None:
    stream = bench.stream()
    assert stream.store.compression == "none"
    stream.reconfigure(bench.config(compression="s2"), bench.now)
    assert stream.store.compression == "s2"
    stream.reconfigure(bench.config(), bench.now)
    assert stream.store.compression == "none"


def test_state_as_stream_info_shows_it(bench: Any, make_consumer: Any) -> None:
    stream = bench.stream()
    zero = "0001-01-01T00:00:00Z"
    assert stream.state() == {
        "messages": 0,
        "bytes": 0,
        "first_seq": 0,
        "first_ts": zero,
        "last_seq": 0,
        "last_ts": zero,
        "consumer_count": 0,
    }
    stream.add_consumer(make_consumer("c"))
    stream.add_consumer(make_consumer("m", internal=True))
    bench.publish_all(stream, plain(3))
    stream.delete_message(2, False, bench.now)
    state = stream.state(subjects={"s.0": 1}, deleted=stream.store.deleted())
    assert list(state) == [
        "messages",
        "bytes",
        "first_seq",
        "first_ts",
        "last_seq",
        "last_ts",
        "num_subjects",
        "subjects",
        "num_deleted",
        "deleted",
        "consumer_count",
    ]
    assert state["first_ts"] == "2023-11-14T22:13:20Z"
    assert (state["deleted"], state["consumer_count"]) == ([2], 1)


def test_recovery_finds_ids_ttls_and_the_last_id(bench: Any) -> None:
    stream = bench.stream(allow_msg_ttl=True, duplicate_window=10 * SECOND)
    bench.publish(stream, b"s.a", b"", "Nats-Msg-Id: old")
    bench.advance(5 * SECOND)
    bench.publish(stream, b"s.b", b"", "Nats-TTL: 8")
    bench.publish(stream, b"s.a", b"", "Nats-Msg-Id: new")
    bench.advance(6 * SECOND)
    bench.context.deadlines.cancel(stream)
    again = Stream(
        bench.context, stream.config, stream.created, stream.folder, stream.store, bench.now
    )
    assert again.contents.last_message_id == b"new"
    assert bench.publish(again, b"s.a", b"", "Nats-Msg-Id: new")["duplicate"]
    assert bench.publish(again, b"s.a", b"", "Nats-Msg-Id: old")["seq"] == 4
    bench.advance(3 * SECOND)
    assert again.store.subject_count(b"s.b") == 0


def test_messages_are_over_one_after_another_although_nobody_publishes(bench: Any) -> None:
    stream = bench.stream(max_age=10 * SECOND, duplicate_window=SECOND)
    for _ in range(3):
        bench.publish(stream, b"s.a", b"")
        bench.advance(3 * SECOND)
    for first_seq in (2, 3, 4):
        bench.advance(3 * SECOND)
        assert stream.store.first_seq == first_seq


def test_stop_keeps_and_delete_removes(bench: Any, make_consumer: Any) -> None:
    stream = bench.stream(max_age=SECOND, duplicate_window=SECOND)
    stream.add_consumer(consumer := make_consumer("c"))
    bench.publish_all(stream, plain(2))
    stream.delete(bench.now)
    assert consumer.told[-1] == ("stop", Ending.DELETED)
    assert not bench.sublist.has_interest(b"s.a")
    assert bench.context.deadlines.next_deadline() is None
    other = bench.stream(name="T")
    other.add_consumer(consumer)
    other.stop(bench.now)
    assert consumer.told[-1] == ("stop", Ending.SHUTDOWN)


def test_the_account_may_refuse_more(bench: Any) -> None:
    stream = bench.stream()
    room = 50

    def allowance(size: int) -> ApiError | None:
        used = int(stream.store.state().bytes)
        return errors.ACCOUNT_RESOURCES_EXCEEDED() if used + size > room else None

    stream.contents.allowance = allowance
    answers = [json.loads(answer) for answer in bench.publish_all(stream, plain(5))]
    assert [answer["seq"] for answer in answers] == [1, 2, 0, 0, 0]
    assert answers[2]["error"]["err_code"] == 10002


def test_a_new_limit_is_kept_to_once_in_a_turn(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice took as long as two turns."""
    monkeypatch.setattr(memory, "_REMOVED_AT_ONCE", 20)
    stream = bench.stream()
    bench.publish_all(stream, plain(100))
    stream.reconfigure(bench.config(max_msgs=10), bench.now)
    assert stream.store.state().messages == 80
    bench.advance(SECOND)
    assert stream.store.state().messages == 10
