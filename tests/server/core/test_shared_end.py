"""Subscriptions that end together."""

from __future__ import annotations

from typing import Any

import pytest
from jetstream_server.core.shared_end import SharedEnd
from jetstream_server.core.subscription import Subscription

from tests.traced_lines import lines_of

NOBODY: Any = None


@pytest.fixture
def end() -> SharedEnd:
    return SharedEnd()


def test_it_has_not_come_until_it_comes_and_stays(end: SharedEnd) -> None:
    assert not end
    for _ in range(2):
        end.come()
        assert end


def test_all_are_closed_whose_end_it_is(end: SharedEnd) -> None:
    made = [Subscription(b"a", NOBODY, closed=end) for _ in range(3)]
    others = [Subscription(b"a", NOBODY, closed=SharedEnd()), Subscription(b"a", NOBODY)]
    assert not any(each.closed for each in made)
    end.come()
    assert all(each.closed for each in made) and not any(each.closed for each in others)


def test_one_may_be_closed_before(end: SharedEnd) -> None:
    one, another = (Subscription(b"a", NOBODY, closed=end) for _ in range(2))
    one.closed = True
    assert one.closed and not another.closed


def test_however_many_end_it_takes_as_much() -> None:
    lines = []
    for count in (10, 1000):
        end = SharedEnd()
        made = [Subscription(b"a", NOBODY, closed=end) for _ in range(count)]
        lines.append(lines_of(end.come))
        assert all(each.closed for each in made)
    assert lines[0] == lines[1]


def test_to_ask_for_it_nothing_is_called(end: SharedEnd) -> None:
    made = [Subscription(b"a", NOBODY, closed=closed) for closed in (False, end)]
    lines = [lines_of(lambda one=one: [not one.closed] * 100) for one in made]  # type: ignore[misc]
    assert lines[0] == lines[1]
