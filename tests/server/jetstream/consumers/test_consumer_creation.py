"""Where consumers start, what changes them, and what a restart brings back."""

from __future__ import annotations

import pytest
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.base.errors import ApiError, StoreError
from jetstream_server.core.pattern_tree import PatternTree
from jetstream_server.core.steps import without_pauses
from jetstream_server.jetstream.configs.consumer_config import ConsumerConfig
from jetstream_server.jetstream.consumers.consumer_creation import (
    compare_filters,
    create_consumer,
    reset_consumer,
    restore_consumer,
)
from jetstream_server.jetstream.ending import Ending
from jetstream_server.jetstream.wire.go_time import Instant


@pytest.fixture
def stream(account):
    """Six messages, a second apart; every third is on s.b."""
    stream = account.stream()
    for number in range(1, 7):
        account.publish(b"s.b" if number % 3 == 0 else b"s.a", b"%d" % number)
        account.advance(SECOND)
    return stream


@pytest.mark.parametrize(
    ("fields", "stream_seq", "pending"),
    [
        ({}, 0, 6),
        ({"deliver_policy": "new"}, 6, 0),
        ({"deliver_policy": "last"}, 5, 1),
        ({"deliver_policy": "last", "filter_subject": "s.a"}, 4, 1),
        ({"deliver_policy": "last", "filter_subject": "none"}, 0, 0),
        ({"deliver_policy": "by_start_sequence", "opt_start_seq": 4}, 3, 3),
        ({"deliver_policy": "by_start_sequence", "opt_start_seq": 99}, 98, 0),
        ({"deliver_policy": "last_per_subject", "filter_subject": "s.*"}, 4, 2),
        ({"deliver_policy": "last_per_subject", "filter_subject": "none"}, 5, 0),
    ],
)
def test_starting_points(account, stream, fields, stream_seq, pending):
    info = account.create(stream, **fields).info(account.now)
    assert info["delivered"] == {"consumer_seq": 0, "stream_seq": stream_seq}
    assert info["ack_floor"] == info["delivered"]
    assert info["num_pending"] == pending


def test_starting_by_time(account, stream):
    start = Instant(account.now - 2 * SECOND)
    consumer = account.create(stream, deliver_policy="by_start_time", opt_start_time=start)
    assert consumer.info(account.now)["num_pending"] == 2


def test_an_update_takes_effect_at_once(account, stream):
    account.subscribe(b"_INBOX.p")
    fields = {"durable_name": "C", "ack_policy": "explicit"}
    consumer = account.create(stream, max_ack_pending=1, **fields)
    account.pull(consumer, b"6")
    assert len(account.client.take()) == 1
    same = account.create(stream, max_ack_pending=9, filter_subject="s.b", **fields)
    assert same is consumer
    assert [message.payload for message in account.client.take()] == [b"3", b"6"]
    assert consumer.info(account.now)["num_pending"] == 0


def test_who_sources_by_a_consumer_goes_on_where_that_is(account, stream):
    account.subscribe(b"_INBOX.p")
    fields = {"durable_name": "S", "sourcing": True}
    by_sequence = {"deliver_policy": "by_start_sequence", "opt_start_seq": 3}
    consumer = account.create(stream, **fields, **by_sequence)
    account.pull(consumer, b"2")
    later = {"deliver_policy": "by_start_sequence", "opt_start_seq": 6}
    for start in (later, {}, {"opt_start_seq": 6}, {"deliver_policy": "last_per_subject"}):
        assert account.create(stream, **fields, **start) is consumer
        assert consumer.config.opt_start_seq == 3
        assert consumer.info(account.now)["delivered"]["stream_seq"] == 4
    with pytest.raises(ApiError, match="deliver policy can not be updated"):
        account.create(stream, durable_name="S")
    account.create(stream, durable_name="C")
    with pytest.raises(ApiError, match="sourcing can not be updated"):
        account.create(stream, durable_name="C", sourcing=True, **later)


