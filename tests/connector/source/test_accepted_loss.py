"""What was lost with the user's consent is counted once and said again."""

from __future__ import annotations

import logging

import pytest

from jetstream_spark.client.blocking import BlockingHost
from jetstream_spark.fetch.data_loss import messages_expired, stream_deleted
from jetstream_spark.source.accepted_loss import WARN_AGAIN_S, AcceptedLoss


class Clock(BlockingHost):
    """A host whose clock is put forward by the test."""

    at_s = 0.0

    def now(self) -> float:
        return self.at_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_each_sequence_counts_once(clock):
    lost = AcceptedLoss(clock)
    for _ in range(3):
        lost.note("A", messages_expired("A", 1, 6), "t", 1, 6)
    assert lost.skipped == 5
    lost.note("A", messages_expired("A", 1, 9), "t", 1, 9)
    lost.note("B", messages_expired("B", 1, 2), "t", 1, 2)
    assert lost.skipped == 9
    # Another incarnation counts its sequences anew.
    lost.note("A", messages_expired("A", 1, 3), "t2", 1, 3)
    assert (lost.skipped, lost.report("A")["skipped"]) == (11, 10)


def test_a_loss_is_said_once_and_again_while_it_lasts(clock, caplog):
    lost = AcceptedLoss(clock)
    with caplog.at_level(logging.WARNING, "jetstream_spark"):
        for _ in range(50):
            lost.note("A", stream_deleted("A", 7))
        assert len(caplog.records) == 1
        clock.at_s += WARN_AGAIN_S - 1
        lost.note("A", stream_deleted("A", 7))
        assert len(caplog.records) == 1
        clock.at_s += 1
        lost.note("A", stream_deleted("A", 7))
        assert len(caplog.records) == 2
        lost.note("A", messages_expired("A", 1, 2), "t", 1, 2)
        assert "1 sequences passed over" in caplog.records[2].getMessage()


def test_the_report_names_what_is_wrong_now(clock):
    lost = AcceptedLoss(clock)
    assert lost.report("A") == {} and lost.lost_streams == []
    lost.note("A", stream_deleted("A", 7))
    assert lost.report("A")["loss"].startswith("[STREAM_DELETED] stream 'A'")
    assert lost.lost_streams == ["A"]
    lost.note_none("A")
    assert lost.report("A") == {"skipped": 0, "overtaken": 0} and lost.lost_streams == []


def test_what_went_while_a_batch_was_read_is_counted_and_said(clock, caplog):
    lost = AcceptedLoss(clock)
    with caplog.at_level(logging.WARNING, "jetstream_spark"):
        lost.note_overtaken("A", "t", 5, 5)
        assert (lost.overtaken, lost.report("A"), caplog.records) == (0, {}, [])
        lost.note_overtaken("A", "t", 3, 6)
        lost.note_overtaken("B", "t", 1, 2)
    assert (lost.overtaken, lost.skipped) == (4, 0)
    assert lost.report("A") == {"skipped": 0, "overtaken": 3} and lost.lost_streams == []
    assert "sequences 3 to 5 of stream 'A'" in caplog.records[0].getMessage()
    lost.note_none("C")
    lost.note_none("A")
    assert lost.report("A")["overtaken"] == 3
