"""Reads, writes and a streaming copy go on, exactly, whatever befalls one server of three."""

from __future__ import annotations

import collections
import os
import random

import pytest

pytestmark = [pytest.mark.genuine, pytest.mark.timeout(600)]
COUNT = 20_000
# `make soak` sets CLUSTER_ROUNDS, and each round gets more.
BLOWS = 6 if "CLUSTER_ROUNDS" in os.environ else 2
# A leader that steps down may go on holding the id of a message that it has not stored, and refuses
# that message when it leads again, until the window has passed.
WINDOW_NS = 20_000_000_000
STOPPED_S = 30 if "CLUSTER_ROUNDS" in os.environ else 6


class Everything:
    """Every kind of work on one cluster, and what must be there when it is over."""

    def __init__(self, cluster, work, tag: str) -> None:
        self.cluster = cluster
        self.stored, self.written, self.copied = (
            f"{name}_{tag}" for name in ("STORED", "WRITTEN", "COPIED")
        )
        for name in (self.stored, self.written, self.copied):
            cluster.create(name, allow_direct=True, allow_batched=True, duplicate_window=WINDOW_NS)
        cluster.publish(self.stored, COUNT)
        cluster.rest(self.stored)
        self._work = work
        self._writing = work.Writing(cluster, self.written, 500)
        options = {"ledger": "none", "minDuplicateWindow": "20s"}
        self._others = work.Writing(cluster, self.written, 2000, first=1_000_000_000, **options)
        options = {"publishMode": "fast"}
        self._fast = work.Writing(cluster, self.written, 2000, first=2_000_000_000, **options)
        self._copy = work.Copy(cluster, self.written, self.copied)
        self._reading = work.Reading(cluster, self.stored, COUNT)
        self._direct = work.Reading(cluster, self.stored, COUNT, fetchMode="direct")

    @property
    def streams(self) -> tuple[str, ...]:
        return self.stored, self.written, self.copied

    def work(self):
        writes = self._writing, self._others, self._fast
        return self._work.Work(self._reading, self._direct, *writes, self._copy.step)

    def check(self) -> None:
        """All of it is there, once."""
        self.cluster.rest(*self.streams)
        while self._copy.step():
            pass
        ledger = self.cluster.info("KV_spark-jetstream-ledger")
        assert ledger["config"]["num_replicas"] == 3
        written = self._writing.numbers + self._others.numbers + self._fast.numbers
        expected = collections.Counter(written)
        for name in (self.written, self.copied):
            found = self._work.everything_in(self.cluster, name)
            assert collections.Counter(found) == expected, name


@pytest.fixture
def everything(cluster, work, request):
    return Everything(cluster, work, request.node.name.split("_")[-1].upper())


def test_leaders_step_down(everything):
    with everything.work() as work:
        everything.cluster.step_down_all(4, *everything.streams, "KV_spark-jetstream-ledger")
    assert min(work.rounds) > 0
    everything.check()


def test_a_leader_is_killed(everything):
    cluster = everything.cluster
    with everything.work():
        cluster.kill(cluster.leader(everything.written), 3)
    everything.check()


def test_a_server_is_stopped(everything):
    cluster = everything.cluster
    with everything.work():
        cluster.pause(cluster.leader(everything.written), STOPPED_S)
    everything.check()


def test_all_are_restarted_in_turn(everything):
    cluster = everything.cluster
    with everything.work():
        for at in range(3):
            cluster.restart(at)
            cluster.rest(*everything.streams)
    everything.check()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(int(os.environ.get("CLUSTER_ROUNDS", "1"))))
def test_whatever_befalls_it(cluster, work, seed):
    everything = Everything(cluster, work, f"R{seed}")
    chance = random.Random(seed)
    streams = everything.streams
    with everything.work():
        for _ in range(BLOWS):
            at = chance.choice([cluster.leader(chance.choice(streams)), chance.randrange(3)])
            what = chance.choice(["kill", "pause", "restart", "step down"])
            if what == "kill":
                cluster.kill(at, chance.uniform(0, 8))
            elif what == "pause":
                cluster.pause(at, chance.uniform(0, 12))
            elif what == "restart":
                cluster.restart(at)
            else:
                cluster.step_down_all(chance.uniform(0, 4), *streams)
            cluster.rest(*streams)
    everything.check()
