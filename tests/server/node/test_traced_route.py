"""The way of a traced message; `tracing.txt` plays all of it beside the genuine server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jetstream_server.base.errors import StoreError
from jetstream_server.core.containment import Containment
from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.node.accounts.domain_mapping import DomainMapping

ONLY = b"NATS/1.0\r\nNats-Trace-Dest: tr\r\nNats-Trace-Only: 1\r\n\r\n"
TRACED = b"NATS/1.0\r\nNats-Trace-Dest: tr\r\n\r\n"


def events(said: bytes) -> list[dict[str, Any]]:
    [told] = [json.loads(line) for line in said.split(b"\r\n") if line.startswith(b'{"server"')]
    return [{k: v for k, v in each.items() if k not in ("ts", "cid")} for each in told["events"]]


def publish(subject: bytes, headers: bytes = TRACED) -> bytes:
    return b"HPUB %b %d %d\r\n%b\r\n" % (subject, len(headers), len(headers), headers)


class Failing:
    """A receiver that cannot take anything."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def receive(self, stretch: Stretch) -> None:
        raise self._error


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def client(make_node: Any, make_client: Any, log: list[str]) -> Any:
    made = make_client(make_node(containment=Containment(lambda level, text: log.append(text))))
    made.connect(b'{"verbose":false,"pedantic":false,"headers":true,"echo":false}')
    made.say(b"SUB tr 1\r\n")
    return made


@pytest.mark.parametrize("error", [StoreError("full"), ZeroDivisionError()])
def test_what_one_receiver_cannot_take_the_others_get(
    client: Any, log: list[str], error: Exception
):
    account = client.node.accounts["$G"]
    account.sublist.insert(Subscription(b"foo", Failing(error)))
    reader = type(client)(client.node)
    reader.connect(b'{"verbose":false,"headers":true}')
    reader.say(b"SUB foo 1\r\n")
    assert [each["type"] for each in events(client.say(publish(b"foo")))] == ["in", "eg"]
    assert b"HMSG foo" in reader.read()
    assert ("ZeroDivisionError" in "".join(log)) == isinstance(error, ZeroDivisionError)


def test_the_publisher_itself_without_echo(client: Any):
    client.say(b"SUB foo 2\r\nSUB foo q 3\r\n")
    said = client.say(publish(b"foo"))
    errors = [each.get("error") for each in events(said)]
    assert errors == [None] + 2 * ["Not delivered because of no echo"]


def test_requests_of_a_domain_are_not_acted_on_either(client: Any):
    account = client.node.accounts["$G"]
    DomainMapping(account, "hub").subscribe()
    client.say(b"SUB $JS.API.STREAM.DELETE.S 2\r\n")
    said = client.say(publish(b"$JS.hub.API.STREAM.DELETE.S", ONLY))
    told = events(said)
    assert told[1] == {"type": "sm", "to": "$JS.API.STREAM.DELETE.S"}
    assert b"HMSG $JS" not in said
