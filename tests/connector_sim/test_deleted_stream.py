"""A stream that is deleted while rows are on their way is said to be gone, at once."""

from __future__ import annotations

from types import ModuleType

import pytest

FORMS = {
    "ledger": {"stream": "S"},
    "no ledger": {"stream": "S", "ledger": "none"},
    "work queue": {"stream": "S", "retention": "workqueue"},
    "atomic": {"stream": "S", "publishMode": "atomic"},
    "fast": {"stream": "S", "publishMode": "fast"},
    "bucket": {"bucket": "B"},
    "objects": {"objectStore": "B"},
}


@pytest.mark.parametrize("form", FORMS)
def test_a_stream_that_was_deleted_is_named_at_once(deleted_stream: ModuleType, form: str) -> None:
    scene = deleted_stream.DeletedStreamScene(**FORMS[form])
    error, after_s = deleted_stream.play_deleted(scene)
    assert error.condition == "STREAM_NOT_FOUND", str(error)
    assert f"'{scene.stream}'" in error.what
    assert "make it again" in error.remedy
    assert after_s < 8


def test_where_only_the_subject_is_known_it_is_said_that_nobody_collects_it(
    deleted_stream: ModuleType,
) -> None:
    scene = deleted_stream.DeletedStreamScene()
    error, after_s = deleted_stream.play_deleted(scene)
    assert error.condition == "PUBLISH_REFUSED", str(error)
    assert "Create a stream" in error.remedy
    assert after_s < 8


@pytest.mark.parametrize("form", FORMS)
def test_a_server_that_is_away_is_waited_for(deleted_stream: ModuleType, form: str) -> None:
    deleted_stream.play_outage(deleted_stream.DeletedStreamScene(**FORMS[form]))
