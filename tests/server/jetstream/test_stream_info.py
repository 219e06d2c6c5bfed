"""StreamInfo in its four variants."""

from __future__ import annotations

import json

from jetstream_server.jetstream import stream_info
from jetstream_server.jetstream.wire.go_json import encode

from tests.server.jetstream.api.conftest import Exchange


def test_the_variants_differ_in_domain_cluster_and_metadata() -> None:
    exchange = Exchange(domain="D")
    exchange.ask("STREAM.CREATE.S", {"name": "S"})
    stream, now = exchange.catalog.stream("S"), exchange.now
    created = stream_info.created_info(stream, now)
    updated = stream_info.updated_info(stream, now)
    listed = stream_info.listed_info(stream, now)
    full = stream_info.full_info(stream, now, {"S": 1}, [3])
    assert list(created) == ["config", "created", "state", "ts"]
    assert list(updated) == list(listed) == ["config", "created", "state", "domain", "ts"]
    assert list(full) == ["config", "created", "state", "domain", "cluster", "ts"]
    assert full["state"]["subjects"] == {"S": 1} and full["state"]["deleted"] == [3]
    server_keys = ["_nats.level", "_nats.req.level", "_nats.ver"]
    assert list(created["config"]["metadata"]) == server_keys
    assert list(full["config"]["metadata"]) == server_keys
    as_json = json.loads(encode(listed))
    assert list(as_json["config"]["metadata"]) == ["_nats.req.level"]
