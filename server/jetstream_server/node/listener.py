"""The listener by which a client comes in, as far as the client is told of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from jetstream_server.base.clock import SECOND


@dataclass(frozen=True, slots=True)
class Listener:
    """What INFO says of a listener, and how its clients count.

    Attributes:
        host, port: where it listens.
        client_type: `nats` or `websocket`.
        tls_required: clients must begin TLS.
        tls_verify: clients must show a certificate of their own.
        tls_available: clients may begin TLS.
        maps_certificates: a client's certificate says who it is.
        certificate: what the listener itself shows to those who begin TLS, in DER.
        auth_timeout_ns: how long a client has for its CONNECT.
    """

    host: str = ""
    port: int = 0
    client_type: str = "nats"
    tls_required: bool = False
    tls_verify: bool = False
    tls_available: bool = False
    maps_certificates: bool = False
    auth_timeout_ns: int = 2 * SECOND
    certificate: bytes = field(default=b"", repr=False)

    @property
    def connection_type(self) -> str:
        """Return the word of `allowed_connection_types`."""
        return "WEBSOCKET" if self.client_type == "websocket" else "STANDARD"
