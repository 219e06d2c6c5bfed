"""Advisories, byte for byte."""

from __future__ import annotations

import re

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.jetstream.consumers.consumer_advisory import ConsumerAdvisories

HEAD = (
    '{"type":"io.nats.jetstream.advisory.v1.%s","id":"<id>",'
    '"timestamp":"2023-11-14T22:13:20Z",%s"stream":"S","consumer":"C",'
)


@pytest.mark.parametrize(
    ("call", "subject", "text"),
    [
        (("created",), "CREATED", (HEAD % ("consumer_action", "")) + '"action":"create"}'),
        (("deleted",), "DELETED", (HEAD % ("consumer_action", "")) + '"action":"delete"}'),
        (
            ("paused", 1_700_000_001 * SECOND, True),
            "PAUSE",
            (HEAD % ("consumer_pause", "")) + '"paused":true,"pause_until":"2023-11-14T22:13:21Z"}',
        ),
        (
            ("naked", 2, 3, 1),
            "MSG_NAKED",
            (HEAD % ("nak", "")) + '"consumer_seq":2,"stream_seq":3,"deliveries":1}',
        ),
        (
            ("terminated", 2, 3, 1, "why"),
            "MSG_TERMINATED",
            (HEAD % ("terminated", ""))
            + '"consumer_seq":2,"stream_seq":3,"deliveries":1,"reason":"why"}',
        ),
        (
            ("terminated", 2, 3, 1, ""),
            "MSG_TERMINATED",
            (HEAD % ("terminated", "")) + '"consumer_seq":2,"stream_seq":3,"deliveries":1}',
        ),
        (
            ("exhausted", 4, 2),
            "MAX_DELIVERIES",
            (HEAD % ("max_deliver", "")) + '"stream_seq":4,"deliveries":2}',
        ),
        (
            ("pinned", "g", "pin"),
            "PINNED",
            (HEAD % ("consumer_group_pinned", '"account":"$G",'))
            + '"group":"g","pinned_id":"pin"}',
        ),
        (
            ("unpinned", "g", "admin"),
            "UNPINNED",
            (HEAD % ("consumer_group_unpinned", '"account":"$G",'))
            + '"group":"g","reason":"admin"}',
        ),
    ],
)
def test_bodies(account, call, subject, text):
    subject = f"$JS.EVENT.ADVISORY.CONSUMER.{subject}.S.C".encode()
    advisories = ConsumerAdvisories(account.context, "S", "C")
    verb, *arguments = call
    getattr(advisories, verb)(*arguments, account.now)
    assert account.output.sends_after_flush == []
    account.subscribe(subject)
    getattr(advisories, verb)(*arguments, account.now)
    account.turn()
    (message,) = account.client.take()
    assert message.subject == subject
    assert re.sub(r'"id":"\w{22}"', '"id":"<id>"', message.payload.decode()) == text


def test_the_domain_comes_last(account):
    account.context.domain = "hub"
    account.subscribe(b"$JS.EVENT.ADVISORY.CONSUMER.CREATED.S.C")
    ConsumerAdvisories(account.context, "S", "C").created(account.now)
    account.turn()
    assert account.client.take()[0].payload.endswith(b'"action":"create","domain":"hub"}')
