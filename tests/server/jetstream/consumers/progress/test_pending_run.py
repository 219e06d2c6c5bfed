"""One run: what is added to it, cut off it, and left of it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from jetstream_server.jetstream.consumers.progress import pending_run
from jetstream_server.jetstream.consumers.progress.pending_run import Run


def made(sequences: Iterable[int], first: int, sent_at: int) -> Run:
    of = array("Q", sequences)
    return Run(of, range(first, first + len(of)), sent_at)


def entries(run: Run) -> list[tuple[int, int, int]]:
    return list(run.pending())


def test_what_is_added_keeps_its_time_and_its_numbers() -> None:
    run = made((1, 2), 1, 10)
    run.add(array("Q", (5,)), 3, 10)
    assert run.times is None and run.consumer_seqs == range(1, 4)
    run.add(array("Q", (7, 8)), 4, 12)
    assert run.consumer_seqs == range(1, 6)
    run.add(array("Q", (9,)), 8, 13)
    assert entries(run) == [(1, 1, 10), (2, 2, 10), (5, 3, 10), (7, 4, 12), (8, 5, 12), (9, 8, 13)]
    assert (run.count, run.sent_at, run.index(8), run.index(6)) == (6, 10, 4, -1)


def test_two_runs_become_one() -> None:
    first, second = made((1, 2), 1, 10), made((4, 6), 5, 12)
    second.add(array("Q", (9,)), 7, 15)
    first.count -= len(first.take(0, 1))
    first.extend(second)
    assert entries(first) == [(2, 2, 10), (4, 5, 12), (6, 6, 12), (9, 7, 15)]
    third = made((10,), 8, 15)
    first.extend(third.compacted())
    assert entries(first)[-1] == (10, 8, 15)


def test_a_cut_and_what_is_left_keep_the_times() -> None:
    run = made(range(1, 5), 1, 10)
    run.add(array("Q", (7, 8)), 5, 12)
    run.count -= len(run.take(0, 1))
    first, rest = run.cut(3)
    assert entries(first) + entries(rest) == entries(run)
    assert (first.sent_at, rest.sent_at) == (10, 10)
    assert entries(run.cut(4)[1]) == [(7, 5, 12), (8, 6, 12)]
    assert run.cut(4)[1].sent_at == 12
    run.count -= len(run.take(1, 5))
    short = run.compacted()
    assert entries(short) == [(8, 6, 12)] and short.sent_at == 12
    assert list(short.pending_sequences()) == [8]


def test_a_run_takes_only_what_comes_after_it_in_time() -> None:
    run = made((1,), 1, 10)
    assert run.takes(1, 10) and run.takes(1, 11) and not run.takes(1, 9)
    assert run.takes(pending_run.RUN_MAX - 1, 10) and not run.takes(pending_run.RUN_MAX, 10)
    run.expired = True
    assert run.takes(1, 9), "nobody waits for it any more"