def test_a_deliver_subject_in_use_stays(account, stream):
    account.create(stream, durable_name="P", deliver_subject="d")
    account.create(stream, durable_name="P", deliver_subject="e")
    account.subscribe(b"e")
    with pytest.raises(ApiError) as caught:
        account.create(stream, durable_name="P", deliver_subject="f")
    assert caught.value.err_code == 10013


def test_a_reset_goes_back_behind_the_floor_or_to_a_sequence(account, stream):
    account.subscribe(b"_INBOX.p")
    consumer = account.create(stream, durable_name="C", ack_policy="explicit")
    account.pull(consumer, b"3")
    account.ack(account.client.take()[0])
    assert reset_consumer(consumer, 0, account.now) == 2
    account.pull(consumer, b"1")
    assert account.client.take()[0].ack[:3] == [1, 2, 1]
    assert reset_consumer(consumer, 5, account.now) == 5
    account.pull(consumer, b"1")
    assert account.client.take()[0].ack[:3] == [1, 5, 1]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"deliver_policy": "new"}, "not allowed"),
        ({"deliver_policy": "by_start_sequence", "opt_start_seq": 4}, "below start seq"),
    ],
)
def test_resets_that_are_refused(account, stream, fields, text):
    consumer = account.create(stream, durable_name="C", **fields)
    with pytest.raises(ApiError) as caught:
        reset_consumer(consumer, 2, account.now)
    assert caught.value.description == f"invalid reset: {text}"


def test_a_restored_ephemeral_goes_when_nobody_uses_it(account, stream):
    consumer = account.restart(account.create(stream, name="E", inactive_threshold=SECOND))
    assert stream.consumers == {"E": consumer}
    account.advance(2 * SECOND)
    assert not stream.consumers


def test_what_left_the_stream_before_a_restart_moves_no_floor(account, stream):
    """As the genuine server has it; whoever reads the floor would take it for acknowledged."""
    consumer = account.create(stream, durable_name="C", ack_policy="explicit")
    before = consumer.info(account.now)
    stream.store.truncate_front(3)
    after = account.restart(consumer).info(account.now)
    for key in ("ack_floor", "delivered"):
        assert (after[key]["stream_seq"], after[key]["consumer_seq"]) == (0, 0)
        assert before[key]["stream_seq"] == 0
    assert after["num_pending"] == before["num_pending"] - 2


def test_a_pause_survives(account, stream):
    account.subscribe(b"_INBOX.p")
    until = Instant(account.now + 5 * SECOND)
    consumer = account.create(stream, durable_name="C", pause_until=until)
    consumer = account.restart(consumer)
    account.pull(consumer, b"1")
    assert account.client.take() == []
    account.advance(5 * SECOND)
    assert len(account.client.take()) == 1


def test_memory_consumers_leave_nothing_behind(account, stream):
    account.create(stream, name="M", mem_storage=True)
    assert stream.folder.consumers() == []


def test_without_a_readable_state_nothing_is_skipped(account, stream):
    consumer = account.create(stream, durable_name="N", deliver_policy="new")
    account.publish(b"s.a", b"7")
    consumer.stop(Ending.SHUTDOWN, account.now)
    stream.consumers.pop("N")
    stream.folder.consumer("N")[1].save(b"garbage")
    consumer = restore_consumer(stream, "N", stream.folder.consumer("N"), account.now)
    assert consumer.info(account.now)["num_pending"] == 1
    assert "starting over" in account.logged[-1][1]


def test_a_damaged_config_is_an_error(account, stream):
    account.create(stream, durable_name="C")
    stream.folder.consumer("C")[0].save(b"{")
    with pytest.raises(StoreError, match="config file can not be read"):
        restore_consumer(stream, "C", stream.folder.consumer("C"), account.now)


