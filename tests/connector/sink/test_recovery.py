"""When a write is given up; what it does otherwise is in `test_inquiry.py`."""

from __future__ import annotations

import pytest

from jetstream_spark.client.blocking import Blocking, run, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.errors import NotAcknowledgedError
from jetstream_spark.sink.inquiry import Inquiry
from jetstream_spark.sink.recovery import Recovery

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
    assert stored == {b"1"}
    again.close()
