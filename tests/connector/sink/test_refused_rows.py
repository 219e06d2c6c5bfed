"""What becomes of refused rows, without a server: the pauses are those that are asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from jetstream_spark.client.blocking import this_host
from jetstream_spark.client.control import Control
from jetstream_spark.client.operation import Pause
from jetstream_spark.errors import BatchLostError, NoRespondersError, PublishRefusedError
from jetstream_spark.options.format_options import SinkOptions
from jetstream_spark.sink.batch_outcome import RowRefusal
from jetstream_spark.sink.outgoing_rows import OutgoingRows
from jetstream_spark.sink.refused_rows import RefusedRows

ROWS = OutgoingRows(b"s.a", b"", pa.array([b"x", b"y"], pa.binary()), None)
NUMBERS = np.array([7, 8])


def refusal(code: int, err_code: int = 0, at: int | None = None) -> RowRefusal:
    return RowRefusal(np.arange(2), code, err_code, "no", at)


@pytest.fixture
def asked(monkeypatch) -> list[str]:
    """What was asked of a server that has stream S, which collects `s.>`."""
    found: list[str] = []

    def stream_state(control: Control, stream: str) -> Any:
        found.append("state")
        yield from ()

    def stream_names(control: Control, subject: str) -> Any:
        found.append(subject)
        yield from ()
        return ["S"] if subject.startswith("s.") else []

    def request_message(control: Control, subject: str, payload: bytes, headers: bytes) -> Any:
        found.append(f"{subject} {payload.decode()}")
        yield from ()

    monkeypatch.setattr(Control, "stream_state", stream_state)
    monkeypatch.setattr(Control, "stream_names", stream_names)
    monkeypatch.setattr(Control, "request_message", request_message)
    return found


def refused_rows(**options: str) -> RefusedRows:
    named = {"servers": "nats://h:1", "stream": "S", "publishRetries": "2"} | options
    return RefusedRows(this_host(), SinkOptions.parse(named))


DEAD = {"onError": "deadLetter", "deadLetterSubject": "dead.x"}


def judge(
    rows: RefusedRows, of: RowRefusal, tries: int, which: OutgoingRows = ROWS
) -> tuple[Any, int]:
    """Whether they are sent again, and after how many pauses."""
    operation, pauses = rows.judge(of, which, NUMBERS, tries), 0
    try:
        while True:
            assert isinstance(next(operation), Pause)
            pauses += 1
    except StopIteration as end:
        return end.value, pauses


def test_what_passes_is_tried_again_so_often() -> None:
    rows = refused_rows()
    assert [judge(rows, refusal(503, 10077), tries) for tries in (1, 2)] == [(True, 1)] * 2
    with pytest.raises(PublishRefusedError, match=r"row 7 .*one of the 1 after it in its batch"):
        judge(rows, refusal(503, 10077), 3)


def test_what_never_passes_ends_it_at_once() -> None:
    with pytest.raises(PublishRefusedError, match="10071"):
        judge(refused_rows(), refusal(400, 10071), 1)


def test_dead_letters(asked) -> None:
    rows = refused_rows(**DEAD)
    assert judge(rows, refusal(400, 10071), 1) == (False, 0)
    assert (rows.dead_letters, asked) == (2, ["dead.x x", "dead.x y"])


def test_of_a_reason_that_did_not_pass_no_other_row_is_waited_for(asked) -> None:
    rows = refused_rows(**DEAD)
    assert judge(rows, refusal(503, 10077), 3) == (False, 0)
    assert judge(rows, refusal(503, 10077), 1) == (False, 0)
    assert judge(rows, refusal(503, 10009), 1) == (True, 1), "for another reason they are"


def test_a_stream_without_a_leader_is_waited_for(asked) -> None:
    rows = refused_rows(**DEAD)
    assert judge(rows, refusal(503), 3) == (True, 1)
    elsewhere = OutgoingRows(b"t.a", b"", ROWS.payloads, None)
    assert judge(rows, refusal(503), 3, elsewhere) == (False, 0)
    assert asked[:4] == ["state", "s.a", "state", "t.a"]


@pytest.mark.parametrize("collects", [False, True])
def test_a_dead_letter_that_nobody_takes(monkeypatch, collects) -> None:
    """A leader is waited for as long as an outage, a stream that is not there is not."""
    now, asked = [0.0], []

    def request_message(control: Control, subject: str, payload: bytes, headers: bytes) -> Any:
        yield from ()
        raise NoRespondersError(f"nobody answers '{subject}'.")

    def stream_names(control: Control, subject: str) -> Any:
        asked.append(subject)
        yield from ()
        return ["DEAD"] if collects else []

    monkeypatch.setattr(Control, "stream_names", stream_names)
    monkeypatch.setattr(Control, "request_message", request_message)
    rows = refused_rows(**DEAD, outageTimeout="1s")
    monkeypatch.setattr(rows._host, "now", lambda: now[0])
    operation, waited = rows.judge(refusal(400, 10071), ROWS, NUMBERS, 1), 0
    with pytest.raises(NoRespondersError if collects else PublishRefusedError, match=r"dead\.x"):
        while True:
            effect = next(operation)
            assert isinstance(effect, Pause)
            now[0], waited = effect.until, waited + 1
    assert set(asked) == {"dead.x"}
    assert waited > 2 if collects else waited == 2


def test_too_many_requests_make_no_dead_letters() -> None:
    with pytest.raises(PublishRefusedError, match="429"):
        judge(refused_rows(**DEAD), refusal(429), 3)


def test_that_batches_are_not_allowed_makes_no_dead_letters() -> None:
    with pytest.raises(PublishRefusedError, match="Set allow_batched"):
        judge(refused_rows(**DEAD), refusal(400, 10205), 1)


@pytest.mark.parametrize(("code", "err_code"), [(429, 10210), (429, 10211), (400, 10176)])
def test_a_batch_that_was_lost_is_tried_for_as_long_as_an_outage(
    asked, code: int, err_code: int
) -> None:
    """Also with dead letters: no row is at fault."""
    for options in ({}, DEAD):
        rows = refused_rows(outageTimeout="60s", **options)
        for _ in range(3):
            assert judge(rows, refusal(code, err_code), 99) == (True, 1)
        with pytest.raises(BatchLostError, match=rf"{err_code}\)\. Nothing of that is stored"):
            judge(refused_rows(outageTimeout="1ms", **options), refusal(code, err_code), 99)
    assert asked == []


def test_a_batch_behind_dead_letters_is_waited_for_anew(asked, monkeypatch) -> None:
    rows, now = refused_rows(outageTimeout="60s", **DEAD), [0.0]
    monkeypatch.setattr(rows._host, "now", lambda: now[0])
    assert judge(rows, refusal(400, 10176), 1) == (True, 1)
    assert judge(rows, refusal(400, 10071), 1) == (False, 0)
    now[0] = 100.0
    assert judge(rows, refusal(400, 10176), 1) == (True, 1)


def test_what_a_lost_batch_was() -> None:
    with pytest.raises(
        BatchLostError,
        match=r"stream 'S' did not take rows 7 to 8 of the partition, a batch of 2 rows, with "
        r"headers and 1 KiB for each some 2\d\d\d bytes, to 's\.a': no \(code 429, error 10210\)",
    ):
        judge(refused_rows(outageTimeout="1ms"), refusal(429, 10210, 1), 1)
    one = OutgoingRows(pa.array([b"s.b"], pa.binary()), b"", pa.array([b"x"], pa.binary()), None)
    with pytest.raises(
        BatchLostError, match=r"did not take row 7 of the partition, to 's\.b': no .*10211"
    ):
        judge(refused_rows(outageTimeout="1ms"), refusal(429, 10211), 1, one)


def test_how_far_a_lost_batch_came() -> None:
    two = OutgoingRows(pa.array([b"s.b", b"t.c"], pa.binary()), b"", ROWS.payloads, None)
    with pytest.raises(
        BatchLostError,
        match=r"to 's\.b' and others: .* The first row that the stream did not take is 8, to "
        r"'t\.c'\. Nothing",
    ):
        judge(refused_rows(outageTimeout="1ms"), refusal(400, 10176, 1), 1, two)


def test_the_row_that_is_to_blame_is_named(asked) -> None:
    with pytest.raises(PublishRefusedError, match=r"row 8 .*which keeps the 1 others of its batch"):
        judge(refused_rows(), refusal(400, 10071, 1), 1)
    two = OutgoingRows(pa.array([b"s.b", b"t.c"], pa.binary()), b"", ROWS.payloads, None)
    with pytest.raises(PublishRefusedError, match=r"row 8 of the partition to 't\.c'"):
        judge(refused_rows(), refusal(503, 0, 1), 3, two)
    assert asked == ["state", "t.c"]
