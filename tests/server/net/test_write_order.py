"""Whoever waits for an answer is written to soon, and everybody in the end."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest
from jetstream_server.net.write_order import share_out


@dataclass(eq=False)
class Client:
    has_spoken: bool = False


def clients(spoken: int, silent: int) -> tuple[list[Client], list[Client]]:
    return [Client(True) for _ in range(spoken)], [Client() for _ in range(silent)]


def test_few_are_written_to_as_they_come() -> None:
    spoken, silent = clients(3, 5)
    together = silent + spoken
    assert share_out(together, 8) == (together, {})
    assert share_out([], 8) == ([], {})


@pytest.mark.parametrize(
    ("spoken", "silent", "count_max", "of_spoken"),
    [
        (1, 1000, 40, 1),
        (29, 1000, 40, 29),
        (1000, 1000, 40, 30),
        (1000, 3, 40, 37),
        (1000, 0, 40, 40),
        (0, 1000, 40, 0),
        (5, 5, 1, 1),
    ],
)
def test_most_of_a_turn_is_for_those_who_have_spoken(
    spoken: int, silent: int, count_max: int, of_spoken: int
) -> None:
    those, others = clients(spoken, silent)
    now, late = share_out(others + those, count_max)
    assert list(now) == those[:of_spoken] + others[: count_max - of_spoken]
    assert list(late) == others[count_max - of_spoken :] + those[of_spoken:]


def test_nobody_waits_for_ever() -> None:
    """Each turn somebody else says something, more of them than are written to."""
    random = Random(1)
    (spoken, silent), count_max = clients(100, 100), 8
    waiting = dict.fromkeys(silent)
    for turn in range(60):  # noqa: B007 how many it took is the result
        for each in random.sample(spoken, 20):
            waiting[each] = None
        now, late = share_out(list(waiting), count_max)
        assert len(now) == count_max and not set(now) & set(late)
        assert {*now, *late} == set(waiting)
        waiting = late
        if not any(each in waiting for each in silent):
            break
    assert turn == 49, "two of eight are for them"
