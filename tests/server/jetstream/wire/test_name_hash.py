"""Short names as nats-server 2.15.1 makes them."""

from __future__ import annotations

from jetstream_server.jetstream.wire.name_hash import name_hash


def test_names_recorded_from_the_genuine_server() -> None:
    assert name_hash("M $G") == "ih8eMwqr"  # the consumer of mirror M in account $G
    assert name_hash("D") == "1vR9AhxX"  # consumer D in `Nats-Stream-Source: O:C=1vR9AhxX ...`
