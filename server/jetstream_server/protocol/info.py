"""INFO: what the server tells a client about itself.

The first INFO is the first line on a connection. A client of protocol 1 gets it again after its
first PONG, with its account in it (`connect_info`), and whenever the cluster changes or the server
goes into lame duck (`jetstream.md` 1.2, `checked-wire-consumers.md` 1.1).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
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
        named = ((field, getattr(self, field.name)) for field in fields(self))
        return {field.name: value for field, value in named if value or field.default}

    def line(self) -> bytes:
        """Return the whole line, CR LF included."""
        return encoder.info(self.to_wire())
