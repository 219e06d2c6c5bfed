"""The API under the name of its domain."""

from __future__ import annotations

import pytest
from jetstream_server.node.accounts.domain_mapping import DomainMapping

CONNECT = b'{"verbose":false,"pedantic":false,"headers":true,"no_responders":true}'


@pytest.fixture
def client(node, make_client):
    DomainMapping(node.accounts["$G"], "hub").subscribe()
    client = make_client(node)
    client.connect(CONNECT)
    return client


@pytest.mark.parametrize(
    ("published", "seen"),
    [
        (b"$JS.hub.API.STREAM.INFO.S", b"$JS.API.STREAM.INFO.S"),
        (b"$JS.hub.API.$KV.b.k", b"$KV.b.k"),
        (b"$JS.hub.API.$O.b.C.x", b"$O.b.C.x"),
    ],
)
def test_subjects(client, published, seen):
    client.say(b"SUB $JS.API.> 1\r\nSUB $KV.> 1a\r\nSUB $O.> 1b\r\n")
    said = client.say(b"PUB %b back 2\r\nhi\r\n" % published)
    assert said.startswith(b"MSG %b " % seen) and b" back 2\r\nhi\r\n" in said


def test_nobody_there_is_said_of_the_mapped_subject(client):
    said = client.say(b"SUB in 1\r\nPUB $JS.hub.API.CONSUMER.MSG.NEXT.S.c in 0\r\n\r\n")
    assert b"503" in said
    assert b"Nats-Subject: $JS.API.CONSUMER.MSG.NEXT.S.c\r\n" in said


def test_another_domain_is_nobody(client):
    said = client.say(b"SUB in 1\r\nPUB $JS.other.API.INFO in 0\r\n\r\n")
    assert b"Nats-Subject: $JS.other.API.INFO\r\n" in said