def test_sequences_that_the_stream_lost_are_not_skipped(account):
    """The stream lost its tail in a crash, and new messages use its sequences again."""
    stream = account.stream(name="A")
    for number in range(1, 6):
        account.publish(b"s.a", b"%d" % number)
    account.subscribe(b"_INBOX.p")
    consumer = account.create(stream, durable_name="C", ack_policy="explicit")
    account.pull(consumer, b"5")
    account.ack_all(account.client.take())
    consumer.stop(Ending.SHUTDOWN, account.now)
    files = stream.folder.consumer("C")
    stream.unsubscribe()
    shorter = account.stream(name="A")
    for number in range(1, 4):
        account.publish(b"s.a", b"%d" % number)
    consumer = restore_consumer(shorter, "C", files, account.now)
    account.publish(b"s.a", b"new")
    account.pull(consumer, b"5")
    assert [message.payload for message in account.client.take()] == [b"new"]


def test_lost_sequences_are_not_skipped_although_nothing_was_saved_since(account):
    """A second crash finds the state from before the first one, and sequences used again."""
    stream = account.stream(name="A")
    for number in range(1, 6):
        account.publish(b"s.a", b"%d" % number)
    account.subscribe(b"_INBOX.p")
    consumer = account.create(stream, durable_name="C", ack_policy="explicit")
    account.pull(consumer, b"5")
    account.client.take()
    consumer.stop(Ending.SHUTDOWN, account.now)
    files = stream.folder.consumer("C")
    stream.unsubscribe()
    shorter = account.stream(name="A")
    account.publish(b"s.a", b"1")
    restore_consumer(shorter, "C", files, account.now).stop(Ending.SHUTDOWN, account.now)
    shorter.consumers.clear()
    for _ in range(5):
        account.publish(b"s.a", b"new")
    consumer = restore_consumer(shorter, "C", files, account.now)
    assert [sequence for sequence, _ in consumer.progress.pending] == [1]
    account.pull(consumer, b"9")
    assert [message.payload for message in account.client.take()] == [b"new"] * 5


def test_what_was_stored_while_the_stream_was_opened_is_not_what_was_lost(account):
    """A schedule that was due takes the sequence of a lost message before there are consumers."""
    stream = account.stream(name="A")
    for _ in range(3):
        account.publish(b"s.a", b"old")
    account.subscribe(b"_INBOX.p")
    consumer = account.create(stream, durable_name="C", ack_policy="explicit")
    account.pull(consumer, b"3")
    account.client.take()
    consumer.stop(Ending.SHUTDOWN, account.now)
    files = stream.folder.consumer("C")
    stream.unsubscribe()
    shorter = account.stream(name="A")
    for payload in (b"old", b"old", b"scheduled"):
        account.publish(b"s.a", payload)
    consumer = restore_consumer(shorter, "C", files, account.now, 2)
    assert [sequence for sequence, _ in consumer.progress.pending] == [1, 2]


def test_lost_sequences_that_were_passed_over_are_not_skipped(account):
    """What a filter passed over was lost as well, and is used again for what it wants."""
    stream = account.stream(name="A")
    for subject in (b"s.a", b"s.a", b"s.b", b"s.b", b"s.b"):
        account.publish(subject, b"old")
    account.subscribe(b"_INBOX.p")
    consumer = account.create(
        stream, durable_name="C", ack_policy="explicit", filter_subjects=["s.a"]
    )
    account.pull(consumer, b"5")
    assert len(account.client.take()) == 2
    assert consumer.progress.cursor.next_seq == 6
    consumer.stop(Ending.SHUTDOWN, account.now)
    files = stream.folder.consumer("C")
    stream.unsubscribe()
    shorter = account.stream(name="A")
    account.publish(b"s.a", b"old")
    consumer = restore_consumer(shorter, "C", files, account.now)
    for number in range(3):
        account.publish(b"s.a", b"%d" % number)
    account.pull(consumer, b"5")
    payloads = [message.payload for message in account.client.take() if message.payload]
    assert payloads == [b"0", b"1", b"2"]
    assert [sequence for sequence, _ in consumer.progress.pending] == [1, 2, 3, 4]


