"""Attempts that follow each other, and the defects that only such attempts show."""

from __future__ import annotations

import itertools
from types import ModuleType
from typing import Any

import pytest

FORGOTTEN = {
    "stalls": False,
    "restarts": True,
    "bucket": "B",
    "maxInFlight": "1",
    "ledger": "none",
}
FORMS: dict[str, dict[str, Any]] = {
    "late rows": {"stalls": True, "stream": "S"},
    "late rows, atomic": {"stalls": True, "stream": "S", "publishMode": "atomic"},
    "late rows, fast": {"stalls": True, "stream": "S", "publishMode": "fast"},
    "late chunks": {"stalls": True, "objectStore": "B"},
    "replaced rows": {"stalls": False, "bucket": "B", "maxInFlight": "1"},
    "forgotten rows": FORGOTTEN,
}
# A defect of `mutants.py`, and where it shows.
SHOWS = [
    ("frames of an earlier attempt are not waited for", "late rows"),
    ("frames of an earlier attempt are not waited for", "late rows, atomic"),
    ("frames of an earlier attempt are not waited for", "late rows, fast"),
    ("an attempt does not look whether it may send", "late rows"),
    ("an attempt does not look whether it may send", "late rows, fast"),
    ("the attempt before is not outlived", "late chunks"),
    ("operations of an earlier attempt are done again", "replaced rows"),
    ("a row that a later one replaced is written again", "replaced rows"),
    ("a row that an earlier one covers stays covered", "forgotten rows"),
]


@pytest.mark.parametrize("form", FORMS)
def test_each_row_is_there_once(followed_attempt: ModuleType, form: str) -> None:
    followed_attempt.FollowedAttempt(**FORMS[form]).play_attempts()


@pytest.mark.parametrize(("name", "form"), SHOWS)
def test_planted_defects_show(
    followed_attempt: ModuleType, mutants: ModuleType, name: str, form: str
) -> None:
    scene = followed_attempt.FollowedAttempt(**FORMS[form])
    with (
        mutants.MUTANTS[name].planted(),
        pytest.raises(AssertionError, match=r"the stream has|have chunks|revisions|the keys have"),
    ):
        scene.play_attempts()


@pytest.mark.parametrize(("rows_in_flight", "step_us"), [("1", 1_000), ("32768", 250)])
def test_no_key_goes_back_wherever_an_attempt_between_ends(
    followed_attempt: ModuleType, rows_in_flight: str, step_us: int
) -> None:
    """Where it has stored anew what the server had forgotten, the next one knows all ids again."""
    for between_us in itertools.count(step=step_us):
        form = FORGOTTEN | {"maxInFlight": rows_in_flight, "between_us": between_us}
        scene = followed_attempt.FollowedAttempt(**form)
        scene.play_attempts()
        if scene.is_between_over:
            break
    assert between_us >= 4 * step_us


LOST = {
    "each": {"stream": "S", "publishMode": "each"},
    "atomic": {"stream": "S", "publishMode": "atomic"},
    "fast": {"stream": "S", "publishMode": "fast"},
}


@pytest.mark.parametrize("mode", LOST)
def test_each_row_is_there_once_though_an_answer_is_lost_for_longer_than_ids_are_remembered(
    followed_attempt: ModuleType, mode: str
) -> None:
    followed_attempt.FollowedAttempt(stalls=False, **LOST[mode]).play_lost_answer()


@pytest.mark.parametrize("mode", ["an atomic", "a fast"])
def test_it_shows_when_a_batch_is_sent_again_that_is_stored(
    followed_attempt: ModuleType, mutants: ModuleType, mode: str
) -> None:
    scene = followed_attempt.FollowedAttempt(stalls=False, **LOST[mode.split()[1]])
    with (
        mutants.MUTANTS[f"{mode} batch whose answer is lost is sent again"].planted(),
        pytest.raises(AssertionError, match="the stream has"),
    ):
        scene.play_lost_answer()
