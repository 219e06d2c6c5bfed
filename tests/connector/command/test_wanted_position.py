"""Words, sequences and times, and what a stream says to them."""

from __future__ import annotations

import pytest

from jetstream_spark.client.blocking import run
from jetstream_spark.command.checkpoint import CheckpointError
from jetstream_spark.command.wanted_position import WantedPosition, parse_positions


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (" Latest", WantedPosition(word="latest")),
        ("42", WantedPosition(sequence=42)),
        ("2026-11-21T10:00:00Z", WantedPosition(since_ns=1795255200 * 10**9)),
    ],
)
def test_what_is_a_position(text, wanted):
    assert WantedPosition.parse(text) == wanted


@pytest.mark.parametrize("text", ["", "soon", "-1", "9" * 5000, "4.5"])
def test_what_is_none(text):
    with pytest.raises(CheckpointError, match="is no position") as told:
        WantedPosition.parse(text)
    assert len(told.value.what) < 200


def test_one_position_for_all_and_another_for_one():
    found = parse_positions(["earliest", "B=7"], ["A", "B"])
    assert found == {"A": WantedPosition(word="earliest"), "B": WantedPosition(sequence=7)}
    assert list(parse_positions(["B=7"], ["A", "B"])) == ["B"]
    with pytest.raises(CheckpointError, match="does not read stream 'C', but A, B"):
        parse_positions(["C=7"], ["A", "B"])


def test_what_a_stream_holds(stream):
    for number in range(5):
        stream.control.request_message(f"{stream.subject}.a", b"%d" % number)
    stream.control.request(f"STREAM.PURGE.{stream.name}", {"seq": 3})
    state, control = stream.control.stream_state(stream.name), stream.control.inner

    def at(text: str) -> int:
        return run(WantedPosition.parse(text).in_stream(control, state))

    assert [at(text) for text in ("earliest", "latest", "3", "6")] == [3, 6, 3, 6]
    assert [at(text) for text in ("2026-01-01", "2199-01-01T00:00:00Z")] == [3, 6]
    for text in ("2", "7"):
        with pytest.raises(CheckpointError, match="it holds 3 to 5, and 6 comes next"):
            at(text)
