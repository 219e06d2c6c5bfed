"""Services of another account: requests there, answers back."""

from __future__ import annotations

import re
from random import Random

import pytest
from jetstream_server.base.clock import MINUTE
from jetstream_server.config.options import MappingDestination, SubjectMapping
from jetstream_server.core.wildcard_mapping import WildcardMapping
from jetstream_server.node.accounts.service_imports import ServiceImport
from jetstream_server.node.accounts.service_replies import ResponseTerms
from jetstream_server.node.accounts.stream_imports import StreamImport
from jetstream_server.node.accounts.subject_mappings import SubjectMappings
from jetstream_server.node.service_latency import LatencyTerms
from jetstream_server.protocol.ops import PubRun


@pytest.fixture
def node(accounts_node):
    return accounts_node


def join(
    node, source, target, *, kind="singleton", share=False, importer="B", exporter="A", latency=None
):
    link = ServiceImport(
        node.accounts[importer],
        node.accounts[exporter],
        WildcardMapping(source, target),
        ResponseTerms(kind, 2 * MINUTE, latency),
        Random(5),
        is_sharing=share,
    )
    link.open()
    return link


def reply_in(said):
    return re.search(rb" (_R_\.\w{6}\.\w{6}) ", said)[1]


def test_a_request_and_its_answer(node, connect):
    join(node, b"map.*.*", b"swap.$2.$1")
    a, b = connect(b"a"), connect(b"b")
    a.say(b"SUB map.> 1\r\n")
    b.say(b"SUB inbox 5\r\nPUB swap.1.2 inbox 2\r\nhi\r\n")
    asked = a.read()
    assert asked.startswith(b"HMSG map.2.1 1 _R_.")
    assert b'Nats-Request-Info: {"acc":"B","rtt":1}\r\n\r\nhi' in asked
    reply = reply_in(asked)
    a.say(b"PUB %b 3\r\nyes\r\nPUB %b 4\r\nmore\r\n" % (reply, reply))
    assert b.read() == b"MSG inbox 5 3\r\nyes\r\n", "a singleton has one answer"


@pytest.mark.parametrize("target", [b"svc", b"renamed"])
def test_who_imports_the_same_as_a_stream_is_asked_nothing(node, connect, target):
    """As in the genuine server. A request was lost where the group's share fell to them, and
    nobody was told where nobody else listens."""
    join(node, b"svc", b"svc", importer="C")
    StreamImport(node.accounts["B"], node.accounts["A"], WildcardMapping(b"svc", target)).open()
    a, b, c = connect(b"a"), connect(b"b"), connect(b"c")
    b.say(b"SUB %b q 1\r\n" % target)
    ask = b"PUB svc inbox 0\r\n\r\n"
    assert c.say(b"SUB inbox 5\r\n" + ask).startswith(b"HMSG inbox 5 35 35\r\nNATS/1.0 503\r\n")
    a.say(b"SUB svc q 1\r\n")
    assert c.say(ask * 40) == b""
    assert a.read().count(b"HMSG svc 1 ") == 40 and b.read() == b""


def test_headers_are_kept_and_whoever_asks_is_told_once(node, connect):
    join(node, b"svc", b"svc")
    a, b = connect(b"a"), connect(b"b")
    a.say(b"SUB svc 1\r\n")
    block = b"NATS/1.0\r\nNats-Request-Info: forged\r\nH: v\r\n\r\n"
    b.say(b"HPUB svc %d %d\r\n%b\r\n" % (len(block), len(block), block))
    said = a.read()
    assert b"H: v\r\nNats-Request-Info: {" in said and b"forged" not in said


def test_sharing_says_who_asks(node, connect):
    join(node, b"svc", b"svc", share=True)
    a, b = connect(b"a"), connect(b"b")
    a.say(b"SUB svc 1\r\n")
    b.say(b"PUB svc 0\r\n\r\n")
    assert b'"acc":"B","user":"b","name":"me"' in a.read()


