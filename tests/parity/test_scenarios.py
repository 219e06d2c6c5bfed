"""Each scenario must give the same transcript on the bundled and on the genuine server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

pytestmark = pytest.mark.genuine


def test_same_transcript(scenario, servers, play):
    bundled, genuine = servers
    # Side by side: most of a scenario's time is waiting for timers of the servers.
    with ThreadPoolExecutor(2) as pool:
        theirs = pool.submit(play(genuine).run, scenario)
        ours = pool.submit(play(bundled).run, scenario)
        assert ours.result() == theirs.result()
