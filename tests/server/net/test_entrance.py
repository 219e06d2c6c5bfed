"""What a listener asks, out of the configuration."""

from __future__ import annotations

from typing import Any

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.options import (
    OperatorOptions,
    ServerOptions,
    TlsOptions,
    WebsocketOptions,
)
from jetstream_server.net.entrance import client_entrance, websocket_entrance
from jetstream_server.node.door import Door


def tls_of(pki: Any, **more: Any) -> TlsOptions:
    return TlsOptions(cert_file=pki.cert("server"), key_file=pki.key("server"), **more)


def test_clients_begin_tls(pki: Any) -> None:
    tls = tls_of(pki, timeout_ns=5 * SECOND, pinned_certs=("ab",), greets_after_ns=-1)
    entrance = client_entrance(ServerOptions(tls=tls), tls, Door("127.0.0.1", 4222))
    door = entrance.door
    assert (door.host, door.port, door.client_type) == ("127.0.0.1", 4222, "nats")
    assert (door.tls_required, door.tls_available, door.tls_verify) == (True, False, False)
    assert door.auth_timeout_ns == 6 * SECOND  # the handshake comes out of it
    assert entrance.tls is not None and entrance.websocket is None
    assert (entrance.tls_timeout_ns, entrance.greets_after_ns) == (5 * SECOND, -1)
    assert entrance.pinned_certs == ("ab",)


def test_clients_may_begin_tls(pki: Any) -> None:
    tls = tls_of(pki, ca_file=pki.cert("ca"), is_mapping=True)
    door = client_entrance(ServerOptions(is_plain_allowed=True), tls, Door()).door
    assert (door.tls_required, door.tls_available, door.tls_verify) == (False, True, True)
    assert door.maps_certificates


def test_websockets(pki: Any) -> None:
    websocket = WebsocketOptions(port=-1, tls=tls_of(pki), user_cookie="u", is_same_origin=True)
    entrance = websocket_entrance(ServerOptions(), websocket, 8080)
    assert entrance.tls is not None and entrance.websocket is not None
    assert entrance.door.connection_type == "WEBSOCKET" and entrance.door.tls_required
    assert entrance.websocket.is_secure and entrance.websocket.is_same_origin
    assert entrance.websocket.cookies == {"user": "u"}
    plain = websocket_entrance(ServerOptions(), WebsocketOptions(is_without_tls=True), 8080)
    assert plain.tls is None and not plain.door.tls_required


def test_what_cannot_be(pki: Any) -> None:
    with pytest.raises(ConfigError, match="websocket requires TLS configuration"):
        websocket_entrance(ServerOptions(), WebsocketOptions(), 8080)
    with pytest.raises(ConfigError, match='JWT authentication via cookie "j"'):
        websocket = WebsocketOptions(is_without_tls=True, jwt_cookie="j")
        websocket_entrance(ServerOptions(), websocket, 8080)
    trusting = ServerOptions(operator=OperatorOptions(("O",)))
    rules = websocket_entrance(trusting, websocket, 8080).websocket
    assert rules is not None and rules.cookies == {"jwt": "j"}
