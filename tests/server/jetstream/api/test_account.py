"""`$JS.API.INFO`: usage, reservations, limits."""

from __future__ import annotations

from typing import Any

from jetstream_server.jetstream.configs.account_limits import AccountLimits


def test_an_account_without_anything(exchange: Any) -> None:
    assert exchange.raw("INFO", b"ignored") == (
        b'{"type":"io.nats.jetstream.api.v1.account_info_response","memory":0,"storage":0,'
        b'"reserved_memory":0,"reserved_storage":0,"streams":0,"consumers":0,"limits":{'
        b'"max_memory":-1,"max_storage":-1,"max_streams":-1,"max_consumers":-1,'
        b'"max_ack_pending":-1,"memory_max_stream_bytes":-1,"storage_max_stream_bytes":-1,'
        b'"max_bytes_required":false},"api":{"level":4,"total":0,"errors":0}}'
    )


def test_usage_and_reservations(make_exchange: Any) -> None:
    exchange = make_exchange(AccountLimits(max_storage=100_000, max_streams=9), domain="D")
    exchange.ask("STREAM.CREATE.F", {"name": "F", "max_bytes": 60_000})
    exchange.ask("STREAM.CREATE.M", {"name": "M", "storage": "memory", "max_bytes": 500})
    exchange.publish("F", b"four")
    exchange.publish("M", b"four")
    info = exchange.ask("INFO")
    assert info["memory"] == exchange.catalog.streams["M"].store.state().bytes > 0
    assert info["storage"] == exchange.catalog.streams["F"].store.state().bytes > 0
    assert (info["reserved_memory"], info["reserved_storage"]) == (500, 60_000)
    assert (info["streams"], info["consumers"]) == (2, 0)
    assert info["limits"]["max_storage"] == 100_000
    assert list(info)[-2:] == ["domain", "api"]


def test_tiers_stand_in_place_of_limits(make_exchange: Any) -> None:
    tiers = {"R3": AccountLimits(max_streams=3), "R1": AccountLimits(max_storage=100_000)}
    exchange = make_exchange(AccountLimits(tiers=tiers))
    exchange.ask("STREAM.CREATE.F", {"name": "F", "max_bytes": 60_000})
    info = exchange.ask("INFO")
    assert info["limits"]["max_storage"] == info["limits"]["max_ack_pending"] == 0
    assert info["limits"]["max_bytes_required"] is False
    assert list(info["tiers"]) == ["R1", "R3"]
    first, third = info["tiers"]["R1"], info["tiers"]["R3"]
    assert (first["streams"], first["reserved_storage"]) == (1, 60_000)
    assert (third["streams"], third["reserved_storage"]) == (0, 0)
    assert first["limits"]["max_storage"] == 100_000 and third["limits"]["max_streams"] == 3