def test_a_work_queue_delivers_again_what_a_crash_kept(account):
    """The state with the acks survived, the removals did not."""
    stream = account.stream(name="A", retention="workqueue")
    for number in range(4):
        account.publish(b"s.a", b"%d" % number)
    account.subscribe(b"_INBOX.p")
    consumer = account.create(stream, durable_name="C", ack_policy="explicit")
    account.pull(consumer, b"4")
    account.ack_all(account.client.take())
    consumer.stop(Ending.SHUTDOWN, account.now)
    files = stream.folder.consumer("C")
    stream.unsubscribe()
    crashed = account.stream(name="A", retention="workqueue")
    for number in range(4):
        account.publish(b"s.a", b"%d" % number)
    crashed.store.delete([1, 3])
    consumer = restore_consumer(crashed, "C", files, account.now)
    account.pull(consumer, b"4")
    payloads = [message.payload for message in account.client.take() if message.payload]
    assert payloads == [b"1", b"3"]


def test_the_last_of_an_emptied_stream_is_its_end(account, stream):
    stream.purge(b"", 0, 0, account.now)
    info = account.create(stream, deliver_policy="last").info(account.now)
    assert info["delivered"]["stream_seq"] == 6


def test_a_new_deliver_subject_gets_what_is_unacknowledged(account, stream):
    fields = {"durable_name": "P", "ack_policy": "explicit", "filter_subject": "s.b"}
    listening = account.subscribe(b"d")
    account.create(stream, deliver_subject="d", **fields)
    assert [message.payload for message in account.client.take()] == [b"3", b"6"]
    account.context.sublist.remove(listening)
    account.subscribe(b"e")
    account.create(stream, deliver_subject="e", **fields)
    assert [message.payload for message in account.client.take()] == [b"3", b"6"]


def test_the_time_an_idle_consumer_has_depends_on_what_it_was(account, stream):
    account.create(stream, name="C")
    consumer = account.create(stream, durable_name="C")
    assert consumer.config.inactive_threshold == 5 * SECOND
    account.create(stream, durable_name="C")
    assert consumer.config.inactive_threshold == 0


@pytest.mark.parametrize(
    ("body", "wait_ms"), [(b"-NAK", 0), (b"-NAK 500ms", 500), (b"-NAK 5s", 5000), (b"+WPI", 1001)]
)
def test_what_an_ack_asked_for_survives(account, body, wait_ms):
    """Long after the last delivery, when nothing else has the state saved."""
    stream = account.stream(name="A")
    account.publish(b"s.a", b"1")
    account.subscribe(b"_INBOX.p")
    fields = {"durable_name": "C", "ack_policy": "explicit", "ack_wait": SECOND}
    consumer = account.create(stream, **fields)
    account.pull(consumer, b"1")
    account.advance(600 * MILLISECOND)
    account.ack(account.client.take()[0], body)
    consumer.stop(Ending.SHUTDOWN, account.now)
    consumer = restore_consumer(stream, "C", stream.folder.consumer("C"), account.now)
    account.pull(consumer, b"1")
    if wait_ms:
        account.advance(wait_ms * MILLISECOND - 1)
        assert account.client.take() == []
        account.advance(1)
    assert [message.ack[:2] for message in account.client.take()] == [[2, 1]]


@pytest.mark.parametrize("is_torn", [False, True])
def test_the_first_state_is_kept_with_the_config(account, stream, is_torn):
    for number in range(1, 4):
        account.publish(b"s.a", b"%d" % number)
    consumer = account.create(
        stream, durable_name="L", deliver_policy="last_per_subject", filter_subject="s.*"
    )
    files = stream.folder.consumer("L")
    assert files[1].load() is None and not consumer.files.has_state_file
    account.publish(b"s.a", b"4")
    consumer.stop(Ending.SHUTDOWN, account.now)
    stream.consumers.pop("L")
    if is_torn:
        files[1].save(b"torn")
    restored = restore_consumer(stream, "L", files, account.now)
    # Where it was made to begin, which nobody could tell any more.
    assert restored.info(account.now)["num_pending"] == 3
    assert restored.progress.cursor.next_seq == consumer.progress.cursor.next_seq
    assert restored.files.has_state_file is is_torn
    assert any("starting over" in text for _, text in account.logged) is is_torn


