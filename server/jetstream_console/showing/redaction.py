"""Answers of servers without what may be a secret, whoever put it there."""

from __future__ import annotations

import re
from typing import Any

HIDDEN = "(not shown)"

_WORDS = {"creds", "jwt", "jwts", "pass", "passwd", "password", "secret", "seed", "seeds", "token"}
_WORDS |= {"tokens", "passwords", "secrets", "nonce", "sig"}
_IN_NAMES = ("password", "secret", "private_key", "privatekey", "apikey", "api_key")
_SEPARATORS = re.compile(r"[^a-z]+")
# A user and a password in an address, a seed of an nkey, a JWT.
_IN_TEXTS = re.compile(
    r"(?<=//)[^/@\s]+(?=@)|\bS[ACNOUX][A-Z2-7]{56}\b|\beyJ[\w-]+\.[\w-]+\.[\w-]+"
)


def without_secrets(value: Any) -> Any:
    """Return an answer, as JSON has it, with whatever may be a secret replaced."""
    if isinstance(value, dict):
        return {
            without_secrets(name): HIDDEN if _is_secret(str(name), each) else without_secrets(each)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [without_secrets(each) for each in value]
    return _IN_TEXTS.sub(HIDDEN, value) if isinstance(value, str) else value


def _is_secret(name: str, value: object) -> bool:
    """Tell whether a field is hidden; whether something is on, and how many there are, is not."""
    if not value or isinstance(value, bool | int | float):
        return False
    lower = name.lower()
    words = set(_SEPARATORS.split(lower))
    return bool(words & _WORDS) or any(each in lower for each in _IN_NAMES)
