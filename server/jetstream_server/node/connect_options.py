"""What CONNECT may say, by its type."""

from __future__ import annotations

from typing import Any

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
    """Return the fields that mean something; a client could pile up others without end."""
    return {name: value for name, value in options.items() if name in _FIELD_TYPES}


def is_well_typed(options: dict[str, Any]) -> bool:
    """Tell whether each field has the type it must have; those that are null are left out."""
    for key, kind in _FIELD_TYPES.items():
        value = options.get(key)
        if value is None:
            options.pop(key, None)
        elif not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            return False
    return True
