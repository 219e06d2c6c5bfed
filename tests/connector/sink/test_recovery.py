"""When a write is given up; what it does otherwise is in `test_inquiry.py`."""

from __future__ import annotations

import pytest

from jetstream_spark.client.blocking import Blocking, BlockingHost, run, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.client.operation import Effect, Pause
from jetstream_spark.client.patience import SPREAD_S
from jetstream_spark.errors import ConnectionLostError, NotAcknowledgedError
from jetstream_spark.sink.inquiry import Inquiry
from jetstream_spark.sink.recovery import Recovery
from tests.connector.cut_wires import watched

pytestmark = pytest.mark.genuine


def recovery_of(options) -> Recovery:
    control = Control(this_host(), options.connection, "test")
    return Recovery(this_host(), options, Inquiry(control, None, 120))


def test_a_server_that_stays_silent_is_given_up(stream) -> None:
    recovery = recovery_of(stream.sink(publishRetries=2))
    for silence in range(5):
        flow = run(recovery.take())
        if silence == 3:
            with pytest.raises(NotAcknowledgedError, match=r"7 rows .*no ack came within 5 s"):
                run(recovery.begin(flow, TimeoutError(), 7))
            recovery.note_progress()
        run(recovery.begin(flow, TimeoutError(), 7)) if silence != 2 else None
        flow.close()


@pytest.mark.parametrize("chance", [0, 0x8000, 0xFFFF])
def test_a_connection_that_broke_idle_is_replaced_after_a_moment_of_its_own(
    stream, monkeypatch, chance
) -> None:
    """Tasks that lose their server between two batches do not come back in the same instant."""
    host, pauses = BlockingHost(), []
    recovery = Recovery(host, stream.sink(), None)
    flow = run(recovery.take())
    assert run(recovery.renewed(flow)) is flow
    flow.close()
    monkeypatch.setattr(host, "now", lambda: 100.0)
    monkeypatch.setattr(host, "token", lambda size: f"{chance:0{2 * size}x}")

    def note(effect: Effect) -> tuple[()]:
        if isinstance(effect, Pause):
            pauses.append(effect.until - 100)
            monkeypatch.undo()
        return ()

    again = run(watched(recovery.renewed(flow), note))
    assert again.is_open and again is not flow
    assert pauses == [pytest.approx(SPREAD_S * chance / 0xFFFF)]
    again.close()


def test_what_arrived_meanwhile_is_read_though_the_last_answers_filled_the_buffer(stream) -> None:
    heard = []
    recovery = Recovery(this_host(), stream.sink(), None)
    recovery.check = heard.append  # type: ignore[method-assign]
    flow = run(recovery.take())
    flow.subscribe(b"told.here")
    Blocking(flow).request(stream.subject.encode() + b".a", b"", 5)  # so it is known there
    buffer = flow.buffer
    buffer.start = buffer.stop = len(buffer.data)
    told = Blocking(run(recovery.take()))
    told.inner.publish(b"told.here", b"superseded")
    told.request(stream.subject.encode() + b".a", b"", 5)
    told.close()
    while not heard:
        assert run(recovery.renewed(flow)) is flow
    assert [one.payload for one in heard] == [b"superseded"]
    flow.close()


def test_without_ids_nothing_is_sent_again(stream) -> None:
    options = stream.sink(dedupe="none")
    recovery = Recovery(this_host(), options, None)
    flow = run(recovery.take())
    with pytest.raises(NotAcknowledgedError, match="dedupe=auto"):
        run(recovery.begin(flow, TimeoutError(), 1))
    flow.close()


def test_a_connection_that_is_given_up_is_asked_after(stream) -> None:
    options = stream.sink()
    control = Control(this_host(), options.connection, "test")
    inquiry = Inquiry(control, run(control.stream_state(stream.name)), 120)
    recovery = Recovery(this_host(), options, inquiry)
    flow = run(recovery.take())
    assert run(recovery.begin(flow, TimeoutError(), 1)) is inquiry
    assert not flow.is_open
    headers = b"NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n"
    Blocking(control).request_message(f"{stream.subject}.a", b"", headers)
    again, stored = run(recovery.reconnect(f"{stream.subject}.a".encode(), 0))
    assert stored.ids == {b"1": 1} and stored.server_id == again.server_id
    again.close()


def test_each_outage_has_its_own_limit(stream, monkeypatch) -> None:
    """What was acknowledged in between ends one; without that, two are as one."""
    now_s = [100.0]
    host = BlockingHost()
    monkeypatch.setattr(host, "now", lambda: now_s[0])
    lost = ConnectionLostError("it broke", "")
    for has_progress in (True, False):
        recovery = Recovery(host, stream.sink(outageTimeout="60s"), None)
        assert isinstance(next(recovery.wait(lost, 1)), Pause)
        now_s[0] += 59
        if has_progress:
            recovery.note_progress()
        now_s[0] += 59
        if has_progress:
            assert isinstance(next(recovery.wait(lost, 1)), Pause)
        else:
            with pytest.raises(NotAcknowledgedError, match="it broke"):
                next(recovery.wait(lost, 1))
