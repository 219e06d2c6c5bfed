"""What the server writes, byte for byte (docs/reference/protocol.md#transcripts)."""

from __future__ import annotations

import orjson
from hypothesis import given
from hypothesis import strategies as st
from jetstream_server.protocol import encoder, errors, headers


def test_constants() -> None:
    assert (encoder.OK, encoder.PING, encoder.PONG) == (b"+OK\r\n", b"PING\r\n", b"PONG\r\n")


def test_messages() -> None:
    assert encoder.msg(b"a", b"1") == b"MSG a 1 0\r\n\r\n"
    ack = b"$JS.ACK.ORDERS.C.1.1.1.1700000000000000000.0"
    assert (
        encoder.msg(b"orders.1", b"2", ack, payload=b"hi")
        == b"MSG orders.1 2 $JS.ACK.ORDERS.C.1.1.1.1700000000000000000.0 2\r\nhi\r\n"
    )
    block = headers.build([(b"A", b"1")])
    assert (
        encoder.msg(b"a", b"1", b"r", block, b"hi")
        == b"HMSG a 1 r 18 20\r\nNATS/1.0\r\nA: 1\r\n\r\nhi\r\n"
    )


def test_statuses() -> None:
    no_responders = encoder.status(b"_INBOX.a", b"1", b"503", [(b"Nats-Subject", b"nobody")])
    assert (
        no_responders
        == b"HMSG _INBOX.a 1 38 38\r\nNATS/1.0 503\r\nNats-Subject: nobody\r\n\r\n\r\n"
    )
    timed_out = encoder.status(
        b"_INBOX.b",
        b"2",
        b"408 Request Timeout",
        [(b"Nats-Pending-Messages", b"1"), (b"Nats-Pending-Bytes", b"0")],
    )
    assert timed_out.startswith(b"HMSG _INBOX.b 2 81 81\r\nNATS/1.0 408 Request Timeout\r\n")
    assert timed_out.endswith(b"Nats-Pending-Bytes: 0\r\n\r\n\r\n")
    flow_control = encoder.status(
        b"d.x", b"7", b"100 FlowControl Request", reply=b"$JS.FC.S.C.abcd"
    )
    assert flow_control.startswith(b"HMSG d.x 7 $JS.FC.S.C.abcd 36 36\r\nNATS/1.0 100 FlowControl")


def test_info_has_a_space_before_the_line_end() -> None:
    assert encoder.info({"server_id": "N", "port": 1}) == b'INFO {"server_id":"N","port":1} \r\n'


def test_json_is_escaped_as_go_does() -> None:
    text = encoder.json_text({"subject": "a.>", "x": "<&\u2028\u2029é\n"})
    assert text == (
        b'{"subject":"a.\\u003e","x":"\\u003c\\u0026\\u2028\\u2029' + "é".encode() + b'\\n"}'
    )


@given(st.dictionaries(st.text(), st.one_of(st.text(), st.integers(0, 2**63), st.booleans())))
def test_json_reads_back(value: dict[str, object]) -> None:
    assert orjson.loads(encoder.json_text(value)) == value


def test_errors_keep_bytes_that_are_not_utf8() -> None:
    assert encoder.err(errors.UNKNOWN_OPERATION.text) == b"-ERR 'Unknown Protocol Operation'\r\n"
    assert (
        encoder.err(errors.publish_denied(b"a\xff").text)
        == b"-ERR 'Permissions Violation for Publish to \"a\xff\"'\r\n"
    )
