"""Subscriptions that end together, or are to be looked at again."""

from __future__ import annotations

from typing import Any

import pytest
from jetstream_server.core.shared_mark import SharedMark
from jetstream_server.core.subscription import Subscription

from tests.traced_lines import lines_of

NOBODY: Any = None


@pytest.fixture
def mark() -> SharedMark:
    return SharedMark()


def test_it_is_not_set_until_it_is_and_stays(mark: SharedMark) -> None:
    assert not mark
    for _ in range(2):
        mark.set()
        assert mark


def test_all_are_closed_whose_mark_it_is(mark: SharedMark) -> None:
    made = [Subscription(b"a", NOBODY, closed=mark) for _ in range(3)]
    others = [Subscription(b"a", NOBODY, closed=SharedMark()), Subscription(b"a", NOBODY)]
    assert not any(each.closed for each in made)
    mark.set()
    assert all(each.closed for each in made) and not any(each.closed for each in others)


def test_one_may_be_closed_before(mark: SharedMark) -> None:
    one, another = (Subscription(b"a", NOBODY, closed=mark) for _ in range(2))
    one.closed = True
    assert one.closed and not another.closed


def test_however_many_it_marks_it_takes_as_much() -> None:
    lines = []
    for count in (10, 1000):
        mark = SharedMark()
        made = [Subscription(b"a", NOBODY, closed=mark) for _ in range(count)]
        lines.append(lines_of(mark.set))
        assert all(each.closed for each in made)
    assert lines[0] == lines[1]


def test_to_ask_for_it_nothing_is_called(mark: SharedMark) -> None:
    made = [Subscription(b"a", NOBODY, closed=closed) for closed in (False, mark)]
    lines = [lines_of(lambda one=one: [not one.closed] * 100) for one in made]  # type: ignore[misc]
    assert lines[0] == lines[1]
