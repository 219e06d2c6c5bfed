"""What a turn has time to deliver."""

from __future__ import annotations

from jetstream_server.core.deliveries import (
    DELIVERIES_OF_TURN_MAX,
    MESSAGES_OF_DELIVERY,
    SUBJECTS_OF_TURN_MAX,
    Deliveries,
    cost_of,
)


def test_each_turn_has_the_same_time() -> None:
    deliveries = Deliveries()
    deliveries.left -= 2 * DELIVERIES_OF_TURN_MAX
    deliveries.subjects_left -= 2 * SUBJECTS_OF_TURN_MAX
    deliveries.begin()
    assert deliveries.left == DELIVERIES_OF_TURN_MAX
    assert deliveries.subjects_left == SUBJECTS_OF_TURN_MAX


def test_either_may_be_spent() -> None:
    deliveries = Deliveries()
    deliveries.left = 1
    assert not deliveries.are_spent
    deliveries.left = 0
    assert deliveries.are_spent
    deliveries.begin()
    deliveries.subjects_left = 0
    assert deliveries.are_spent


def test_messages_that_come_together_cost_less() -> None:
    assert cost_of(1, 100) < 110
    assert cost_of(MESSAGES_OF_DELIVERY, 100) == 200
    assert cost_of(3, 1) == 1


def test_a_short_turn_has_time_for_a_part() -> None:
    deliveries = Deliveries()
    deliveries.begin(part=3)
    assert deliveries.left == DELIVERIES_OF_TURN_MAX // 3
    assert deliveries.subjects_left == SUBJECTS_OF_TURN_MAX // 3
    assert deliveries.most == DELIVERIES_OF_TURN_MAX
    deliveries.begin()
    assert deliveries.left == DELIVERIES_OF_TURN_MAX
