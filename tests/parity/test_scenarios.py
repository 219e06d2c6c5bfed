"""Each scenario must give the same transcript on the bundled and on the genuine server."""

from __future__ import annotations

import pytest

# A test waits for its turn too.
pytestmark = [pytest.mark.genuine, pytest.mark.timeout(600)]


def test_same_transcript(scenario, lanes, schemas, record_property):
    outcome = lanes.outcome(scenario)
    if scenario.deviates:
        assert outcome.difference, f"agrees by now, yet: {scenario.deviates}"
        record_property("deviates", True)
        return
    assert not outcome.difference, outcome.difference
    record_property("title", scenario.title)
    record_property("plays", outcome.plays)
    compared = schemas.compare(outcome.ours.documents, outcome.theirs.documents)
    assert not compared.faults, "\n".join(compared.faults)
    record_property("valid", dict(compared.valid))
    record_property("excused", dict(compared.excused))
    record_property("unknown", sorted(compared.unknown))
    record_property("events", len(outcome.ours.events))
