"""What TLS has told about a client, for those who look at it later."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClientTls:
    """One client's TLS; empty without.

    Attributes:
        version: such as `1.3`.
        cipher_suite: by its name.
        certificate: the client's own, in DER; empty when it has shown none.
        certificates: the same, and those that came with it.
    """

    version: str = ""
    cipher_suite: str = ""
    certificate: bytes = b""
    certificates: tuple[bytes, ...] = ()
