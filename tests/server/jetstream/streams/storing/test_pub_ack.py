"""The exact bytes of answers to publishes."""

from __future__ import annotations

from typing import Any

from jetstream_server.base.errors import ApiError
from jetstream_server.jetstream.streams.storing.pub_ack import PubAck
from jetstream_server.jetstream.streams.storing.publish_answers import PublishAnswers
from jetstream_server.protocol.ops import PubRun


def test_bytes() -> None:
    ack = PubAck("ORDERS", "")
    assert ack.stored(1) == b'{"stream":"ORDERS","seq":1}'
    assert ack.duplicate(1) == b'{"stream":"ORDERS","seq":1,"duplicate": true}'
    assert PubAck("S", "D").duplicate(7) == (
        b'{"stream":"S","domain":"D","seq":7,"duplicate": true}'
    )
    refused = PubAck("S", "D").refused(ApiError(400, 10070, 'wrong last msg ID: <q> é "'))
    assert (
        refused
        == (
            '{"error":{"code":400,"err_code":10070,'
            '"description":"wrong last msg ID: \\u003cq\\u003e é \\""},"stream":"S","seq":0}'
        ).encode()
    )


def test_duplicates_go_where_their_replies_lead(bench: Any) -> None:
    ack = PubAck("S", "")
    replies = [b"_INBOX.a.1", b"_INBOX.a.2", b"", b"elsewhere", b"_INBOX.b", b"_INBOX.b"]
    run = PubRun.of([(b"s", reply, b"", b"") for reply in replies])
    answers = PublishAnswers(bench.config(storage="file"), bench.output)
    ack.send_duplicates(answers, run, 0, [5, 4, 3, 2, 1, 1])
    assert len(bench.output.sends_after_flush) == 3
    assert bench.sent() == [
        (reply, b"", ack.duplicate(sequence))
        for reply, sequence in zip(replies, [5, 4, 3, 2, 1, 1], strict=True)
        if reply
    ]
