"""Where transcripts part is told in a few lines."""

from __future__ import annotations

import importlib

import pytest


@pytest.fixture
def difference(player):
    assert player  # it makes the package importable
    return importlib.import_module("tests.parity.transcript").difference


def test_equal_transcripts_do_not_part(difference):
    assert difference([], []) == ""
    assert difference(["> ping", "pong"], ["> ping", "pong"]) == ""


def test_the_first_line_that_differs_is_shown_with_its_step(difference):
    told = difference(
        ["> one", "1", "> two", "x" * 500 + "ours"], ["> one", "1", "> two", "x" * 500]
    )
    assert told.startswith("line 3, after > two\n")
    assert "xxxours" in told
    assert len(told) < 700


def test_a_transcript_that_ends_early_differs(difference):
    assert "(end)" in difference(["> one", "1"], ["> one"])
    assert "after the beginning" in difference([], ["1"])


def test_what_holds_a_time_has_no_size(player):
    assert player
    transcript = importlib.import_module("tests.parity.transcript")
    for digits in ("", ".5", ".123456789"):
        said = f'{{"ts":"2026-11-23T19:30:15{digits}Z"}}'
        lines = ["+OK", f"MSG rr 90 {len(said)}", said, "MSG rr 91 2", "ok", "PONG"]
        assert transcript.masked_frames(lines) == [
            "+OK",
            "MSG rr 90 <bytes>",
            '{"ts":"<time>"}',
            "MSG rr 91 2",
            "ok",
            "PONG",
        ]


def test_the_size_of_stored_advisories_is_masked_and_no_other(player):
    assert player  # it makes the package importable
    masked = importlib.import_module("tests.parity.transcript").masked
    told = '{"config":{"subjects":["$JS.EVENT.ADVISORY.STREAM.>"]},"state":{"messages":1,"bytes":22'
    assert masked(told + '4,"x":5}}') == masked(told + '5,"x":5}}')
    assert '"bytes":<bytes>,"x":5' in masked(told + '4,"x":5}}')
    other = '{"config":{"subjects":["a"]},"state":{"messages":1,"bytes":224}}'
    assert masked(other) == other
