"""Who is heard in a turn: those who come with little go ahead, and nobody waits for ever."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

import pytest
from jetstream_server.node.session_queue import (
    GROUP_NS,
    LITTLE_BYTES,
    OP_NS,
    OPS_OF_SESSION_MAX,
    OPS_OF_SESSION_MIN,
    SessionQueue,
)

TURN = 1000
OP_BYTES = 10


class Said:
    """A session with so many operations that are yet to be acted on."""

    def __init__(self, ops: int) -> None:
        self.ops = ops
        self.unheard_bytes = ops * OP_BYTES
        self.is_put_off = False
        self.heard_in: list[int] = []  # turns


class Time:
    """What deliveries have of a turn, as far as it is asked for."""

    def __init__(self, is_late: Callable[[], bool] = lambda: False) -> None:
        self._is_late = is_late

    @property
    def are_spent(self) -> bool:
        return self._is_late()


class Turns:
    """Turns of a queue."""

    def __init__(self) -> None:
        self.ns = 0  # by the clock
        self.op_ns = 0  # that an operation takes
        self.queue = SessionQueue(TURN, lambda: self.ns)
        self.number = 0
        self.late_after = TURN * 1000  # operations of a turn for whose messages there is time

    def come(self, *sessions: Said) -> None:
        for session in sessions:
            self.queue.note(session)  # type: ignore[arg-type]
        self.check()

    def take(self, *, is_short: bool = False) -> int:
        """Have a turn; return how many operations were acted on."""
        self.number += 1
        acted = [0]

        def hear(session: Said, ops_max: int, now: int) -> int:
            assert 0 < ops_max <= OPS_OF_SESSION_MAX
            done = min(session.ops, ops_max)
            session.ops -= done
            session.unheard_bytes = 0
            session.heard_in.append(self.number)
            acted[0] += done
            self.ns += done * self.op_ns
            if session.ops:
                self.come(session)
            return max(done, 1)

        time = Time(lambda: acted[0] >= self.late_after)
        self.queue.take_turn(hear, time, 0, is_short=is_short)  # type: ignore[arg-type]
        self.check()
        return acted[0]

    def check(self) -> None:
        queue = self.queue
        assert queue.is_any == bool(queue._fresh or queue._waiting or queue._late)


@pytest.fixture
def turns() -> Turns:
    return Turns()


def test_whoever_comes_with_little_goes_ahead_of_a_crowd(turns):
    crowd = [Said(200) for _ in range(100)]
    turns.come(*crowd)
    assert turns.take() == TURN
    while turns.queue.is_any:
        quiet = Said(1)
        turns.come(quiet)
        turns.take()
        assert quiet.heard_in == [turns.number]
    assert turns.number < 100 * 200 / (TURN / 2) and not any(each.ops for each in crowd)


@pytest.mark.parametrize("others", [1, 10, 100, 1000])
def test_whoever_says_little_with_a_crowd_that_says_much_is_heard_at_once(turns, others):
    quiet = Said(LITTLE_BYTES // OP_BYTES)
    turns.come(*(much := [Said(400) for _ in range(others)]), quiet)
    turns.take()
    assert quiet.ops == 0 and any(each.ops < 400 for each in much)


@pytest.mark.parametrize("others", [1, 10, 100, 1000])
def test_whoever_comes_with_a_crowd_waits_for_a_small_share_of_each(turns, others):
    quiet = Said(1)
    turns.come(*(Said(100) for _ in range(others)), quiet)
    while quiet.ops:
        turns.take()
    assert turns.number <= 1 + others * OPS_OF_SESSION_MIN // TURN


def test_a_crowd_that_says_little_leaves_who_waits_half_of_the_turn(turns):
    waiting = [Said(2000) for _ in range(4)]
    turns.come(*waiting)
    turns.take()
    left = sum(each.ops for each in waiting)
    turns.come(*(Said(50) for _ in range(100)), *(Said(400) for _ in range(100)))
    turns.take()
    assert left - sum(each.ops for each in waiting) == TURN // 2


def test_the_only_one_has_a_large_share(turns):
    turns.come(one := Said(2 * OPS_OF_SESSION_MAX))
    assert turns.take() == OPS_OF_SESSION_MAX == one.ops


def test_those_who_wait_have_their_share_whatever_comes(turns):
    waiting = [Said(100) for _ in range(30)]
    turns.come(*waiting)
    turns.take()
    while any(each.ops for each in waiting):
        turns.come(*(Said(50) for _ in range(20)))
        turns.take()
        assert turns.number < 20


def test_those_for_whose_messages_there_was_no_time_come_first(turns):
    turns.late_after = 10
    spent, late = Said(10), Said(700)
    turns.come(spent, late)
    turns.take()
    assert late.ops == 700 - OPS_OF_SESSION_MAX
    turns.come(*(Said(1) for _ in range(20)))
    order: list[Said] = []

    def hear(session: Said, ops_max: int, now: int) -> int:
        order.append(session)
        return 1

    turns.queue.take_turn(hear, Time(), 0)  # type: ignore[arg-type]
    assert order[0] is late and len(order) == 21


def test_in_a_short_turn_those_who_come_new_are_heard_and_the_others_stay_in_their_order(turns):
    turns.late_after = 10
    spent, late, *waiting = (Said(700) for _ in range(5))
    turns.come(spent, late, *waiting)
    turns.take()
    heard = [len(each.heard_in) for each in (spent, late, *waiting)]
    quiet, much, put_off = Said(1), Said(2000), Said(1)
    put_off.is_put_off = True
    turns.come(put_off)
    assert not turns.queue.has_fresh
    turns.come(quiet, much)
    assert turns.queue.has_fresh
    assert turns.take(is_short=True) == 1 + OPS_OF_SESSION_MAX
    assert not turns.queue.has_fresh
    assert quiet.ops == 0 and much.ops == 1500
    assert [len(each.heard_in) for each in (spent, late, *waiting)] == heard
    order: list[Said] = []

    def hear(session: Said, ops_max: int, now: int) -> int:
        order.append(session)
        return 1

    turns.queue.take_turn(hear, Time(), 0)  # type: ignore[arg-type]
    assert order == [late, *waiting, spent, put_off, much]


def test_who_is_gone_is_not_heard(turns):
    ones = [Said(800) for _ in range(4)]
    turns.come(*ones)
    turns.late_after = 1
    turns.take()
    heard = [len(each.heard_in) for each in ones]
    for each in ones:
        turns.queue.forget(each)  # type: ignore[arg-type]
    assert not turns.queue.is_any
    turns.take()
    assert [len(each.heard_in) for each in ones] == heard


@pytest.mark.parametrize("seed", range(20))
def test_nobody_is_forgotten_or_heard_for_nothing(turns, seed):
    random, all_of_them = Random(seed), list[Said]()
    turns.late_after = random.choice([1, 300, 10_000])
    turns.op_ns = random.choice([0, OP_NS // 2, 3 * OP_NS, TURN * OP_NS])
    for _ in range(60):
        some = [Said(random.choice([1, 20, 600, 2500])) for _ in range(random.randrange(8))]
        all_of_them += some
        turns.come(*some)
        if all_of_them and random.random() < 0.5:
            again = random.choice(all_of_them)
            again.ops += 1
            again.unheard_bytes += OP_BYTES
            turns.come(again)
        is_short = turns.queue.has_fresh and random.random() < 0.3
        assert turns.take(is_short=is_short) <= TURN
    while turns.queue.is_any:
        assert turns.take()
    assert not any(each.ops for each in all_of_them)


@pytest.mark.parametrize("fresh", [1, LITTLE_BYTES // OP_BYTES + 1])
def test_whoever_waits_is_heard_whatever_what_others_say_anew_counts_for(turns, fresh):
    """Of a client whose messages are looked at each counts for many; one that always said something
    new was heard alone."""
    patient, others = Said(TURN), [Said(0) for _ in range(2)]
    turns.come(patient, Said(1))
    turns.take()
    assert patient.ops

    def hear(session, ops_max, now):
        if session is not patient:
            session.ops = 0
            return TURN  # more than it was to be
        patient.heard_in.append(turns.number)
        patient.ops = max(patient.ops - ops_max, 0)
        if patient.ops:
            turns.come(patient)
        return ops_max

    for _ in range(9):
        turns.number += 1
        for other in others:
            other.ops, other.unheard_bytes = fresh, fresh * OP_BYTES
        turns.come(*others)
        turns.queue.take_turn(hear, Time(), 0)
    assert not patient.ops and len(patient.heard_in) >= 3


def test_whoever_says_little_is_heard_in_each_turn_though_others_come_earlier(turns):
    patient, greedy, quiet = Said(10 * TURN), Said(0), Said(0)
    turns.come(patient, Said(1))
    turns.take()
    heard = []

    def hear(session, ops_max, now):
        heard.append(session)
        if session is greedy:
            return TURN
        session.ops = max(session.ops - ops_max, 0)
        if session.ops:
            turns.come(session)
        return 1

    for _ in range(6):
        heard.clear()
        greedy.unheard_bytes, quiet.ops, quiet.unheard_bytes = LITTLE_BYTES + 1, 1, OP_BYTES
        turns.come(greedy, quiet)
        turns.queue.take_turn(hear, Time(), 0)
        assert heard in ([quiet, greedy], [quiet, patient, greedy])


@pytest.mark.parametrize("seed", range(60))
def test_of_some_who_say_little_it_makes_no_difference_that_nobody_waits(seed, monkeypatch):
    """Both ways of hearing them, the short and the long one, hear the same ones as much."""
    random, heard = Random(seed), []
    sizes = [random.choice([1, 3, 20, 102]) for _ in range(random.choice([2, 3, 40, 400]))]
    late_after = random.choice([0, 10, 500, TURN * 1000])
    for is_long in (False, True):
        turns = Turns()
        if is_long:
            crowded = partial(turns.queue._take_crowded_turn, is_short=False)
            monkeypatch.setattr(turns.queue, "_take_quiet_turn", crowded)
        turns.late_after = late_after
        said = [Said(size) for size in sizes]
        turns.come(*said)
        queue = turns.queue
        queue._passed_over = 2
        turns.take()
        kept = [[said.index(each) for each in kept] for kept in (queue._late, queue._waiting)]
        heard.append(([each.ops for each in said], kept, queue._passed_over))
        while queue.is_any:
            turns.take()
        heard.append([each.heard_in for each in said])
    assert heard[:2] == heard[2:]


@pytest.mark.parametrize("is_late", [False, True])
def test_the_only_one_is_late_if_others_have_left_no_time(turns, is_late):
    queue, more = turns.queue, Said(2 * OPS_OF_SESSION_MAX)
    turns.come(more)

    def hear(session: Said, ops_max: int, now: int) -> int:
        queue.note(session)  # type: ignore[arg-type]
        return ops_max

    queue.take_turn(hear, Time(), 0, is_late=is_late)  # type: ignore[arg-type]
    assert list(queue._late if is_late else queue._waiting) == [more]


def test_those_who_were_put_off_are_not_heard_in_a_short_turn_however_little_they_said(turns):
    new, put_off = Said(1), Said(1)
    put_off.is_put_off = True
    turns.come(new, put_off)
    assert turns.take(is_short=True) == 1
    assert not new.ops and put_off.ops and list(turns.queue._waiting) == [put_off]


@pytest.mark.parametrize("much", [False, True])
def test_a_turn_that_takes_long_by_the_clock_hears_nobody_else(turns, much):
    """Two signatures or twenty, whatever they count for: the machine may be slow at the moment."""
    turns.op_ns = OP_NS * TURN // 20
    crowd = [Said(LITTLE_BYTES // OP_BYTES + 1 if much else 1) for _ in range(100)]
    turns.come(*crowd)
    first = 20 if much else 20 + GROUP_NS // turns.op_ns + 1
    assert turns.take() == first
    heard = [first]
    while turns.queue.is_any:
        heard.append(turns.take())
    assert max(heard) <= 24 + OPS_OF_SESSION_MIN and not any(each.ops for each in crowd)


def test_some_of_each_kind_are_heard_however_long_others_take(turns):
    """One that takes all the time of a turn, again and again, does not keep others from theirs."""
    turns.op_ns = OP_NS
    greedy = [Said(10 * TURN) for _ in range(8)]
    turns.come(*greedy)
    turns.take()
    turns.op_ns = OP_NS * TURN  # each operation takes as long as all of a turn may
    for _ in range(5):
        quiet, fresh = Said(1), Said(LITTLE_BYTES // OP_BYTES + 1)
        turns.come(quiet, fresh)
        turns.take()
        assert quiet.heard_in == fresh.heard_in == [turns.number]
        assert any(turns.number in each.heard_in for each in greedy)


def test_a_kind_has_a_little_time_of_its_own(turns):
    """Those who say little are behind those who were late, and all of them are heard if that takes
    no longer than a kind may in any case."""
    turns.late_after = 1
    late = Said(2 * OPS_OF_SESSION_MAX)
    turns.come(Said(1), late)
    turns.take()
    assert late in turns.queue._late
    quiet = [Said(1) for _ in range(8)]
    turns.come(*quiet)

    def hear(session, ops_max, now):
        turns.ns += TURN * OP_NS if session is late else GROUP_NS // 3 + 1
        session.heard_in.append(turns.number)
        return 1

    turns.number += 1
    turns.queue.take_turn(hear, Time(), 0)
    heard = [turns.number in each.heard_in for each in quiet]
    assert heard == [True] * 6 + [False] * 2, "once, and once more as none of them was put off"


@pytest.mark.parametrize("is_crowded", [False, True])
def test_whoever_was_put_off_does_not_take_the_time_of_who_says_little(turns, is_crowded):
    """They come first, or others would always be quicker; a publisher of new subjects took 20 ms of
    each turn, and whoever came with a line waited for three of them."""
    patient = Said(TURN * 5)
    if is_crowded:
        turns.come(patient, Said(1))
        turns.take()
    first, second, quiet = Said(1), Said(1), Said(1)
    first.is_put_off = second.is_put_off = True
    turns.op_ns = TURN * OP_NS
    turns.come(first, second, quiet)
    turns.take()
    assert (first.ops, second.ops, quiet.ops) == (0, 1, 0)
    turns.take()
    assert second.ops == 0


def test_those_who_were_late_leave_others_half_of_the_time_by_the_clock(turns):
    """Not only half of the operations: theirs may be the ones that take long."""
    turns.late_after = 0
    late = [Said(2 * OPS_OF_SESSION_MAX) for _ in range(40)]
    turns.come(*late)
    turns.take()
    assert list(turns.queue._late) == late
    much = [Said(LITTLE_BYTES // OP_BYTES + 1) for _ in range(40)]
    turns.come(*much)
    heard: list[Said] = []

    def hear(session: Said, ops_max: int, now: int) -> int:
        turns.ns += TURN * OP_NS // 20
        heard.append(session)
        return 1

    turns.queue.take_turn(hear, Time(), 0)  # type: ignore[arg-type]
    assert heard == late[:10] + much[:10]
