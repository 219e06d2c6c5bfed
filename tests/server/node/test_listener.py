"""What clients are told of the listener they came in by."""

from __future__ import annotations

import json
from typing import Any

from jetstream_server.node.auth.auth import Authenticator, SignInFacts, User
from jetstream_server.node.listener import Listener
from jetstream_server.node.node import Node


def info_of(node: Node, listener: Listener | None) -> dict[str, Any]:
    session = node.open_session("10.0.0.1", 9, 0, listener)
    return dict(json.loads(session.take_output()[5:]))


def test_the_clients_port_is_the_usual_listener(make_node: Any) -> None:
    info = info_of(make_node(), None)
    assert "tls_required" not in info and "tls_available" not in info
    assert info["client_ip"] == "10.0.0.1"


def test_info_speaks_of_the_listener(make_node: Any) -> None:
    listener = Listener("127.0.0.1", 8080, "websocket", tls_required=True, tls_verify=True)
    info = info_of(make_node(), listener)
    assert (info["host"], info["port"]) == ("127.0.0.1", 8080)
    assert info["tls_required"] and info["tls_verify"]
    assert info_of(make_node(), Listener(tls_available=True))["tls_available"]


def test_words_of_connection_types() -> None:
    assert Listener().connection_type == "STANDARD"
    assert Listener(client_type="websocket").connection_type == "WEBSOCKET"


def test_a_certificate_says_who_it_is_and_nothing_else_does() -> None:
    users = [User(name="derek@nats.io"), User(name="bob", password="b")]
    authenticator = Authenticator(users)
    named = authenticator.authenticate({}, SignInFacts(certificate_names=["x", "derek@nats.io"]))
    assert named is not None and named.name == "derek@nats.io"
    options = {"user": "bob", "pass": "b"}
    assert authenticator.authenticate(options, SignInFacts(certificate_names=["x"])) is None
    assert authenticator.authenticate(options) is users[1]
