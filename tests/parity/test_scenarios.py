"""Each scenario must give the same transcript on the bundled and on the genuine server."""

from __future__ import annotations

import pytest

# A test waits for its turn too.
pytestmark = [pytest.mark.genuine, pytest.mark.timeout(600)]


def test_same_transcript(scenario, lanes, schemas, record_property):
    outcome = lanes.outcome(scenario)
    if scenario.deviates:
        same = outcome.ours.transcript == outcome.theirs.transcript
        assert not same, f"agrees by now, yet: {scenario.deviates}"
        record_property("deviates", True)
        return
    assert outcome.ours.transcript == outcome.theirs.transcript
    compared = schemas.compare(outcome.ours.documents, outcome.theirs.documents)
    assert not compared.faults, "\n".join(compared.faults)
    record_property("valid", dict(compared.valid))
    record_property("excused", dict(compared.excused))
    record_property("unknown", sorted(compared.unknown))
    assert outcome.ours.events == outcome.theirs.events
    record_property("events", len(outcome.ours.events))
