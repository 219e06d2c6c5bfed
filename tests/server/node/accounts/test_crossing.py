"""What crosses accounts to very many: in several turns, in its order, and nobody else waits."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from jetstream_server.base.clock import MINUTE
from jetstream_server.core import deliveries
from jetstream_server.core.wildcard_mapping import WildcardMapping
from jetstream_server.node.accounts.crossing import DELIVERIES_OF_CROSSING
from jetstream_server.node.accounts.domain_mapping import DomainMapping
from jetstream_server.node.accounts.service_imports import ServiceImport
from jetstream_server.node.accounts.service_replies import ResponseTerms, ServiceReplies
from jetstream_server.node.accounts.stream_imports import ImportRenaming, StreamImport
from jetstream_server.protocol.ops import PubRun

LISTENERS = 100  # more than what is delivered whatever it costs


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn has time for less than one message to all of them."""
    monkeypatch.setattr(deliveries, "DELIVERIES_OF_TURN_MAX", 70)


@pytest.fixture
def node(accounts_node: Any) -> Any:
    link = ServiceImport(
        accounts_node.accounts["B"],
        accounts_node.accounts["A"],
        WildcardMapping(b"svc.*", b"svc.*"),
        ResponseTerms("stream", 2 * MINUTE),
        Random(5),
        is_sharing=False,
    )
    link.open()
    return accounts_node


def listen(client: Any, subject: bytes) -> None:
    client.say(b"".join(b"SUB %b %d\r\n" % (subject, n) for n in range(1, LISTENERS + 1)))


def heard(node: Any, client: Any, other: Any) -> tuple[list[list[bytes]], int]:
    """Have turns until all is quiet, between which another client pings.

    Returns:
        What each subscription was sent, and how many turns there were.
    """
    output, turns = b"", 0
    while node.next_deadline() == 0:
        assert other.say(b"PING\r\n") == b"PONG\r\n"
        output += client.read()
        turns += 1
    found = re.findall(
        rb"H?MSG \S+ (\d+) [^\r]*\r\n(?:NATS.*\r\n(?:.*: .*\r\n)*\r\n)?(.*)\r\n", output
    )
    said: dict[bytes, list[bytes]] = {b"%d" % n: [] for n in range(1, LISTENERS + 1)}
    for sid, payload in found:
        said[sid].append(payload)
    return list(said.values()), turns


def test_requests_to_very_many_take_turns_and_keep_their_order(node: Any, connect: Any) -> None:
    a, b, other = connect(b"a"), connect(b"b"), connect(b"b")
    listen(a, b"svc.>")
    b.session.feed(b"".join(b"PUB svc.%d 2\r\n%02d\r\n" % (n % 3, n) for n in range(40)))
    b.session.feed(b"PUB svc.x 2\r\n40\r\n")
    said, turns = heard(node, a, other)
    assert said == [[b"%02d" % n for n in range(41)]] * LISTENERS
    assert turns >= 10
    assert b.say(b"PING\r\n") == b"PONG\r\n"


def test_whoever_asks_is_not_heard_meanwhile(node: Any, connect: Any) -> None:
    a, b, other = connect(b"a"), connect(b"b"), connect(b"b")
    listen(a, b"svc.>")
    a.say(b"SUB narrow 200\r\n")
    assert b.say(b"PUB svc.1 2\r\n00\r\nPING\r\n") == b""
    said, _ = heard(node, a, other)
    assert said == [[b"00"]] * LISTENERS
    assert b.read() == b"PONG\r\n"


def test_answers_to_very_many_take_turns_and_keep_their_order(node: Any, connect: Any) -> None:
    a, b, other = connect(b"a"), connect(b"b"), connect(b"c")
    a.say(b"SUB svc.1 1\r\n")
    listen(b, b"inbox")
    b.say(b"PUB svc.1 inbox 0\r\n\r\n")
    (reply,) = set(re.findall(rb" (_R_\S+) ", a.read()))
    a.session.feed(b"".join(b"PUB %b 2\r\n%02d\r\n" % (reply, n) for n in range(20)))
    a.session.feed(b"PING\r\n")
    said, turns = heard(node, b, other)
    assert said == [[b"%02d" % n for n in range(20)]] * LISTENERS
    assert turns > 10
    assert a.read() == b"PONG\r\n"


