"""The order in which waiting requests are served."""

from __future__ import annotations

from jetstream_server.jetstream.consumers.pull_request import PullRequest
from jetstream_server.jetstream.consumers.waiting_requests import WaitingRequests


def waiting_of(*levels: int) -> tuple[WaitingRequests, list[PullRequest]]:
    waiting = WaitingRequests()
    requests = [PullRequest(b"%d" % number) for number in range(len(levels))]
    for request, level in zip(requests, levels, strict=True):
        waiting.add(request, level)
    return waiting, requests


def test_who_came_first_is_served_first_and_then_waits_behind_the_others() -> None:
    waiting, (a, b, c) = waiting_of(0, 0, 0)
    assert list(waiting) == [a, b, c] and len(waiting) == 3
    waiting.move_back([a])
    assert list(waiting) == [b, c, a]
    waiting.remove(c)
    assert list(waiting) == [b, a] and c not in waiting and a in waiting
    waiting.remove(a)
    waiting.remove(b)
    assert list(waiting) == [] and not waiting


def test_lower_levels_come_first_and_served_ones_stay_in_theirs() -> None:
    waiting, (a, b, c, d) = waiting_of(3, 0, 3, 10)
    assert list(waiting) == [b, a, c, d]
    waiting.move_back([a, b])
    assert list(waiting) == [b, c, a, d]
    waiting.remove(a)
    waiting.remove(c)
    assert list(waiting) == [b, d]
    waiting.remove(b)
    assert list(waiting) == [d]


def test_those_that_do_not_wait_are_known() -> None:
    waiting, _ = waiting_of(0, 0)
    impatient = PullRequest(b"r", no_wait=True)
    waiting.add(impatient, 0)
    assert list(waiting.no_wait) == [impatient]
    waiting.remove(impatient)
    assert not waiting.no_wait and len(waiting) == 2


def test_of_very_many_nobody_is_looked_for_behind_all_that_were_there() -> None:
    """The first of a hundred thousand took 30 microseconds, with each message; one more of seven
    hundred thousand took 90 ms, as dictionaries grew."""
    waiting, requests = waiting_of(*[0] * 10_000)
    (level,) = waiting._levels.values()
    assert max(map(len, level.parts)) <= 4096
    for request in requests[:9000]:
        waiting.remove(request)
    assert len(level.parts) == 1, "those before are gone with their parts"
    assert next(iter(waiting)) is requests[9000] and requests[8999] not in waiting
    served = requests[9000:9500]
    waiting.move_back(served)
    assert list(waiting) == requests[9500:] + served and len(waiting) == 1000


def test_who_waited_with_another_consumer_does_not_wait_here() -> None:
    waiting, (request, _) = waiting_of(0, 0)
    others, _ = waiting_of(0, 1)
    assert request in waiting and request not in others
