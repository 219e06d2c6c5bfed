"""Each scenario must give the same transcript on the bundled and on the genuine server."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.genuine


def test_same_transcript(scenario, lanes, record_property):
    outcome = lanes.begin(scenario).result()
    if scenario.deviates:
        assert outcome.ours != outcome.theirs, f"agrees by now, yet: {scenario.deviates}"
        record_property("deviates", True)
    else:
        assert outcome.ours == outcome.theirs
