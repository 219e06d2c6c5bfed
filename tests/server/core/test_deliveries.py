"""What a turn has time to deliver."""

from __future__ import annotations

from jetstream_server.core.deliveries import (
    CLIENTS_OF_TURN_MAX,
    DELIVERIES_OF_TURN_MAX,
    MESSAGES_OF_DELIVERY,
    SUBJECTS_OF_TURN_MAX,
    TURN_NS,
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
    deliveries.begin_short(3)
    assert deliveries.left == DELIVERIES_OF_TURN_MAX // 3
    assert deliveries.subjects_left == SUBJECTS_OF_TURN_MAX // 3
    assert deliveries.most == DELIVERIES_OF_TURN_MAX
    deliveries.begin()
    assert deliveries.left == DELIVERIES_OF_TURN_MAX


def test_clients_are_counted_but_for_those_of_the_turns_before() -> None:
    clients = [0] * 7
    deliveries = Deliveries(clients)
    for _ in range(3):
        clients += [0] * (CLIENTS_OF_TURN_MAX - 1)
        assert deliveries.has_time and not deliveries.are_spent
        clients += [0]
        assert not deliveries.has_time and deliveries.are_spent
        deliveries.begin()
    assert deliveries.has_time
    clients.clear()
    deliveries.begin_short(4)
    clients += [0] * (CLIENTS_OF_TURN_MAX // 4)
    assert not deliveries.has_time


def test_some_time_may_be_had_although_it_is_all_spent() -> None:
    clients: list[int] = []
    deliveries = Deliveries(clients)
    clients += [0] * 2 * CLIENTS_OF_TURN_MAX
    deliveries.left = -5
    deliveries.allow_some(4)
    assert deliveries.has_time and deliveries.left == DELIVERIES_OF_TURN_MAX // 4
    clients += [0] * (CLIENTS_OF_TURN_MAX // 4)
    assert not deliveries.has_time
    deliveries.allow_all()
    clients += [0] * 10 * CLIENTS_OF_TURN_MAX
    deliveries.left -= 10 * DELIVERIES_OF_TURN_MAX
    assert deliveries.has_time


def test_there_is_no_time_when_the_turn_has_taken_long_by_the_clock() -> None:
    ns = [5]
    deliveries = Deliveries((), lambda: ns[0])
    for part in (1, 3):
        deliveries.begin() if part == 1 else deliveries.begin_short(part)
        ns[0] += TURN_NS // part - 1
        assert deliveries.has_time and not deliveries.are_spent
        ns[0] += 2
        assert not deliveries.has_time and deliveries.are_spent
    deliveries.allow_some(4)
    ns[0] += TURN_NS // 4 - 1
    assert deliveries.has_time, "some time may be had"
    ns[0] += 1
    assert not deliveries.has_time
    deliveries.allow_all()
    ns[0] += 100 * TURN_NS
    assert deliveries.has_time
