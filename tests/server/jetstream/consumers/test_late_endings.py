"""Requests of a consumer that is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from jetstream_server.core.workload import Workload
from jetstream_server.jetstream.consumers import late_endings
from jetstream_server.jetstream.consumers.late_endings import LateEndings
from jetstream_server.jetstream.consumers.pull_request import PullRequest
from jetstream_server.structures.deadline_heap import DeadlineHeap

NOW = 10**18


class Telling:
    """A consumer's delivery that notes who is told what."""

    def __init__(self, tell: Callable[[], None] = lambda: None) -> None:
        self.told: list[tuple[bytes, bytes]] = []
        self._tell = tell

    def status(self, reply: bytes, line: bytes) -> None:
        self.told.append((reply, line))
        self._tell()


@pytest.mark.parametrize("count", [0, 1, 4, 5, 10, 11])
def test_they_are_told_some_in_each_turn(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(late_endings, "TOLD_OF_TURN_MAX", 5)
    deadlines: DeadlineHeap[Any] = DeadlineHeap()
    delivery: Any = Telling()
    requests = [PullRequest(b"r%d" % number) for number in range(count)]
    LateEndings(requests, b"409 Consumer Deleted", delivery, deadlines, Workload()).begin(NOW)
    counts = [len(delivery.told)]
    while due := deadlines.pop_due(NOW):
        for each in due:
            each.tick(NOW)
        counts.append(len(delivery.told))
    assert delivery.told == [(each.reply, b"409 Consumer Deleted") for each in requests]
    assert all(after - before <= 5 for before, after in zip([0, *counts], counts, strict=False))
    assert counts[0] == min(count, 5)


def test_fewer_are_told_in_a_turn_when_each_is_worth_much() -> None:
    deadlines: DeadlineHeap[Any] = DeadlineHeap()
    workload = Workload()
    delivery: Any = Telling(lambda: workload.promise(25, "A"))
    requests = [PullRequest(b"r%d" % number) for number in range(7)]
    LateEndings(requests, b"409 Consumer Deleted", delivery, deadlines, workload).begin(NOW)
    counts = [len(delivery.told)]
    while due := deadlines.pop_due(NOW):
        workload.begin()
        for each in due:
            each.tick(NOW)
        counts.append(len(delivery.told))
    assert counts == [3, 6, 7]


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
