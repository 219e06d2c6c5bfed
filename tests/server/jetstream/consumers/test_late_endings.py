"""Requests of a consumer that is gone."""

from __future__ import annotations

from typing import Any

import pytest
from jetstream_server.core.promises import PROMISED_UNITS_MAX, Promises
from jetstream_server.jetstream.consumers import late_endings
from jetstream_server.jetstream.consumers.late_endings import LateEndings
from jetstream_server.jetstream.consumers.pull_request import PullRequest
from jetstream_server.structures.deadline_heap import DeadlineHeap

NOW = 10**18


class Telling:
    """A consumer's delivery that notes who is told what."""

    def __init__(self) -> None:
        self.told: list[tuple[bytes, bytes]] = []

    def status(self, reply: bytes, line: bytes) -> None:
        self.told.append((reply, line))


@pytest.mark.parametrize("count", [0, 1, 4, 5, 10, 11])
def test_they_are_told_some_in_each_turn(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(late_endings, "TOLD_OF_TURN_MAX", 5)
    deadlines: DeadlineHeap[Any] = DeadlineHeap()
    delivery: Any = Telling()
    requests = [PullRequest(b"r%d" % number) for number in range(count)]
    LateEndings(requests, b"409 Consumer Deleted", delivery, deadlines, Promises()).begin(NOW)
    counts = [len(delivery.told)]
    while due := deadlines.pop_due(NOW):
        for each in due:
            each.tick(NOW)
        counts.append(len(delivery.told))
    assert delivery.told == [(each.reply, b"409 Consumer Deleted") for each in requests]
    assert all(after - before <= 5 for before, after in zip([0, *counts], counts, strict=False))
    assert counts[0] == min(count, 5)


def test_no_more_are_told_while_what_was_said_has_yet_to_reach_very_many() -> None:
    deadlines: DeadlineHeap[Any] = DeadlineHeap()
    delivery: Any = Telling()
    promises = Promises()
    promises.make(PROMISED_UNITS_MAX + 1)
    requests = [PullRequest(b"r%d" % number) for number in range(3)]
    LateEndings(requests, b"409 Consumer Deleted", delivery, deadlines, promises).begin(NOW)
    assert len(delivery.told) == 1, "one at least"
    (waiting,) = deadlines.pop_due(NOW)
    promises.flush_began()
    promises.flush_ended()
    promises.delivered()
    waiting.tick(NOW)
    assert [reply for reply, _ in delivery.told] == [b"r0", b"r1", b"r2"]


def test_all_that_wait_hear_of_a_deletion(account: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_endings, "TOLD_OF_TURN_MAX", 2)
    stream = account.stream()
    account.subscribe(b"_INBOX.>")
    consumer = account.create(stream, durable_name="C", ack_policy="explicit")
    for _ in range(5):
        account.pull(consumer, b"1")
    consumer.delete(account.now)
    account.advance(1)
    assert [message.status for message in account.client.take()] == ["409 Consumer Deleted"] * 5
