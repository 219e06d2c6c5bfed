"""Sequences of what an attacker does: a few features at a time, so that what they do meets."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

from tests.attack.acts import Act, Publish, Steps
from tests.attack.draws import CONSUMERS, SECOND, Draw
from tests.attack.grammar_claims import (
    asking_about_claims,
    cookies,
    deleting_accounts,
    expiring,
    showing,
    updating_accounts,
)
from tests.attack.grammar_jetstream import (
    KINDS,
    acking,
    any_request,
    batches,
    fast_batches,
    getting,
    making_consumers,
    making_streams,
    publishing,
    pulling,
    templates,
)
from tests.attack.grammar_surroundings import (
    asking_the_system,
    crashing,
    crossing,
    external_origins,
    feeds,
    importing,
    joining,
    looking,
    passing,
    reloading,
    speaking,
    transfers,
    web,
)


def scene(draw: Draw) -> Steps:
    """What an attack begins with: streams that depend on each other, and consumers of all."""
    kind = draw.one(KINDS)
    counters = {"allow_msg_counter": True} if kind.get("allow_msg_counter") else {}
    streams: list[dict[str, Any]] = [
        {"name": "S0", "subjects": ["s0.>"], **kind},
        {"name": "S1", "subjects": ["s1.>"], "sources": [{"name": "S0"}], **counters},
        {"name": "S2", "mirror": {"name": draw.one(("S0", "S1"))}, "allow_direct": True},
        {"name": "S3", "subjects": ["s3.>"], **draw.one(KINDS)},
    ]
    for fields in streams:
        if draw.often(0.8):
            body = json.dumps({"storage": draw.one(("file", "memory")), **fields}).encode()
            yield Publish(
                0, b"$JS.API.STREAM.CREATE.%b" % fields["name"].encode(), draw.reply(), b"", body
            )
    for number in range(4):
        stream, name = f"S{number}", draw.one(CONSUMERS)
        config: dict[str, Any] = {"name": name, "durable_name": name, "ack_policy": "explicit"}
        if draw.often(0.4):
            config |= {
                "deliver_subject": "_INBOX.push",
                "flow_control": True,
                "idle_heartbeat": SECOND,
            }
        body = json.dumps({"stream_name": stream, "config": config}).encode()
        yield Publish(
            0, f"$JS.API.CONSUMER.CREATE.{stream}.{name}".encode(), draw.reply(), b"", body
        )
        headers = b"NATS/1.0\r\nNats-Incr: 1\r\n\r\n" if counters else b""
        yield Publish(0, b"s%d.a" % number, draw.reply(), headers, b"" if counters else b"x")
        wish = b'{"batch":9,"expires":5000000000}'
        yield Publish(
            0, f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}".encode(), b"_INBOX.pull", b"", wish
        )


# How often a feature has its turn, beside the others.
FEATURES: dict[Callable[[Draw], Steps], int] = {
    making_streams: 12, making_consumers: 10, publishing: 14, pulling: 10, acking: 5, batches: 5,
    getting: 5, feeds: 8, transfers: 4, any_request: 6, templates: 1, asking_the_system: 4,
    looking: 3, crossing: 3, reloading: 1, passing: 4, speaking: 4, joining: 2, web: 3, crashing: 1,
    fast_batches: 5, importing: 6, external_origins: 1,
}  # fmt: skip
# Where an operator is trusted.
OPERATED: dict[Callable[[Draw], Steps], int] = FEATURES | {
    showing: 35, updating_accounts: 35, deleting_accounts: 4, asking_about_claims: 10,
    expiring: 8, cookies: 5, crashing: 3, reloading: 3,
}  # fmt: skip
# What the genuine server can be asked as well.
COMPARED = (
    making_streams,
    making_consumers,
    publishing,
    pulling,
    acking,
    batches,
    getting,
    any_request,
    fast_batches,
    importing,
)


def sequence(seed: int, features: dict[Callable[[Draw], Steps], int] = FEATURES) -> list[Act]:
    """Return everything that one seed does."""
    random = Random(f"attack {seed}")
    draw = Draw(random, random.choice((0.0, 0.02, 0.05, 0.15, 0.3)))
    kinds, weights = list(features), list(features.values())
    # A few features at a time: what they do meets.
    chosen = random.choices(kinds, weights, k=random.randint(2, 6))
    acts: list[Act] = []
    if random.random() < 0.7:
        acts += scene(draw)
    else:
        acts += making_streams(draw)
    for _ in range(random.randint(5, 25)):
        feature = (
            random.choice(chosen) if random.random() < 0.8 else random.choices(kinds, weights)[0]
        )
        acts += feature(draw)
    return acts
