"""Advisories of streams and of the API: subjects, fields in order, silence without interest."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from jetstream_server.base.nuid import Nuid
from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.jetstream.advisory import (
    QUOTED_BYTES_MAX,
    publish_api_audit,
    publish_stream_action,
)
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.output import Output, Publish

NOW = 1_700_000_000_000_000_001


class Client:
    """The origin of a request."""

    echo = True

    def client_info(self, now: int) -> dict[str, Any]:
        return {"id": 7, "rtt": now - NOW}

    def receive(self, stretch: Stretch) -> None:
        raise AssertionError("nothing is routed in these tests")


def make_context(interest: bytes, domain: str = "") -> Context:
    sublist = Sublist()
    sublist.insert(Subscription(interest, Client()))
    return Context("$G", "srv", domain, sublist, Output(sublist), Nuid(Random(1)))


def published(context: Context) -> list[tuple[bytes, dict[str, Any]]]:
    sends = [send for send in context.output.sends_after_flush if isinstance(send, Publish)]
    return [(send.run.subject(0), json.loads(send.run.payload(0))) for send in sends]


@pytest.mark.parametrize(
    ("action", "word"), [("create", b"CREATED"), ("modify", b"UPDATED"), ("delete", b"DELETED")]
)
def test_stream_actions(action: str, word: bytes) -> None:
    context = make_context(b"$JS.EVENT.ADVISORY.STREAM.*.S")
    publish_stream_action(context, "S", action, NOW)
    ((subject, body),) = published(context)
    assert subject == b"$JS.EVENT.ADVISORY.STREAM." + word + b".S"
    assert len(body.pop("id")) == 22
    assert list(body.items()) == [
        ("type", "io.nats.jetstream.advisory.v1.stream_action"),
        ("timestamp", "2023-11-14T22:13:20.000000001Z"),
        ("stream", "S"),
        ("action", action),
    ]


def test_the_domain_is_told() -> None:
    context = make_context(b"$JS.EVENT.>", domain="D")
    publish_stream_action(context, "S", "create", NOW)
    assert published(context)[0][1]["domain"] == "D"


def test_api_audit() -> None:
    context = make_context(b"$JS.EVENT.ADVISORY.API")
    publish_api_audit(context, Client(), b"$JS.API.X", b"\xff<", b'{"a":"\\u003c"}', NOW)
    ((subject, body),) = published(context)
    assert subject == b"$JS.EVENT.ADVISORY.API"
    del body["id"], body["timestamp"]
    assert list(body.items()) == [
        ("type", "io.nats.jetstream.advisory.v1.api_audit"),
        ("server", "srv"),
        ("client", {"id": 7, "rtt": 0}),
        ("subject", "$JS.API.X"),
        ("request", "\ufffd<"),
        ("response", '{"a":"\\u003c"}'),
    ]


def test_what_is_empty_is_left_out() -> None:
    context = make_context(b"$JS.EVENT.ADVISORY.API")
    publish_api_audit(context, None, b"$JS.API.X", b"", b"{}", NOW)
    assert "request" not in published(context)[0][1]


def test_a_mirror_that_asks_is_a_client_of_its_own_kind() -> None:
    context = make_context(b"$JS.EVENT.ADVISORY.API")
    publish_api_audit(context, None, b"$JS.API.CONSUMER.CREATE.O", b"{}", b"{}", NOW)
    assert published(context)[0][1]["client"] == {
        "start": "2023-11-14T22:13:20.000000001Z",
        "id": 0,
        "acc": context.account,
        "server": "srv",
        "kind": "JetStream",
    }


def test_nobody_listens() -> None:
    context = make_context(b"$JS.EVENT.ADVISORY.CONSUMER.>")
    publish_stream_action(context, "S", "create", NOW)
    publish_api_audit(context, None, b"$JS.API.X", b"", b"{}", NOW)
    assert published(context) == []


def test_of_a_very_long_request_and_response_an_audit_quotes_a_part() -> None:
    """One of a list of 190 megabytes took almost two seconds."""
    context = make_context(b"$JS.EVENT.ADVISORY.API")
    long = "é".encode() * QUOTED_BYTES_MAX
    publish_api_audit(context, Client(), b"$JS.API.X", b"a" + long, long, NOW)
    ((_, body),) = published(context)
    half = QUOTED_BYTES_MAX // 2
    assert body["response"] == "é" * half
    assert body["request"] == "a" + "é" * (half - 1) + "\ufffd"
