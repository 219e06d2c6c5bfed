"""What the table of waits is made of, and one row of it."""

from __future__ import annotations

from benchmarks.servers import OURS
from benchmarks.stall import __main__ as stall
from benchmarks.stall.inputs import INPUTS, Input
from benchmarks.stall.witness import Waits


def test_percentiles_are_those_of_all_waits():
    waits_ns = [n * 1_000_000 for n in range(1, 1001)]
    shares = [stall.percentile_ms(waits_ns, share) for _, share in stall.SHARES]
    assert shares == [501.0, 991.0, 1000.0, 1000.0]


def test_a_row_has_a_cell_for_each_heading():
    outcome = stall.Outcome(Waits([1_000_000], [2_000_000]), 0.5, 0.25)
    cells = stall.row("x", OURS, outcome)
    assert len(cells) == len(stall.HEAD)
    assert cells[2:] == ["1.0"] * 4 + ["2.0"] * 4 + ["0.50", "0.25"]
    assert stall.row("x", OURS, stall.Outcome(Waits([], []), failure="why")) == ["x", "ours", "why"]


def test_names_are_unique():
    names = [each.name for each in INPUTS]
    assert len(set(names)) == len(names)


def test_a_server_that_is_kept_busy_shows_in_the_waits():
    requests = next(each for each in INPUTS if each.name == "50,000 unknown keys")
    outcome = stall.measure(OURS, requests)
    assert not outcome.failure
    assert len(outcome.waits.pings_ns) > 50 and len(outcome.waits.publishes_ns) > 50
    assert outcome.elapsed_s > 0


def test_an_input_that_fails_is_said_to(monkeypatch):
    def fail(port: int) -> None:
        raise OSError("gone")

    assert "gone" in stall.measure(OURS, Input("x", fail)).failure