def test_requests_and_answers_of_one_write_take_turns(
    node: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty thousand requests to a single subscription, in one write, took 0.26 s."""
    made, expect, answer = [0], ServiceReplies.expect, ServiceReplies._answer

    def counted(act: Any) -> Any:
        def acting(*args: Any) -> Any:
            made[-1] += 1
            return act(*args)

        return acting

    monkeypatch.setattr(ServiceReplies, "expect", counted(expect))
    monkeypatch.setattr(ServiceReplies, "_answer", counted(answer))
    a, b, other = connect(b"a"), connect(b"b"), connect(b"c")
    a.say(b"SUB svc.1 1\r\n")
    b.say(b"SUB inbox 1\r\n")

    def turns(session: Any, said: bytes, client: Any) -> bytes:
        session.feed(said)
        output = b""
        while node.next_deadline() == 0:
            made.append(0)
            assert other.say(b"PING\r\n") == b"PONG\r\n"
            output += client.read()
        return output

    asked = b"".join(b"PUB svc.1 inbox 2\r\n%02d\r\n" % n for n in range(40))
    heard = turns(b.session, asked, a)
    replies = re.findall(rb" (_R_\S+) .*\r\n(?:.*: .*\r\n|NATS.*\r\n)*\r\n(\d\d)", heard)
    assert [payload for _, payload in replies] == [b"%02d" % n for n in range(40)]
    answers = b"".join(b"PUB %b 2\r\n%b\r\n" % each for each in replies)
    heard = turns(a.session, answers, b)
    assert heard == b"".join(b"MSG inbox 1 2\r\n%02d\r\n" % n for n in range(40))
    assert sum(made) == 80 and max(made) <= -(-70 // DELIVERIES_OF_CROSSING)


def test_who_asks_by_a_domain_waits_as_well(node: Any, connect: Any) -> None:
    DomainMapping(node.accounts["B"], "hub").subscribe()
    a, b, other = connect(b"b"), connect(b"b"), connect(b"c")
    listen(a, b"$JS.API.x")
    b.session.feed(b"".join(b"PUB $JS.hub.API.x 2\r\n%02d\r\n" % n for n in range(20)))
    said, turns = heard(node, a, other)
    assert said == [[b"%02d" % n for n in range(20)]] * LISTENERS
    assert turns > 10


def test_requests_of_one_write_by_a_domain_take_turns(
    node: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty thousand took 0.3 s, whoever got them."""
    made, mapped = [0], DomainMapping.mapped

    def counted(*args: Any) -> Any:
        made[-1] += 1
        return mapped(*args)

    monkeypatch.setattr(DomainMapping, "mapped", counted)
    DomainMapping(node.accounts["B"], "hub").subscribe()
    a, b, other = connect(b"b"), connect(b"b"), connect(b"c")
    a.say(b"SUB $JS.API.x 1\r\n")
    b.session.feed(b"".join(b"PUB $JS.hub.API.x 2\r\n%02d\r\n" % n for n in range(40)))
    said = b""
    while node.next_deadline() == 0:
        made.append(0)
        assert other.say(b"PING\r\n") == b"PONG\r\n"
        said += a.read()
    assert said == b"".join(b"MSG $JS.API.x 1 2\r\n%02d\r\n" % n for n in range(40))
    assert sum(made) == 40 and max(made) <= -(-70 // DELIVERIES_OF_CROSSING)


def test_messages_of_one_write_are_renamed_in_turns(node: Any, connect: Any) -> None:
    """Thirty thousand for a single subscription took 0.08 s."""
    renaming = b"evt.>", b"in.>"
    link = StreamImport(node.accounts["B"], node.accounts["A"], WildcardMapping(*renaming))
    link.open()
    a, b, other = connect(b"a"), connect(b"b"), connect(b"c")
    b.say(b"SUB in.> 1\r\n")
    a.session.feed(b"".join(b"PUB evt.x 3\r\n%03d\r\n" % n for n in range(300)))
    turns, said = [], b""
    while node.next_deadline() == 0:
        assert other.say(b"PING\r\n") == b"PONG\r\n"
        said += b.read()
        turns.append(said.count(b"MSG "))
    assert said == b"".join(b"MSG in.x 1 3\r\n%03d\r\n" % n for n in range(300))
    assert max(b - a for a, b in pairwise([0, *turns])) <= 2 * 50


def test_what_a_client_asked_before_it_went_reaches_everybody(node: Any, connect: Any) -> None:
    a, b = connect(b"a"), connect(b"b")
    listen(a, b"svc.>")
    b.say(b"PUB svc.1 2\r\n00\r\n" * 5)
    before = a.read().count(b"MSG ")
    node.close_session(b.session, "Client Closed", b.now)
    while node.next_deadline() == 0:
        node.run(b.now)
    assert 0 < before < 5 * LISTENERS
    assert before + a.read().count(b"MSG ") == 5 * LISTENERS
    assert b.session.cid not in node.sessions


def test_what_goes_to_many_is_renamed_once() -> None:
    renaming = ImportRenaming(WildcardMapping(b"evt.*", b"in.$1"))
    run = PubRun.of([(b"evt.%d" % n, b"", b"", b"%d" % n) for n in range(5)])
    first = renaming.renamed(run, 1, 4)
    assert [first.subject(at) for at in range(first.count)] == [b"in.1", b"in.2", b"in.3"]
    assert renaming._last is None, "what is for one only is not kept"
    second = renaming.renamed(run, 1, 4)
    assert second is not first and renaming.renamed(run, 1, 4) is second
    assert renaming.renamed(run, 2, 4).subject(0) == b"in.2"
    assert renaming.renamed(run, 1, 4).subject(0) == b"in.1"
    assert renaming._last is None


TRACED = b"NATS/1.0\r\nNats-Trace-Dest: tr\r\n\r\n"


def traced(subject: bytes, payload: bytes) -> bytes:
    sizes = len(TRACED), len(TRACED) + len(payload)
    return b"HPUB %b %d %d\r\n%b%b\r\n" % (subject, *sizes, TRACED, payload)


@pytest.mark.parametrize("where", ["here", "there", "there, untraced"])
def test_traced_messages_to_very_many_take_turns_and_keep_their_order(
    node: Any, connect: Any, where: str
) -> None:
    subject = b"own.x" if where == "here" else b"svc.x"
    for each in node.accounts["B"].sublist.match(b"svc.x").plain:
        each.receiver.allows_trace = where == "there"
    listener = connect(b"b" if where == "here" else b"a")
    b, tracer, other = connect(b"b"), connect(b"b"), connect(b"b")
    listen(listener, subject)
    tracer.say(b"SUB tr 1\r\n")
    b.session.feed(
        traced(subject, b"00") + traced(subject, b"01") + b"PUB %b 2\r\n02\r\n" % subject
    )
    said, turns = heard(node, listener, other)
    assert said == [[b"00", b"01", b"02"]] * LISTENERS
    assert turns >= (10 if where != "there, untraced" else 4)
    told = [json.loads(line) for line in tracer.read().split(b"\r\n") if line.startswith(b'{"ser')]
    seen = [[each["type"] for each in trace["events"]] for trace in told]
    crossed = [] if where == "here" else ["si"]
    reached = [] if where == "there, untraced" else ["eg"] * LISTENERS
    assert seen == [["in", *crossed, *reached]] * 2


def test_a_message_of_a_client_that_is_gone_is_traced_to_its_end(node: Any, connect: Any) -> None:
    listener, b, tracer = connect(b"b"), connect(b"b"), connect(b"b")
    listen(listener, b"own.x")
    tracer.say(b"SUB tr 1\r\n")
    b.session.feed(traced(b"own.x", b"00"))
    node.run(5)
    node.close_session(b.session, "Client Closed", 5)
    while node.next_deadline() == 0:
        node.run(5)
    assert listener.read().count(b"HMSG") == LISTENERS
    assert tracer.read().count(b'"type":"eg"') == LISTENERS
    assert b.session.cid not in node.sessions
