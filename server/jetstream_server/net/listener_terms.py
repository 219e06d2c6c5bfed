"""What a listener does with those who connect, as the configuration has it."""

from __future__ import annotations

import dataclasses
import ssl
from dataclasses import dataclass

from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.options import ServerOptions, TlsOptions, WebsocketOptions
from jetstream_server.net.tls_context import make_context, own_certificate, verifies
from jetstream_server.net.websocket_upgrade import WebsocketRules
from jetstream_server.node.listener import Listener


@dataclass(frozen=True, slots=True)
class ListenerTerms:
    """What a listener does with those who connect.

    Attributes:
        listener: what they are told of it.
        tls: the server's side of TLS, None without.
        tls_timeout_ns: how long a client has to come through the layers.
        greets_after_ns: how long INFO waits for a client to begin TLS; 0 greets in clear at once,
            -1 greets only through TLS.
        pinned_certs: keys of which a client's certificate must have one; empty for any.
        websocket: the rules of WebSocket, None where clients speak NATS right away.
    """

    listener: Listener
    tls: ssl.SSLContext | None = None
    tls_timeout_ns: int = 2 * SECOND
    greets_after_ns: int = 0
    pinned_certs: tuple[str, ...] = ()
    websocket: WebsocketRules | None = None


def client_terms(options: ServerOptions, tls: TlsOptions, listener: Listener) -> ListenerTerms:
    """Return what is asked of clients with TLS; `listener` describes the listener without it.

    Raises:
        ConfigError: what the `tls` block names cannot be used.
    """
    listener = dataclasses.replace(
        listener,
        tls_required=not options.is_plain_allowed,
        tls_verify=verifies(tls),
        tls_available=options.is_plain_allowed,
        maps_certificates=tls.is_mapping,
        auth_timeout_ns=options.auth_timeout_ns,
        certificate=own_certificate(tls),
    )
    return ListenerTerms(
        listener, make_context(tls), tls.timeout_ns, tls.greets_after_ns, tls.pinned_certs
    )


def websocket_terms(
    options: ServerOptions, websocket: WebsocketOptions, port: int
) -> ListenerTerms:
    """Return what is asked of WebSocket clients.

    Raises:
        ConfigError: neither TLS nor its absence is configured, or a name cannot be used.
    """
    tls = websocket.tls
    if tls is None and not websocket.is_without_tls:
        raise ConfigError("websocket requires TLS configuration")
    if websocket.jwt_cookie and options.operator is None:
        raise ConfigError(
            "trusted operators or trusted keys configuration is required for JWT authentication"
            f' via cookie "{websocket.jwt_cookie}"'
        )
    cookies = {
        "user": websocket.user_cookie,
        "pass": websocket.password_cookie,
        "auth_token": websocket.token_cookie,
        "jwt": websocket.jwt_cookie,
    }
    rules = WebsocketRules(
        is_secure=tls is not None,
        is_same_origin=websocket.is_same_origin,
        allowed_origins=websocket.allowed_origins,
        is_compressing=websocket.is_compressing,
        inflated_max=options.max_payload,
        headers=websocket.headers,
        cookies={field: name for field, name in cookies.items() if name},
    )
    listener = Listener(
        websocket.host,
        port,
        client_type="websocket",
        tls_required=tls is not None,
        tls_verify=tls is not None and verifies(tls),
        maps_certificates=tls is not None and tls.is_mapping,
        auth_timeout_ns=options.auth_timeout_ns,
        certificate=own_certificate(tls) if tls is not None else b"",
    )
    timeout_ns = max(websocket.handshake_timeout_ns, tls.timeout_ns if tls is not None else 0)
    return ListenerTerms(listener, _context(tls), timeout_ns, -1, _pins(tls), rules)


def _context(tls: TlsOptions | None) -> ssl.SSLContext | None:
    return make_context(tls) if tls is not None else None


def _pins(tls: TlsOptions | None) -> tuple[str, ...]:
    return tls.pinned_certs if tls is not None else ()
