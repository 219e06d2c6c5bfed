"""What CONNECT may say, by its type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

_FIELD_TYPES: dict[str, type] = {
    "verbose": bool,
    "pedantic": bool,
    "echo": bool,
    "headers": bool,
    "no_responders": bool,
    "protocol": int,
    "user": str,
    "pass": str,
    "auth_token": str,
    "nkey": str,
    "sig": str,
    "jwt": str,
    "name": str,
    "lang": str,
    "version": str,
    "tls_required": bool,
    "account": str,
    "new_account": bool,
    "remote_account": str,
    "proxy_sig": str,
    "import": dict,
    "export": dict,
}


def known(options: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that mean something; otherwise a client could pile up any number of
    others."""
    return {name: value for name, value in options.items() if name in _FIELD_TYPES}


def without_nulls(options: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that are not null; null is as good as left out."""
    return {name: value for name, value in options.items() if value is not None}


def is_well_typed(options: dict[str, Any]) -> bool:
    """Tell whether each field that is there has the type it must have."""
    for key, kind in _FIELD_TYPES.items():
        value = options.get(key)
        if value is not None and (
            not isinstance(value, kind) or (kind is int and isinstance(value, bool))
        ):
            return False
    return True


@dataclass(frozen=True, slots=True)
class Wishes:
    """How a client wants to be talked to.

    Attributes:
        verbose: it is told whenever it did something right.
        pedantic: it is told of subjects that nobody can receive.
        echo: it gets what it publishes itself.
        headers: it understands HMSG.
        no_responders: it is told when nobody listens to what it asks.
        protocol: 1 when it understands INFO at any time.
    """

    verbose: bool = True
    pedantic: bool = True
    echo: bool = True
    headers: bool = False
    no_responders: bool = False
    protocol: int = 0

    @classmethod
    def of(cls, options: dict[str, Any], *, has_headers: bool) -> Self:
        """Return what the fields of a CONNECT say, all of them well typed.

        Args:
            has_headers: the server lets clients use headers.
        """
        return cls(
            verbose=options.get("verbose", True),
            pedantic=options.get("pedantic", True),
            echo=options.get("echo", True),
            headers=options.get("headers", False) and has_headers,
            no_responders=options.get("no_responders", False),
            protocol=options.get("protocol", 0),
        )
