"""Runs of messages with pauses behind every few costly requests."""

from __future__ import annotations

from random import Random

import pytest
from jetstream_server.node.costly_requests import COSTLY_OF_TURN_MAX, PAUSE, with_pauses
from jetstream_server.protocol.ops import Ping, PubRun

COSTLY = [
    b"$JS.API.STREAM.CREATE.S",
    b"$JS.API.STREAM.LIST",
    b"$JS.API.CONSUMER.CREATE.S.C",
    b"$JS.API.CONSUMER.DURABLE.CREATE.S.C",
]
CHEAP = [b"a", b"$JS.API.INFO", b"$JS.API.STREAM.INFO.S", b"$JS.API.CONSUMER.MSG.NEXT.S.C"]


def run_of(subjects: list[bytes]) -> PubRun:
    return PubRun.of((subject, b"r", b"", b"%d" % at) for at, subject in enumerate(subjects))


@pytest.mark.parametrize("seed", range(40))
def test_everything_stays_in_order_and_pauses_come_behind_a_few(seed):
    random = Random(seed)
    subjects = random.choices(COSTLY + CHEAP, k=random.randrange(1, 40))
    ops = with_pauses([Ping(), run_of(subjects), Ping()])
    assert isinstance(ops[0], Ping) and isinstance(ops[-1], Ping)
    said: list[tuple[bytes, bytes]] = []
    since_pause = 0
    for op in ops[1:-1]:
        if op is PAUSE:
            assert since_pause == COSTLY_OF_TURN_MAX
            since_pause = 0
            continue
        for at in range(op.count):
            said.append((op.subject(at), op.payload(at)))
            since_pause += op.subject(at) in COSTLY
        assert since_pause <= COSTLY_OF_TURN_MAX
    assert said == [(subject, b"%d" % at) for at, subject in enumerate(subjects)]


def test_what_is_not_costly_stays_as_it_is():
    runs = [run_of([b"a"] * 50), run_of(CHEAP * 9), run_of(COSTLY)]
    assert all(a is b for a, b in zip(with_pauses(runs), runs, strict=True))


def test_payloads_are_not_searched():
    """A search through all of the bytes took twice as long as the whole way to a subscriber."""
    ops = [Ping(), PubRun.of((b"a", b"", b"", COSTLY[0]) for _ in range(50)), run_of(COSTLY)]
    assert with_pauses(ops) is ops
