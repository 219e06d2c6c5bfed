"""When a consumer's progress is queued for the disk, and what waits for it."""

from __future__ import annotations

import pytest
from jetstream_server.base.clock import MILLISECOND
from jetstream_server.jetstream.consumers import consumer_files


class Log:
    """Counts what is saved, and whether somebody waits for it."""

    def __init__(self, file):
        self.saved = []
        self._save = file.save
        file.save = self.save

    def save(self, data, lazily=False):
        self.saved.append(lazily)
        self._save(data, lazily=lazily)


@pytest.fixture
def consumer(account):
    stream = account.stream()
    for number in range(4):
        account.publish(b"s.%d" % number)
    account.subscribe(b"_INBOX.p")
    return account.create(stream, durable_name="C", ack_policy="explicit")


@pytest.fixture
def log(consumer):
    return Log(consumer.files.files[1])


def test_what_nobody_waits_for_is_saved_before_long_and_once(account, consumer, log):
    account.pull(consumer, b"1")
    account.pull(consumer, b"1")
    assert log.saved == []
    account.advance(100 * MILLISECOND - 1)
    assert log.saved == []
    account.advance(1)
    assert log.saved == [True]
    account.advance(1000 * MILLISECOND)
    assert log.saved == [True]


@pytest.mark.parametrize(("of_save", "late"), [(2, 2), (1, 4), (0.01, 20)])
def test_progress_with_very_much_to_send_again_is_saved_less_often(
    account, consumer, log, monkeypatch, of_save, late
):
    account.pull(consumer, b"3")
    account.advance(100 * MILLISECOND)
    assert log.saved == [True]
    for message in account.client.take():
        account.ack(message, b"-NAK 1h")
    monkeypatch.setattr(consumer_files, "_ENTRIES_OF_SAVE", of_save)
    account.advance(100 * MILLISECOND)
    saved = len(log.saved)
    consumer.files.changed(account.now)
    consumer.shared.arm()
    account.advance(late * 100 * MILLISECOND - 1)
    assert len(log.saved) == saved
    account.advance(1)
    assert len(log.saved) == saved + 1


def test_all_answers_of_a_turn_wait_for_one_save(account, consumer, log):
    account.pull(consumer, b"3")
    messages = account.client.take()
    account.publish_run([(each.reply, b"_INBOX.p", b"", b"") for each in messages])
    assert log.saved == [False]
    assert len(account.client.take()) == 3
    account.advance(1000 * MILLISECOND)
    assert log.saved == [False], "nothing is left to be saved late"


def test_an_ack_in_the_turn_in_which_something_else_is_saved_late_is_durable_before_its_answer(
    account, consumer, log
):
    """It was saved like the rest, which a power cut may take (simulator's seed 7609338)."""
    account.pull(consumer, b"1")
    files = consumer.files
    files.changed(account.now, must_precede_answer=True)
    files.answer(b"_INBOX.p")
    files.save_late()
    files.end_turn()
    assert log.saved == [False]


def test_what_is_unsaved_is_saved_when_it_stops_but_not_when_it_is_given_up(account, consumer, log):
    account.pull(consumer, b"1")
    consumer.files.withdraw()
    consumer.files.save_rest()
    assert log.saved == []
    account.pull(consumer, b"1")
    consumer.files.save_rest()
    consumer.files.save_rest()
    assert log.saved == [False]


def test_answers_of_what_is_given_up_are_withdrawn(account, consumer):
    account.pull(consumer, b"1")
    account.client.take()
    consumer.files.changed(account.now, must_precede_answer=True)
    consumer.files.answer(b"_INBOX.p")
    consumer.files.withdraw()
    account.turn()
    assert account.client.take() == []


def test_one_that_keeps_nothing_saves_nothing(account):
    stream = account.stream(name="M", subjects=["m"])
    consumer = account.create(stream, name="C", ack_policy="explicit", mem_storage=True)
    assert consumer.files.files is None
    consumer.files.changed(account.now, must_precede_answer=True)
    consumer.files.save_config()
    consumer.files.remove()
    assert not consumer.files.has_state_file
