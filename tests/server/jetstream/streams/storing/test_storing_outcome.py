"""What became of a message, in the genuine server's words; `tracing.txt` plays them beside it."""

from __future__ import annotations

import pytest
from jetstream_server.base.errors import ApiError
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.streams.messages.candidate import Candidate
from jetstream_server.jetstream.streams.storing.storing_outcome import StoringOutcome


def outcome_of(*lines: bytes, is_only: bool = False) -> tuple[StoringOutcome, Candidate]:
    block = b"NATS/1.0\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n"
    message = Candidate(b"a", b"", block, b"")
    outcome = StoringOutcome(is_only=is_only)
    outcome.begin(message)
    return outcome, message


@pytest.mark.parametrize(
    ("error", "text", "subject"),
    [
        (errors.STREAM_MESSAGE_EXCEEDS_MAXIMUM(), "maximum payload exceeded", b""),
        (errors.MESSAGE_TTL_DISABLED(), "message TTL disabled", b""),
        (errors.MESSAGE_TTL_INVALID(), "invalid per-message TTL (10165)", b"a"),
        (errors.STREAM_STORE_FAILED("maximum bytes exceeded"), "maximum bytes exceeded", b"a"),
        (errors.STREAM_SEALED(), "invalid operation on sealed stream (10109)", b""),
        (errors.STREAM_WRONG_LAST_MSG_ID('x"'), 'last msgid mismatch: "" vs "x\\""', b""),
        (errors.STREAM_WRONG_LAST_SEQUENCE_CONSTANT(), None, b""),
    ],
)
def test_refusals(error: ApiError, text: str | None, subject: bytes):
    outcome, _ = outcome_of()
    outcome.refused(error)
    assert outcome.error == (text or f"{error.description} ({error.err_code})")
    assert outcome.subject == subject


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ([b"Nats-Expected-Last-Sequence: 5"], "last sequence mismatch: 5 vs 3"),
        ([b"Nats-Expected-Last-Sequence: x"], "last sequence mismatch: 18446744073709551615 vs 3"),
        (
            [b"Nats-Expected-Last-Sequence: " + b"9" * 5000],
            "last sequence mismatch: 18446744073709551615 vs 3",
        ),
        (
            [b"Nats-Expected-Last-Sequence: 5", b"Nats-Expected-Last-Subject-Sequence: 4"],
            "last sequence by subject mismatch: 4 vs 3",
        ),
        (
            [b"Nats-Expected-Last-Sequence: 5", b"Nats-Expected-Last-Subject-Sequence: 3"],
            "last sequence mismatch: 5 vs 3",
        ),
    ],
)
def test_wrong_sequences(lines: list[bytes], text: str):
    outcome, _ = outcome_of(*lines)
    outcome.refused(errors.STREAM_WRONG_LAST_SEQUENCE(3))
    assert outcome.error == text


def test_a_duplicate_and_one_that_nobody_wants():
    outcome, _ = outcome_of()
    outcome.taken(is_new=False, is_wanted=True)
    assert (outcome.subject, outcome.error) == (b"", "msgid is duplicate")
    outcome, _ = outcome_of()
    outcome.taken(is_new=True, is_wanted=False)
    assert outcome.subject == b"a" and outcome.is_unwanted


@pytest.mark.parametrize(
    ("is_last", "is_only", "is_part"), [(0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 1, 0)]
)
def test_messages_of_a_batch(is_last: bool, is_only: bool, is_part: bool):
    lines = [b"Nats-Batch-Commit: 1"] if is_last else []
    outcome, message = outcome_of(*lines, is_only=is_only)
    assert outcome.staged(message) == bool(is_part)
    assert outcome.is_staged == (not is_last)
