"""What a turn takes on, and who waits."""

from __future__ import annotations

import pytest
from jetstream_server.core.promises import PROMISED_UNITS_MAX
from jetstream_server.core.workload import (
    FILE_UNITS,
    PART_OF_FRESH,
    REQUEST_UNITS,
    UNIT_BYTES,
    UNIT_NS,
    UNITS_OF_TIMERS,
    UNITS_OF_TURN,
    Workload,
    units_of,
)


def test_a_turn_takes_on_so_much_and_the_others_go_on_in_their_order() -> None:
    workload = Workload(2 * FILE_UNITS)
    heard: list[str] = []
    assert workload.takes(FILE_UNITS)
    assert workload.takes(FILE_UNITS)
    assert not workload.takes(1)
    assert not workload.is_due
    workload.wait(lambda: heard.append("a"))
    workload.wait(lambda: heard.append("b"))
    assert workload.is_due
    workload.begin()
    assert heard == ["a", "b"]
    assert not workload.is_due
    assert workload.takes(1)


def test_who_got_nothing_goes_before_who_asks_for_more() -> None:
    workload = Workload(10)
    heard: list[str] = []

    def want(client: str, units: int) -> None:
        if not workload.takes(units, client):
            workload.wait(lambda: (heard.append(client), want(client, units))[0], client)

    for _ in range(2):
        want("flood", 10)
    for client in ("a", "b"):
        want(client, 3)
    want("flood", 10)
    for _ in range(3):
        workload.begin()
    # In the second turn both of the others got theirs, and the flood went on behind them.
    assert heard[:2] == ["a", "b"]
    assert heard.count("a") == heard.count("b") == 1
    workload.begin()
    assert not workload.waiting


def put_off(workload: Workload, client: str) -> None:
    """Have a client wait that asks for all that a turn takes on, as often as it goes on."""

    def go_on() -> None:
        while workload.takes(1, client):
            pass
        workload.wait(go_on, client)

    go_on()


def test_who_was_put_off_leaves_a_part_of_the_turn_to_who_comes_new() -> None:
    workload = Workload(9)
    for client in ("a", "b"):
        put_off(workload, client)
    assert workload.used == 9
    for _ in range(3):
        workload.begin(hears=True, has_fresh=True)
        assert workload.used == 6  # both of them together
        assert workload.takes(3, "new")
        assert not workload.takes(1, "new")
    workload.begin(hears=True)
    assert workload.used == 9  # nobody else is there


@pytest.mark.parametrize("what", ["units", "slice", "other"])
def test_after_a_long_turn_a_short_one_hears_those_who_come_new(what: str) -> None:
    workload = Workload(9)
    heard: list[str] = []
    workload.begin()
    if what == "slice":
        assert workload.takes_slice(0)
    else:
        assert workload.takes(9 if what == "units" else 1, "a")
    workload.wait(lambda: heard.append("a"), "a")
    workload.end(is_long=what == "other")
    workload.begin(hears=True, has_fresh=True)
    assert workload.is_short and heard == []
    assert not workload.takes_slice(0)
    assert workload.takes(3, "new")
    assert workload.is_spent
    assert workload.timer_units == UNITS_OF_TIMERS / PART_OF_FRESH
    assert workload.is_due
    workload.end(is_long=True)
    workload.begin(hears=True, has_fresh=True)  # not another short one, whatever was heard
    assert not workload.is_short and heard == ["a"]
    assert workload.takes(9, "a")
    assert workload.timer_units == UNITS_OF_TIMERS


def test_a_turn_is_not_short_if_nobody_comes_new_or_the_last_one_was_not_long() -> None:
    workload = Workload(9)
    workload.begin()
    assert workload.takes(9)
    workload.end()
    workload.begin(hears=True)
    assert not workload.is_short
    assert workload.takes(5)
    workload.end()
    workload.begin(hears=True, has_fresh=True)
    assert not workload.is_short


