"""What a connection brought has arrived, or never will; in writes: `test_inquiry`, `test_claim`."""

from __future__ import annotations

import pytest

from jetstream_spark.client import pool
from jetstream_spark.client.blocking import BlockingHost, run
from jetstream_spark.client.control import Control
from jetstream_spark.client.patience import Patience
from jetstream_spark.errors import StreamNotFoundError, UnavailableError
from jetstream_spark.sink.late_frames import pass_queue, until_gone
from tests.leasing import lease

pytestmark = pytest.mark.genuine


def test_who_listens_is_written_to_and_waited_for(stream, caplog) -> None:
    host, options = BlockingHost(), stream.sink().connection
    control = Control(host, options, "test", patience_s=0.3)
    flow = run(pool.connect(host, options, "test"))
    with lease(options, "other") as other:
        inbox = other.new_inbox()
        other.subscribe(inbox)
        assert other.check(30)
        wait = until_gone(control, flow, [inbox], Patience(host, 0.3), "a connection of somebody")
        with pytest.raises(UnavailableError, match="a connection of somebody is still open"):
            run(wait)
        while (message := other.next_message()) is None:
            other.receive_more(host.now() + 60)
        assert (message.subject, message.payload) == (inbox, b"")
        other.close()
    run(until_gone(control, flow, [inbox], Patience(host, 60), "a connection of somebody"))
    assert "trying again" in caplog.text
    flow.close()


def test_what_passes_the_queue_is_not_stored(stream) -> None:
    run(pass_queue(stream.control.inner, stream.name, f"{stream.subject}.a"))
    assert stream.count == 0


def test_a_subject_that_the_stream_does_not_collect_any_more_is_told_at_once(stream) -> None:
    host = BlockingHost()
    control = Control(host, stream.sink().connection, "test", patience_s=3600)
    started = host.now()
    with pytest.raises(StreamNotFoundError, match=r"does not collect 'nobodys\.x' any more"):
        run(pass_queue(control, stream.name, "nobodys.x"))
    assert host.now() < started + 60
