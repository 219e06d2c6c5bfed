"""A replica that lags answers like any other; what it lacks is not taken for the end."""

from __future__ import annotations

import time

import pytest

pytestmark = [pytest.mark.genuine, pytest.mark.timeout(600)]
BEFORE, AFTER = 100, 30_000
PADDING = b"x" * 2_000


@pytest.mark.parametrize("mode", ["consumer", "direct"])
def test_a_replica_that_comes_back(cluster, work, mode):
    """It was stopped while most was written, and is asked from the first moment on."""
    name = f"LAG_{mode.upper()}"
    cluster.create(name, allow_direct=True)
    cluster.publish(name, BEFORE)
    cluster.rest(name)
    leader = cluster.leader(name)
    follower = cluster.servers[(leader + 1) % 3]
    stop = BEFORE + AFTER + 1
    reading = work.Reading(cluster, name, stop - 1, first=stop - 10, fetchMode=mode)
    follower.pause()
    try:
        cluster.publish(name, AFTER, PADDING, leader)
    finally:
        follower.resume()
    until = time.monotonic() + 2
    while time.monotonic() < until:
        assert reading.sequences() == list(range(stop - 10, stop))
    cluster.rest(name)
