"""Fields of answers as they may be: absent, of another type, or more than was expected.

Any server is a stranger: an answer that lacks a field is shown without it, and never breaks a page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from jetstream_console.asking.errors import RefusedError

Answer = Mapping[str, Any]

_NEVER = "0001-01-01T00:00:00"


def parsed(payload: bytes) -> dict[str, Any]:
    """Return the JSON object that a server sent.

    Raises:
        RefusedError: it is not a JSON object, or it holds an error, whose words the exception
            takes.
    """
    try:
        found = json.loads(payload.decode("utf-8", "replace"))
        if b"\\ud" in payload.lower():
            # JSON can escape half a character, which cannot be sent to a browser.
            found = json.loads(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise RefusedError("The answer is no JSON object.")
    error = found.get("error")
    if error:
        details = error if isinstance(error, dict) else {"description": str(error)}
        words = text(details, "description") or "The server refused, and did not say why."
        raise RefusedError(words, number(details, "code"), number(details, "err_code"))
    return found


def number(answer: Answer, key: str) -> int:
    """Return a whole number, 0 where there is none."""
    value = answer.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def text(answer: Answer, key: str) -> str:
    """Return a text, empty where there is none."""
    value = answer.get(key)
    return value if isinstance(value, str) else ""


def flag(answer: Answer, key: str) -> bool:
    """Return a switch, off where there is none."""
    return answer.get(key) is True


def part(answer: Answer, key: str) -> dict[str, Any]:
    """Return an object within an answer, empty where there is none."""
    value = answer.get(key)
    return value if isinstance(value, dict) else {}


def parts(answer: Answer, key: str) -> list[dict[str, Any]]:
    """Return the objects of a list, without whatever else is in it."""
    value = answer.get(key)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def texts(answer: Answer, key: str) -> tuple[str, ...]:
    """Return the texts of a list."""
    value = answer.get(key)
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def moment(answer: Answer, key: str) -> datetime | None:
    """Return a time in UTC, to the microsecond; None if there is none, or it is the one that means
    never."""
    value = text(answer, key)
    if not value or value.startswith(_NEVER):
        return None
    try:
        found = datetime.fromisoformat(_microseconds(value))
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _microseconds(value: str) -> str:
    """Return an RFC 3339 time with at most six digits after the second, which is all that Python
    reads."""
    head, point, rest = value.partition(".")
    if not point:
        return value
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    return f"{head}.{digits[:6]:0<6}{rest[len(digits) :]}"
