"""Attempts that follow each other, and the defects that only such attempts show."""

from __future__ import annotations

from types import ModuleType

import pytest

FORMS = {
    "late rows": {"stalls": True, "stream": "S"},
    "late rows, atomic": {"stalls": True, "stream": "S", "publishMode": "atomic"},
    "late rows, fast": {"stalls": True, "stream": "S", "publishMode": "fast"},
    "late chunks": {"stalls": True, "objectStore": "B"},
    "replaced rows": {"stalls": False, "bucket": "B", "maxInFlight": "1"},
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
        pytest.raises(AssertionError, match=r"the stream has|have chunks|revisions"),
    ):
        scene.play_attempts()
