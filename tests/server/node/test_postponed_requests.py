"""Requests whose answers are too much for one turn, through a whole node."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from jetstream_server.core import answers
from jetstream_server.jetstream.api import consumers, messages, streams
from jetstream_server.jetstream.api.dispatch import Api
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.jetstream.streams.reads import subject_page
from jetstream_server.store.vault import MemoryVault

from tests.node_context import node_context

CONNECT = b'{"verbose":false,"pedantic":false,"headers":true,"no_responders":true}'
STREAMS = [("F", "file"), ("M", "memory")]


@pytest.fixture
def client(node: Any, make_client: Any) -> Any:
    """Return a client of streams F and M, each with twenty messages of growing size."""
    account = node.accounts["$G"]
    context = node_context(node, account)
    account.catalog = Catalog(context, MemoryVault())
    account.catalog.recover(0)
    Api(account.catalog).subscribe()
    client = make_client(node)
    client.connect(CONNECT)
    client.say(b"SUB r.* 1\r\n")
    for name, storage in STREAMS:
        body = json.dumps(
            {"name": name, "subjects": [f"{name}.*"], "storage": storage, "allow_direct": True}
        ).encode()
        assert b'"error"' not in client.say(
            request(b"$JS.API.STREAM.CREATE." + name.encode(), body)
        )
        for number in range(20):
            client.say(request(b"%b.%d" % (name.encode(), number % 5), b"x" * 40 * number))
    return client


def request(subject: bytes, body: bytes = b"", reply: bytes = b"r.1") -> bytes:
    return b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(body), body)


def answered(client: Any, data: bytes) -> bytes:
    """Say something, and read until nothing comes any more."""
    output = client.say(data)
    while (more := client.say(b"")) or client.session.answers.postponed:
        output += more
    return output


def questions(random: Random) -> bytes:
    """Return direct gets, requests and a PING in one write; the replies are numbered."""
    said = []
    for number in range(random.randrange(1, 60)):
        reply, stream = b"r.%d" % number, random.choice((b"F", b"M"))
        by_sequence = b'{"seq":%d}' % random.randrange(25)
        said.append(
            random.choice(
                [request(b"$JS.API.DIRECT.GET." + stream, by_sequence, reply)] * 6
                + [
                    request(b"$JS.API.DIRECT.GET.%b.%b.1" % (stream, stream), b"", reply),
                    request(b"$JS.API.DIRECT.GET." + stream, b'{"seq":3,"batch":5}', reply),
                    request(b"$JS.API.STREAM.MSG.GET." + stream, by_sequence, reply),
                    request(b"$JS.API.STREAM.NAMES", b"", reply),
                    request(b"nobody", b"", reply),
                    b"PING\r\n",
                ]
            )
        )
    return b"".join(said)


def frames(output: bytes) -> list[bytes]:
    """Return what came, each with its subject, in an order that does not tell of turns."""
    found = []
    while output:
        line, _, output = output.partition(b"\r\n")
        size = int(line.split()[-1]) + 2 if line.startswith((b"MSG", b"HMSG")) else 0
        body, output = output[:size], output[size:]
        text = body.partition(b'"ts":')[0]  # of an answer of the API
        found.append(line + b"\r\n" + text)
    return sorted(found)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_put_off_is_answered_as_it_would_have_been(
    client: Any, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    random = Random(seed)
    said = questions(random)
    expected = answered(client, said)
    monkeypatch.setattr(answers, "OUTBOX_HIGH_BYTES", random.choice((1, 100, 1000, 5000)))
    assert frames(answered(client, said)) == frames(expected)


def test_no_more_is_under_way_than_there_is_room_for(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "OUTBOX_HIGH_BYTES", 3000)
    output = client.say(request(b"$JS.API.DIRECT.GET.F", b'{"seq":20}') * 50)
    assert output.count(b"HMSG") == 4, "the one that reaches the mark is the last"
    assert client.session.answers.postponed
    client.session.outbox.socket_holds(3000)
    assert client.node.next_deadline() == 0
    client.node.run(client.now)
    assert not client.node.has_held, "what it has not taken leaves no room"
    client.session.outbox.socket_holds(0)
    client.node.drained(client.session)
    output += answered(client, b"")
    assert output.count(b"HMSG") == 50


def test_what_it_says_behind_its_requests_waits_with_them(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "OUTBOX_HIGH_BYTES", 1)
    gets = request(b"$JS.API.DIRECT.GET.F", b'{"seq":1}') * 3
    output = client.say(gets + b"UNSUB 1\r\nPING\r\n")
    assert b"PONG" not in output
    output += answered(client, b"")
    assert output.count(b"HMSG") == 2, "the last one comes after UNSUB"
    assert output.endswith(b"PONG\r\n")


def test_a_flush_that_fails_leaves_room_for_what_comes(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "OUTBOX_HIGH_BYTES", 1)
    client.session.feed(request(b"$JS.API.DIRECT.GET.F", b'{"seq":1}') * 3)
    client.node.run(client.now)
    client.node.drop(client.node.take_held())
    assert answered(client, b"").count(b"HMSG") == 2, "the first one went down with the flush"


def test_of_a_stream_that_is_deleted_meanwhile_nobody_answers(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "OUTBOX_HIGH_BYTES", 1)
    client.say(request(b"$JS.API.DIRECT.GET.F", b'{"seq":1}') * 3)
    account = client.node.accounts["$G"]
    account.catalog.delete("F", client.now)
    assert answered(client, b"").count(b"NATS/1.0 503\r\nNats-Subject: $JS.API.DIRECT") == 2


@pytest.mark.parametrize("size", [1, 4000])
def test_what_a_client_said_before_it_left_is_acted_on_to_its_end(
    client: Any, make_client: Any, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Of 20,000 messages with a time to live whose client closed at once 18,336 were stored."""
    other = make_client(client.node)
    other.connect()
    other.say(b"SUB heard 7\r\n")
    client.say(b"SUB heard 7\r\n")
    monkeypatch.setattr(answers, "OUTBOX_HIGH_BYTES", size)
    behind = b"SUB heard 8\r\nPUB heard 2\r\nhi\r\nPING\r\n"
    asks = request(b"$JS.API.DIRECT.GET.F", b'{"seq":1}') * 20
    client.session.feed(b"PING\r\n" * (9 if size > 1 else 0) + asks + behind)
    said_before = client.session.traffic.in_msgs
    client.session.run(client.now, 5)
    assert client.session.has_postponed
    client.node.close_session(client.session, "Client Closed", client.now)
    assert client.session.cid in client.node.sessions
    client.read()
    for _ in range(50):
        client.node.run(client.now)
        client.node.release(client.node.take_held(), client.now)
    assert other.read() == b"MSG heard 7 2\r\nhi\r\n"
    assert client.session.cid not in client.node.sessions
    assert not client.session.outbox and not client.session.subscription_count
    (closed,) = client.node.closed
    assert closed.reason == "Client Closed" and closed.traffic.in_msgs == said_before + 21
    assert client.node.next_deadline() > client.now


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        (b"STREAM.INFO.F", b'{"subjects_filter":">"}'),
        (b"STREAM.MSG.GET.F", b'{"next_by_subj":"F.none"}'),
        (b"CONSUMER.INFO.F.C", b""),
    ],
)
def test_whoever_asks_once_is_not_behind_a_hundred_long_answers_to_another(
    client: Any, make_client: Any, monkeypatch: pytest.MonkeyPatch, verb: bytes, body: bytes
) -> None:
    """Each takes several turns, and nobody has more than one of them under way."""
    created = b'{"stream_name":"F","config":{"name":"C"}}'
    client.say(request(b"$JS.API.CONSUMER.CREATE.F.C", created))
    other = make_client(client.node)
    other.connect(CONNECT)
    other.say(b"SUB q 1\r\n")
    monkeypatch.setattr(streams, "SUBJECTS_AT_ONCE", 1)
    monkeypatch.setattr(subject_page, "SLICE_NAMES", 1)
    monkeypatch.setattr(messages, "_search", in_three_slices(messages._search))
    monkeypatch.setattr(consumers, "_info", in_three_slices(consumers._info))
    asked = request(b"$JS.API." + verb, body)
    client.session.feed(asked * 100)
    other.session.feed(request(b"$JS.API." + verb, body, b"q"))
    seen, turns = 0, 0
    while not (mine := other.read()):
        client.now = other.now = client.now + 1_000_000
        seen += client.say(b"").count(b"MSG r.1")
        turns += 1
        assert turns < 1000
    assert mine.count(b"MSG q") == 1
    assert seen < 5
    while seen < 100:
        client.now += 1_000_000
        seen += client.say(b"").count(b"MSG r.1")
        turns += 1
        assert turns < 3000
    client.say(b"")
    assert client.session.answers.postponed == [] and seen == 100


def in_three_slices(answer: Any) -> Any:
    def sliced(*given: Any) -> Any:
        yield from [None] * 3
        yield from answer(*given)

    return sliced
