"""An error is a finding that fails, with its remedy."""

from __future__ import annotations

from jetstream_spark.command.finding import FAIL, Finding, failed
from jetstream_spark.errors import StreamNotFoundError


def test_an_error():
    found = failed("read", StreamNotFoundError("no stream.", "Make it."))
    assert found == Finding(FAIL, "read", "[STREAM_NOT_FOUND] no stream.", "Make it.")
