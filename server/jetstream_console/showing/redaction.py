"""Answers of servers without what may be a secret, whoever put it there."""

from __future__ import annotations

import json
import re
from collections import deque
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
    try:
        return _without(value)
    except RecursionError:
        return "(not shown: it is nested too deeply)"


def text_without_secrets(text: str) -> str:
    """Return a text with what looks like a secret replaced."""
    return _IN_TEXTS.sub(HIDDEN, text)


def with_secrets(written: Any, known: Any) -> Any:
    """Return what somebody has made of an answer that was shown without its secrets, with those of
    them that were left as they were shown."""
    shown = without_secrets(known)
    if written == shown:
        return known
    if isinstance(written, dict) and isinstance(known, dict):
        there = {without_secrets(name): (name, each) for name, each in known.items()}
        found = {}
        for name, each in written.items():
            before, value = there.get(name, (name, None))
            is_as_shown = name in there and each == shown[name]
            found[before] = value if is_as_shown else with_secrets(each, value)
        return found
    if isinstance(written, list) and isinstance(known, list):
        return _list_with_secrets(written, known, shown)
    return written


def _list_with_secrets(written: list[Any], known: list[Any], shown: list[Any]) -> list[Any]:
    """Elements may have been added, or taken out; one that was changed is where it was. Those that
    look the same have secrets of their own, so each is taken once, and beyond that the last."""
    places: dict[str, deque[int]] = {}
    for place, each in enumerate(shown):
        places.setdefault(json.dumps(each, sort_keys=True), deque()).append(place)
    found = []
    for place, each in enumerate(written):
        alike = places.get(json.dumps(each, sort_keys=True))
        if alike is None:
            before = known[place] if len(written) == len(known) else None
            found.append(with_secrets(each, before))
        else:
            found.append(known[alike.popleft() if len(alike) > 1 else alike[0]])
    return found


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            _without(name): HIDDEN if _is_secret(str(name), each) else _without(each)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [_without(each) for each in value]
    return text_without_secrets(value) if isinstance(value, str) else value


def _is_secret(name: str, value: object) -> bool:
    """Tell whether a field is hidden; whether something is on, and how many there are, is not."""
    if not value or isinstance(value, bool | int | float):
        return False
    lower = name.lower()
    words = set(_SEPARATORS.split(lower))
    return bool(words & _WORDS) or any(each in lower for each in _IN_NAMES)