def test_nobody_serves(node, connect):
    link = join(node, b"svc", b"call")
    b = connect(b"b")
    said = b.say(b"SUB inbox 5\r\nPUB call inbox 0\r\n\r\n")
    assert b"503" in said and b"Nats-Subject: call\r\n" in said
    assert len(node.accounts["A"].replies) == 0
    # Somebody at home is as good.
    assert b"503" not in b.say(b"SUB call 6\r\nPUB call inbox 0\r\n\r\n")
    link.close()
    assert node.accounts["B"].sublist.count == 2


def test_two_services_of_one_subject(node, connect):
    join(node, b"svc", b"call")
    join(node, b"svc", b"call", exporter="C")
    b, c = connect(b"b"), connect(b"c")
    said = b.say(b"SUB inbox 5\r\nPUB call inbox 0\r\n\r\n")
    assert said.count(b"503") == 1
    c.say(b"SUB svc 1\r\n")
    assert b"503" not in b.say(b"PUB call inbox 0\r\n\r\n")
    assert reply_in(c.read())


def test_a_chain(node, connect):
    join(node, b"svc", b"call")
    join(node, b"call", b"twice", importer="C", exporter="B")
    a, c = connect(b"a"), connect(b"c")
    assert b"Nats-Subject: twice" in c.say(b"SUB inbox 5\r\nPUB twice inbox 0\r\n\r\n")
    a.say(b"SUB svc 1\r\n")
    c.say(b"PUB twice inbox 0\r\n\r\n")
    asked = a.read()
    assert b'{"acc":"C","svc":"B","rtt":1}' in asked
    a.say(b"PUB %b 2\r\nok\r\n" % reply_in(asked))
    assert c.read() == b"MSG inbox 5 2\r\nok\r\n"


def test_mappings_of_the_exporter_apply(node, connect):
    join(node, b"svc", b"svc")
    mapping = SubjectMapping("svc", (MappingDestination("svc.v2"),))
    node.accounts["A"].mappings = SubjectMappings([mapping], node.random)
    a, b = connect(b"a"), connect(b"b")
    a.say(b"SUB svc.v2 1\r\n")
    b.say(b"PUB svc 0\r\n\r\n")
    assert a.read().startswith(b"HMSG svc.v2 1 ")


def test_acks_are_left_alone(node, connect):
    join(node, b"next", b"next")
    a = connect(b"a")
    a.say(b"SUB next 1\r\n")
    request = PubRun.single(b"next", b"$JS.ACK.S.c.1.1.1.1.0")
    node.accounts["B"].router.route(request, None, 0)
    assert b" $JS.ACK.S.c.1.1.1.1.0 " in a.read()


def test_a_timed_service(node, connect):
    join(node, b"svc", b"svc", latency=LatencyTerms(100, b"told"))
    a, b = connect(b"a"), connect(b"b")
    a.say(b"SUB told 7\r\n")
    b.say(b"SUB inbox 1\r\nPUB svc inbox 0\r\n\r\n")
    assert b'"status":503' in a.read()
    a.say(b"SUB svc 8\r\n")
    b.say(b"PUB svc 0\r\n\r\n")
    assert b'"status":400' in a.read()
    b.say(b"PUB svc inbox 0\r\n\r\n")
    reply = reply_in(a.read())
    assert b'"status":200' in a.say(b"PUB %b 2\r\nok\r\n" % reply)


def test_what_takes_too_long_is_told_by_the_clock(node, connect):
    join(node, b"svc", b"svc", latency=LatencyTerms(100, b"told"))
    a, b = connect(b"a"), connect(b"b")
    a.say(b"SUB told 7\r\nSUB svc 8\r\n")
    b.say(b"PUB svc inbox 0\r\n\r\n")
    a.read()
    node.run(b.now + 2 * MINUTE)
    assert b'"status":504' in a.read()
