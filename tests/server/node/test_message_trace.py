"""What happens to a message as it is told; played beside the genuine server by `tracing.txt`."""

from __future__ import annotations

import dataclasses
import gzip
import json
from typing import Any

import cramjam
import pytest
from jetstream_server.node import publishing
from jetstream_server.node.message_trace import EVENT_LETTERS_MAX, EVENTS_MAX
from jetstream_server.node.trace_request import SHOWN_BYTES_MAX


def hpub(subject: bytes, *lines: bytes, payload: bytes = b"hi", reply: bytes = b"") -> bytes:
    block = b"NATS/1.0\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n"
    return b"HPUB %b %b%d %d\r\n%b%b\r\n" % (
        subject,
        reply and reply + b" ",
        len(block),
        len(block) + len(payload),
        block,
        payload,
    )


def traces(said: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.split(b"\r\n") if line.startswith(b'{"server"')]


@pytest.fixture
def client(make_node: Any, make_client: Any) -> Any:
    made = make_client(make_node())
    made.connect(b'{"verbose":false,"pedantic":false,"headers":true,"no_responders":true}')
    return made


def test_the_document(client: Any):
    client.say(b"SUB tr 1\r\nSUB foo q 2\r\n")
    [told] = traces(client.say(hpub(b"foo", b"Nats-Trace-Dest: tr")))
    assert list(told) == ["server", "request", "events"]
    assert told["request"] == {"header": {"Nats-Trace-Dest": ["tr"]}, "msgsize": 35}
    ingress, egress = told["events"]
    cid = client.session.cid
    assert ingress == {
        "type": "in", "ts": ingress["ts"], "kind": 0, "cid": cid, "acc": "$G", "subj": "foo",
    }  # fmt: skip
    assert egress == {
        "type": "eg", "ts": egress["ts"], "kind": 0, "cid": cid, "sub": "foo", "queue": "q",
    }  # fmt: skip


def test_what_is_only_traced_reaches_nobody(client: Any):
    client.say(b"SUB tr 1\r\nSUB foo 2\r\n")
    said = client.say(hpub(b"foo", b"Nats-Trace-Dest: tr", b"Nats-Trace-Only: 1"))
    assert len(traces(said)) == 1 and b"MSG foo" not in said
    assert b"MSG foo" in client.say(hpub(b"foo", b"Nats-Trace-Only: 1"))


def test_a_destination_that_is_no_subject_gets_nothing(client: Any):
    client.say(b"SUB > 1\r\n")
    said = client.say(hpub(b"foo", b"Nats-Trace-Dest: a.*"))
    assert not traces(said) and b"HMSG foo" in said


def test_who_may_not_publish_there_is_refused(make_node: Any, make_client: Any):
    client = make_client(make_node())
    client.connect(b'{"verbose":false,"headers":true}')
    said = client.say(b"SUB > 1\r\n" + hpub(b"foo", b"Nats-Trace-Dest: $NRG.x"))
    assert said == b"-ERR 'Permissions Violation for Publish to \"$NRG.x\"'\r\n"


@pytest.mark.parametrize("encoding", ["gzip", "snappy"])
def test_encoded(client: Any, encoding: str):
    client.say(b"SUB tr 1\r\n")
    said = client.say(hpub(b"a", b"Nats-Trace-Dest: tr", b"Accept-Encoding: " + encoding.encode()))
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.endswith(b"Content-Encoding: " + encoding.encode())
    body = body[:-2]
    plain = gzip.decompress(body) if encoding == "gzip" else bytes(cramjam.snappy.decompress(body))
    assert json.loads(plain)["request"]["msgsize"] > 0


def test_a_trace_is_bounded(client: Any):
    lines = b"".join(b"SUB foo %d\r\n" % n for n in range(2, EVENTS_MAX + 9))
    said = client.say(b"SUB tr 1\r\n" + lines + b"PING\r\n")
    while b"PONG" not in said:  # so many are taken in several turns
        said = client.say(b"")
    said = client.say(hpub(b"foo", b"Nats-Trace-Dest: tr"))
    while not traces(said):  # likewise
        said += client.say(b"")
    [told] = traces(said)
    assert len(told["events"]) == EVENTS_MAX
    assert said.count(b"HMSG foo") == EVENTS_MAX + 7


