"""What the answers to the rows of a batch say together."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jetstream_spark.client.flow import Message
from jetstream_spark.errors import ProtocolViolationError
from jetstream_spark.sink.row_answers import RowAnswers, batch_refusal

LOST = {"code": 400, "err_code": 10176, "description": "lost"}
FULL = {"code": 429, "err_code": 10210, "description": "full"}


def answer(row: int, *, status: bytes = b"", **said: Any) -> Message:
    payload = json.dumps(said).encode() if said else b""
    headers = b"NATS/1.0 %b\r\n\r\n" % status if status else b""
    return Message(b"_INBOX.a.%010d" % row, b"1", b"", headers, payload)


def answers(*messages: Message, count: int = 4) -> RowAnswers:
    noted = RowAnswers(b"_INBOX.a.", count, "S")
    for one in messages:
        noted.note(one)
    return noted


def test_nothing_is_said_of_rows_that_are_put_aside() -> None:
    noted = answers(answer(0), answer(1))
    assert (noted.reason, noted.first_not_taken) == (None, 2)


def test_the_first_reason_that_is_no_consequence_is_the_one() -> None:
    lost, full = answer(2, error=LOST), answer(3, error=FULL)
    noted = answers(answer(0), full, lost, answer(1, status=b"503"))
    assert noted.reason is not None
    assert (noted.reason.code, noted.reason.err_code, noted.reason.at) == (503, 0, 1)
    assert (noted.reason.places.tolist(), noted.first_not_taken) == ([0, 1, 2, 3], 1)


def test_consequences_are_no_reason() -> None:
    noted = answers(answer(0), answer(1, error=LOST), answer(2, error=LOST))
    assert (noted.reason, noted.first_not_taken) == (None, 1)


def test_an_answer_that_did_not_come() -> None:
    assert answers(answer(1), answer(2)).first_not_taken == 0
    assert answers(answer(0), answer(1), answer(2)).first_not_taken == 3, "the commit itself"


def test_they_are_complete_without_the_commit() -> None:
    some = answers(answer(0), answer(2, error=LOST), answer(0))
    assert not some.are_complete
    some.note(answer(1))
    assert some.are_complete and some.reason is None
    assert answers(count=1).are_complete


def test_another_answer_to_the_commit_is_none_to_another_row() -> None:
    some = answers(answer(0), answer(2), answer(3))
    assert not some.are_complete and some.first_not_taken == 1
    some.note(answer(3, error=LOST))
    assert not some.are_complete
    some.note(answer(1))
    assert some.are_complete and some.first_not_taken == 3
    some.note(answer(3, error=FULL))
    assert some.reason is not None and some.reason.at == 3


def test_what_is_no_answer_to_a_row_is_passed_over() -> None:
    strange = [
        Message(subject, b"1", b"", b"", b'{"error":{"code":400,"err_code":10071}}')
        for subject in (b"_INBOX.a.x", b"_INBOX.a.", b"_INBOX.b.0000000000", b"s.a")
    ]
    assert answers(*strange).reason is None


def test_the_first_word_on_a_row_holds() -> None:
    noted = answers(answer(1, status=b"503"), answer(1, error=FULL))
    assert noted.reason is not None and noted.reason.code == 503


def test_what_another_stream_says() -> None:
    noted = answers(answer(0), answer(1, error=LOST, stream="T"))
    assert noted.reason is not None
    assert (noted.reason.err_code, noted.reason.text) == (
        10060,
        "stream 'T' collects this subject",
    )


def test_the_answer_to_the_batch() -> None:
    said = answer(3, error=FULL, stream="S")
    refusal = batch_refusal(said, 4, "S")
    assert refusal is not None
    assert (refusal.code, refusal.err_code, refusal.text, refusal.at) == (429, 10210, "full", None)
    assert batch_refusal(answer(3, stream="S", seq=7), 4, "S") is None


def test_what_no_stream_says() -> None:
    with pytest.raises(ProtocolViolationError, match="find out who"):
        answers(answer(1, error="no"))
