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
from jetstream_server.net.listener_terms import client_terms, websocket_terms
from jetstream_server.node.listener import Listener


def tls_of(pki: Any, **more: Any) -> TlsOptions:
    return TlsOptions(cert_file=pki.cert("server"), key_file=pki.key("server"), **more)


def test_clients_begin_tls(pki: Any) -> None:
    tls = tls_of(pki, timeout_ns=5 * SECOND, pinned_certs=("ab",), greets_after_ns=-1)
    terms = client_terms(ServerOptions(tls=tls), tls, Listener("127.0.0.1", 4222))
    listener = terms.listener
    assert (listener.host, listener.port, listener.client_type) == ("127.0.0.1", 4222, "nats")
    assert (listener.tls_required, listener.tls_available, listener.tls_verify) == (
        True,
        False,
        False,
    )
    assert listener.auth_timeout_ns == 6 * SECOND  # the handshake comes out of it
    assert terms.tls is not None and terms.websocket is None
    assert (terms.tls_timeout_ns, terms.greets_after_ns) == (5 * SECOND, -1)
    assert terms.pinned_certs == ("ab",)


def test_clients_may_begin_tls(pki: Any) -> None:
    tls = tls_of(pki, ca_file=pki.cert("ca"), is_mapping=True)
    listener = client_terms(ServerOptions(is_plain_allowed=True), tls, Listener()).listener
    assert (listener.tls_required, listener.tls_available, listener.tls_verify) == (
        False,
        True,
        True,
    )
    assert listener.maps_certificates


def test_websockets(pki: Any) -> None:
    websocket = WebsocketOptions(port=-1, tls=tls_of(pki), user_cookie="u", is_same_origin=True)
    terms = websocket_terms(ServerOptions(), websocket, 8080)
    assert terms.tls is not None and terms.websocket is not None
    assert terms.listener.connection_type == "WEBSOCKET" and terms.listener.tls_required
    assert terms.websocket.is_secure and terms.websocket.is_same_origin
    assert terms.websocket.cookies == {"user": "u"}
    plain = websocket_terms(ServerOptions(), WebsocketOptions(is_without_tls=True), 8080)
    assert plain.tls is None and not plain.listener.tls_required


def test_what_cannot_be(pki: Any) -> None:
    with pytest.raises(ConfigError, match="websocket requires TLS configuration"):
        websocket_terms(ServerOptions(), WebsocketOptions(), 8080)
    with pytest.raises(ConfigError, match='JWT authentication via cookie "j"'):
        websocket = WebsocketOptions(is_without_tls=True, jwt_cookie="j")
        websocket_terms(ServerOptions(), websocket, 8080)
    trusting = ServerOptions(operator=OperatorOptions(("O",)))
    rules = websocket_terms(trusting, websocket, 8080).websocket
    assert rules is not None and rules.cookies == {"jwt": "j"}