def test_what_a_request_was_worth_shows_when_it_is_answered() -> None:
    workload = Workload(10)
    assert workload.takes(1)
    workload.spend(9)
    assert not workload.takes(1)
    workload.begin()
    assert workload.takes(10)


def test_a_request_that_is_worth_more_than_a_turn_has_one_of_its_own() -> None:
    workload = Workload(10)
    assert workload.takes(1000)
    assert not workload.takes(1)
    workload.begin()
    assert workload.takes(1)
    assert not workload.takes(1000)


def test_while_the_disk_is_behind_only_what_makes_files_waits() -> None:
    workload = Workload(1000)
    workload.is_held = True
    heard: list[str] = []
    assert not workload.takes(units_of(0, is_costly=True))
    assert workload.takes(units_of(0, is_costly=False))
    workload.wait(lambda: heard.append("files"), makes_files=True)
    workload.begin()
    assert not heard and not workload.is_due
    workload.wait(lambda: heard.append("a"))
    assert workload.is_due
    workload.begin()  # others had to wait for the disk as well, a publish as long as for a flush
    assert heard == ["a"] and not workload.is_due
    workload.wait(lambda: heard.append("b"))
    workload.is_held = False
    assert workload.is_due
    workload.begin()
    assert heard == ["a", "files", "b"] and not workload.is_due


def test_what_is_long_is_worth_more() -> None:
    assert units_of(0, is_costly=False) == REQUEST_UNITS
    assert units_of(UNIT_BYTES, is_costly=False) == REQUEST_UNITS + 1
    assert units_of(10 * UNIT_BYTES, is_costly=True) == FILE_UNITS + 10


def test_a_short_turn_does_no_slice_even_for_who_has_waited() -> None:
    workload = Workload(9)
    workload.begin(hears=True)
    put_off_in = workload.turn
    assert not workload.takes_slice(put_off_in)
    workload.end(is_long=True)
    workload.begin(hears=True, has_fresh=True)
    assert workload.is_short and not workload.takes_slice(put_off_in)
    workload.end()
    workload.begin(hears=True)
    assert workload.takes_slice(put_off_in)


def test_a_turn_has_one_slice_and_none_before_the_answers_to_clients() -> None:
    workload = Workload()
    assert all(workload.takes_slice(0) for _ in range(3))  # without turns nobody waits for another
    workload.begin(hears=False)
    assert workload.takes_slice(0)
    assert not workload.takes_slice(0)
    workload.begin(hears=True)
    assert not workload.takes_slice(0)
    put_off_in = workload.turn
    assert not workload.takes_slice(put_off_in)  # not in what follows in the same turn either
    workload.end()
    assert not workload.takes_slice(0)
    workload.begin(hears=True)
    assert workload.takes_slice(put_off_in)
    workload.begin(hears=False)
    workload.end()
    assert not workload.takes_slice(put_off_in)


def test_who_has_promised_much_waits_until_it_has_arrived_and_others_go_on() -> None:
    workload = Workload(10)
    heard: list[str] = []
    workload.promise(PROMISED_UNITS_MAX + 1, "A")
    assert workload.is_spent, "it is work of this turn as well"
    workload.promises.made_for("wide")
    workload.promises.flush_began()
    workload.begin()
    assert not workload.takes(0, "wide") and workload.is_spent_for("wide")
    assert workload.takes(1, "other") and not workload.is_spent_for("other")
    assert workload.takes(1), "nobody in particular"
    workload.wait(lambda: heard.append("wide"), "wide")
    assert not workload.is_due, "no turn helps before the flush is over"
    workload.begin()
    assert not heard
    workload.promises.flush_ended()
    workload.promises.delivered(())
    assert workload.is_due
    workload.begin()
    assert heard == ["wide"] and not workload.is_due
    assert workload.takes(1, "wide")


