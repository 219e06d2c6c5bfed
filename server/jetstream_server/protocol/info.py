"""INFO: what the server tells a client about itself.

The first INFO is the first line on a connection. A client of protocol 1 gets it again after its
first PONG, with its account in it (`connect_info`), and whenever the cluster changes or the server
goes into lame duck (docs/reference/protocol.md#info).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

from jetstream_server.protocol import encoder


@dataclass(slots=True, kw_only=True)
class Info:
    """The fields of one INFO, declared in the order the genuine server writes them.

    Those with an empty default are left out while empty.
    """

    server_id: str
    server_name: str
    version: str
    proto: int = 1
    git_commit: str = ""
    go: str
    host: str
    port: int
    headers: bool = True
    auth_required: bool = False
    tls_required: bool = False
    tls_verify: bool = False
    tls_available: bool = False
    max_payload: int
    jetstream: bool = False
    client_id: int = 0
    client_ip: str = ""
    nonce: str = ""
    cluster: str = ""
    cluster_dynamic: bool = False
    domain: str = ""
    connect_urls: tuple[str, ...] = ()
    ldm: bool = False
    connect_info: bool = False
    remote_account: str = ""
    acc_is_sys: bool = False
    api_lvl: int = 0
    xkey: str = ""

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object."""
        values = _values_of(self)
        return {
            name: value
            for name, value, is_always_there in zip(_NAMES, values, _ALWAYS_THERE, strict=True)
            if value or is_always_there
        }

    def line(self) -> bytes:
        """Return the whole line, CR LF included."""
        return encoder.info(self.to_wire())


# Looked up once: every connection gets two INFO lines.
_NAMES = tuple(field.name for field in fields(Info))
_ALWAYS_THERE = tuple(bool(field.default) for field in fields(Info))
_values_of = attrgetter(*_NAMES)