def test_a_trace_of_long_names_is_bounded(make_node: Any, make_client: Any, options: Any):
    options = dataclasses.replace(options, max_control_line=4096)
    client = make_client(make_node(options=options))
    client.connect(b'{"verbose":false,"headers":true,"name":"%b"}' % (b"n" * 3000))
    client.say(b"SUB tr 1\r\n" + b"".join(b"SUB foo %d\r\n" % n for n in range(2, 60)))
    [told] = traces(client.say(hpub(b"foo", b"Nats-Trace-Dest: tr")))
    assert EVENT_LETTERS_MAX // 3100 < len(told["events"]) <= EVENT_LETTERS_MAX // 3000 + 2


def test_a_trace_shows_the_first_of_very_many_headers(
    make_node: Any, make_client: Any, options: Any
):
    """A megabyte of them took 0.2 s, and compressed 0.4 s."""
    client = make_client(make_node(options=dataclasses.replace(options, max_payload=1 << 20)))
    client.connect(b'{"verbose":false,"headers":true}')
    client.say(b"SUB tr 1\r\n")
    lines = [b"%x: x" % n for n in range(20_000)]
    said = client.say(hpub(b"foo", b"Nats-Trace-Dest: tr", *lines))
    while not traces(said):
        said += client.say(b"")
    [told] = traces(said)
    shown = told["request"]["header"]
    assert shown["Nats-Trace-Dest"] == ["tr"] and shown["3e7"] == ["x"]
    assert len(shown) < SHOWN_BYTES_MAX // 5
    assert told["request"]["msgsize"] == len(hpub(b"foo", b"Nats-Trace-Dest: tr", *lines)) - len(
        b"HPUB foo 187822 187824\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("destination", "lines", "at_once"), [(b"tr", 2000, 2), (b"trace disabled", 25_000, 34)]
)
def test_headers_of_traced_messages_are_counted(
    make_node: Any, make_client: Any, options: Any, destination: bytes, lines: int, at_once: int
):
    client = make_client(
        make_node(options=dataclasses.replace(options, max_payload=1 << 20, max_pending=1 << 28))
    )
    client.connect(b'{"verbose":false,"headers":true}')
    client.say(b"SUB foo 2\r\n")
    listed = [b"%05d: x" % n for n in range(lines)]
    message = hpub(b"foo", b"Nats-Trace-Dest: " + destination, *listed)
    said = [client.say(message * (at_once + 1)).count(b"HMSG foo")]
    while sum(said) < at_once + 1:
        said.append(client.say(b"").count(b"HMSG foo"))
    assert said == [at_once, 1]


def test_traces_of_a_turn_are_bounded_and_everything_stays_in_order(client: Any, monkeypatch: Any):
    monkeypatch.setattr(publishing, "TRACE_EVENTS_OF_TURN_MAX", 3)
    client.say(b"SUB foo 2\r\nSUB tr 1\r\n")
    lines = b"".join(
        hpub(b"foo", b"Nats-Trace-Dest: tr", payload=b"<%d>" % n)
        + hpub(b"foo", b"A: 1", payload=b"<%d>" % (n + 1))
        for n in range(0, 8, 2)
    )
    said, turns = client.say(lines + b"PING\r\n"), 1
    assert b"PONG" not in said
    while b"PONG" not in said:
        said += client.say(b"")
        turns += 1
    assert turns > 1
    payloads = [line for line in said.split(b"\r\n") if line.startswith(b"<")]
    assert payloads == [b"<%d>" % n for n in range(8)]
    assert len(traces(said)) == 4
    sizes = [
        len(b"NATS/1.0\r\nNats-Trace-Dest: tr\r\n\r\n<0>"),
        len(b"NATS/1.0\r\nA: 1\r\n\r\n<0>"),
    ]
    assert client.session.traffic.in_msgs == 8
    assert client.session.traffic.in_bytes == 4 * sum(sizes)