def test_a_later_state_is_not_that_of_the_config(account, stream):
    account.publish(b"s.a", b"1")
    account.subscribe(b"_INBOX.p")
    consumer = account.create(stream, durable_name="L", ack_policy="explicit", max_deliver=5)
    account.pull(consumer, b"5")
    account.ack_all(account.client.take())
    account.advance(SECOND)
    assert consumer.files.has_state_file
    restored = account.restart(consumer)
    assert restored.files.has_state_file
    assert restored.info(account.now)["ack_floor"]["stream_seq"] == 5
    changed = account.create(stream, durable_name="L", ack_policy="explicit", max_deliver=6)
    assert changed is restored
    assert b'"state"' not in stream.folder.consumer("L")[0].load()
    assert account.restart(changed).info(account.now)["ack_floor"]["stream_seq"] == 5


@pytest.mark.parametrize("policy", ["explicit", "all", "none"])
def test_a_stream_that_ends_before_what_was_acknowledged_is_told_of(
    transfers, make_transfers, tmp_path, policy
):
    """Its only block is gone, and so is the file that says how far it had come."""
    transfers.stream("S", count=5)
    durable = {"durable_name": "C", "ack_policy": policy}
    transfers.ask("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": durable})
    listener = transfers.listen(b"got")
    transfers.publish(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch":3,"no_wait":true}', b"got")
    transfers.turn()
    for message in listener.received:
        transfers.publish(message[1], b"")
    transfers.advance(SECOND)
    transfers.catalog.stop(transfers.now)
    transfers.commit.drain()
    for file in [*tmp_path.rglob("high-water.*"), *tmp_path.rglob("msgs/*")]:
        file.unlink()
    again = make_transfers()
    told = [text for level, text in again.logged if level == "WRN"]
    expected = (
        "consumer C of stream S: is done with message 3, and the stream ends with 0:"
        " what was stored between them is lost, and its sequences are given again"
    )
    assert told == ([] if policy == "none" else [expected])
    again.publish(b"s.1", b"new")
    again.turn()
    assert again.ask("CONSUMER.INFO.S.C")["num_pending"] == 1
    again.catalog.stop(again.now)
    again.commit.drain()
    assert [text for level, text in make_transfers().logged if level == "WRN"] == []


def test_nothing_is_made_of_many_filters_when_a_restored_one_is_asked(
    account, stream, monkeypatch
) -> None:
    filters = [f"s.*.{number}" for number in range(100)]
    consumer = account.create(
        stream, durable_name="C", ack_policy="explicit", filter_subjects=filters
    )
    consumer.stop(Ending.SHUTDOWN, account.now)
    restored = restore_consumer(stream, "C", stream.folder.consumer("C"), account.now)
    monkeypatch.setattr(PatternTree, "add", None)
    assert restored.wants(b"s.x.7") and not restored.wants(b"s.x.x")


def test_what_is_found_out_beforehand_answers_for_a_consumer(account, stream, monkeypatch) -> None:
    for first in (0, 50):
        filters = [f"s.*.{number}" for number in range(first, first + 100)]
        config = ConsumerConfig(durable_name="C", ack_policy="explicit", filter_subjects=filters)
        compared = without_pauses(compare_filters(stream, config))
        consumer = create_consumer(stream, config, account.now, compared=compared)
        with monkeypatch.context() as patched:
            patched.setattr(PatternTree, "add", None)
            assert consumer.wants(b"s.x.%d" % (first + 99))
            assert not consumer.wants(b"s.x.%d" % (first + 100))