def test_it_is_looked_who_may_go_on_only_when_something_has_arrived() -> None:
    workload = Workload(10)
    promises = workload.promises
    workload.promise(PROMISED_UNITS_MAX + 1, "A")
    promises.made_for("a")
    asked: list[object] = []
    holds_up = promises.holds_up

    def noted(client: object) -> bool:
        asked.append(client)
        return holds_up(client)

    promises.holds_up = noted  # type: ignore[method-assign]
    for _ in range(100):
        workload.wait(lambda: None, "a")
    workload.begin()
    asked.clear()
    for _ in range(10):
        workload.begin()
        assert not workload.is_due
    assert not asked
    promises.flush_began()
    promises.flush_ended()
    promises.delivered(())
    assert workload.is_due
    workload.begin()
    assert not workload.is_due and len(asked) == 101


def test_what_takes_longer_than_a_short_turn_waits_for_a_long_one():
    workload = Workload(60)
    workload.begin()
    workload.spend(60)
    workload.end()
    assert not workload.is_too_short_for(1000), "whatever it takes, a whole turn has to do"
    workload.begin(has_fresh=True)
    assert workload.is_short
    assert workload.is_too_short_for(21) and not workload.is_too_short_for(20)
    workload.end()
    workload.begin(has_fresh=True)
    assert not workload.is_too_short_for(1000)


class Clock:
    """Stands still but for what it is told."""

    def __init__(self) -> None:
        self.ns = 1_000

    def __call__(self) -> int:
        return self.ns


def test_what_takes_long_by_the_clock_is_worth_as_much() -> None:
    clock = Clock()
    workload = Workload(10, clock)
    workload.begin()
    assert workload.takes(1, "a")
    clock.ns += 3 * UNIT_NS
    assert workload.takes(1, "b")
    assert workload.used == 4, "what was taken on has taken as long as three, and another one"
    clock.ns += 3 * UNIT_NS
    workload.look_at_clock()
    assert workload.used == 6, "both together, and not what each counted for besides"
    workload.spend(3)
    workload.look_at_clock()
    assert workload.used == 9, "it counted for more than it has taken"
    clock.ns += 4 * UNIT_NS
    assert not workload.takes(0.5, "c")
    workload.end()
    assert workload.was_long
    workload.begin()
    assert workload.used == 0 and workload.takes(1, "c")


def test_the_first_request_of_a_turn_is_taken_on_however_long_others_were_heard() -> None:
    """Or whoever asks for something would wait for as long as others say much."""
    clock = Clock()
    workload = Workload(10, clock)
    for _ in range(3):
        workload.begin()
        clock.ns += 50 * UNIT_NS
        assert workload.takes(1, "a")
        assert not workload.takes(1, "b")


def test_a_turn_is_over_by_the_clock() -> None:
    clock = Clock()
    workload = Workload(10, clock)
    for _ in range(2):
        workload.begin()
        clock.ns += UNITS_OF_TURN * UNIT_NS - 1
        assert not workload.is_over
        clock.ns += 1
        assert workload.is_over


def test_between_two_turns_there_is_a_part_of_the_time() -> None:
    clock = Clock()
    workload = Workload(UNITS_OF_TURN, clock)
    workload.begin()
    workload.spend(UNITS_OF_TURN / 2)
    workload.end()
    clock.ns += 500 * UNIT_NS  # in which nothing happened
    workload.begin_after_flush()
    assert workload.used == 0 and not workload.is_over
    assert workload.timer_units == UNITS_OF_TIMERS / PART_OF_FRESH
    clock.ns += 2 * UNIT_NS
    workload.look_at_clock()
    assert workload.used == 2
    workload.begin(has_fresh=True)
    assert workload.timer_units == UNITS_OF_TIMERS and not workload.is_short


def test_who_got_something_that_counted_for_nothing_is_new_in_the_next_turn() -> None:
    """Else it would be behind all others for as long as nothing counts."""
    workload = Workload(10)
    workload.begin()
    assert workload.takes(0, "a")
    workload.end()
    workload.begin()
    heard: list[str] = []
    workload.spend(10, "b")
    for client in ("b", "a"):
        workload.wait(lambda client=client: heard.append(client), client)  # type: ignore[misc]
    workload.begin()
    assert heard == ["a", "b"]
