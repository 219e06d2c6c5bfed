"""What a refusal says."""

from __future__ import annotations

import pytest

from jetstream_spark.client.flow import Message
from jetstream_spark.errors import BatchLostError, ProtocolViolationError
from jetstream_spark.sink.refusals import (
    RefusalReason,
    answer_of,
    is_about_the_stream,
    is_lost,
    is_passing,
    lost,
    refusal_in,
    refused,
)


@pytest.mark.parametrize(
    ("code", "err_code", "passes"),
    [
        (503, 0, True),
        (429, 10167, True),
        (500, 10009, True),
        (400, 10176, True),
        (400, 10071, False),
    ],
)
def test_what_passes(code, err_code, passes) -> None:
    assert is_passing(code, err_code) is passes


@pytest.mark.parametrize(
    ("headers", "payload", "answer"),
    [
        (b"", b'{"stream":"S","seq":7}', {"stream": "S", "seq": 7}),
        (b"", b'{"error":{"code":400}}', {"error": {"code": 400}}),
        (b"", b"", {}),
        (b"", b"[5]", {}),
        (b"", b"\xff{", {}),
        (b"", b"[" * 100_000, {}),
        (
            b"NATS/1.0 503\r\n\r\n",
            b"",
            {
                "error": {
                    "code": 503,
                    "description": "no stream collects this subject, or JetStream is off",
                }
            },
        ),
        (
            b"NATS/1.0 429 Too Many Requests\r\n\r\n",
            b'{"seq":7}',
            {"error": {"code": 429, "description": "Too Many Requests"}},
        ),
    ],
)
def test_what_an_answer_says(headers, payload, answer) -> None:
    assert answer_of(Message(b"_INBOX.a", b"1", b"", headers, payload)) == answer


@pytest.mark.parametrize(
    ("error", "refusal"),
    [
        (None, None),
        ({}, None),
        ({"code": 400}, RefusalReason(400, 0, "")),
        ({"code": 400, "err_code": 10071, "description": "x"}, RefusalReason(400, 10071, "x")),
    ],
)
def test_what_an_answer_says_against_a_row(error, refusal) -> None:
    assert refusal_in({"error": error, "stream": "S"}) == refusal


STRANGE_ERRORS = ["no", 5, True, ["no"], {"code": "no"}, {"code": None}, {"err_code": float("inf")}]


@pytest.mark.parametrize("error", STRANGE_ERRORS, ids=str)
def test_what_no_stream_says(error) -> None:
    with pytest.raises(ProtocolViolationError, match=r"was refused with.*find out who"):
        refusal_in({"error": error})


def test_what_no_row_is_at_fault_for() -> None:
    assert is_about_the_stream(10174)
    assert not is_about_the_stream(10071)


@pytest.mark.parametrize(
    ("err_code", "is_one"),
    [(10176, True), (10210, True), (10211, True), (10071, False), (10201, False), (0, False)],
)
def test_what_a_lost_batch_is_refused_with(err_code: int, is_one: bool) -> None:
    assert is_lost(err_code) is is_one


@pytest.mark.parametrize(
    ("err_code", "remedy"),
    [
        (10176, r"make sure that the stream collects.*atomicRows.*atomicUnit=block.*outageTimeout"),
        (10210, r"fewer tasks.*atomicRows.*atomicUnit=block.*outageTimeout.*256 MiB.*1 GiB"),
        (10211, r"fewer tasks"),
    ],
)
def test_the_error_of_a_lost_batch(err_code: int, remedy: str) -> None:
    with pytest.raises(
        BatchLostError,
        match=rf"stream 'S' did not take it: no \(code 4, error {err_code}\)\. Here\. "
        rf"Nothing of that is stored\. .*{remedy}",
    ):
        raise lost("stream 'S' did not take it", 4, err_code, "no", "Here.")


@pytest.mark.parametrize(
    ("code", "err_code", "text", "remedy"),
    [
        (503, 0, "nobody", "Create a stream"),
        (503, 10077, "maximum messages exceeded", "raise its limits"),
        (503, 10077, "no space left on device", "log and /healthz"),
        (409, 10158, "duplicate message id is in process", "Set outageTimeout longer than"),
        (400, 10054, "message size exceeds maximum allowed", "max_msg_size"),
        (400, 99999, "something new", r"99999\)\.$"),
    ],
)
def test_its_remedy(code, err_code, text, remedy) -> None:
    with pytest.raises(Exception, match=rf"row 7 .*'a.b'.*{text}.*{remedy}"):
        raise refused(7, "a.b", code, err_code, text)
