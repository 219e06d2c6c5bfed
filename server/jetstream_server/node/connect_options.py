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
}


def is_well_typed(options: dict[str, Any]) -> bool:
    """Tell whether each field has the type it must have; those that are null are left out."""
    for key, kind in _FIELD_TYPES.items():
        value = options.get(key)
        if value is None:
            options.pop(key, None)
        elif not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            return False
    return True
