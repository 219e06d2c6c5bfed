"""A message that somebody writes by hand, and the stream that took it."""

from __future__ import annotations

from dataclasses import dataclass

from jetstream_console.asking.answers import flag, number, parsed, text
from jetstream_console.asking.errors import RefusedError
from jetstream_console.asking.link import ServerLink

# A header: the sequence of the last message of the subject, without which none is stored.
EXPECTED_LAST = "Nats-Expected-Last-Subject-Sequence"
# The last sequence of a subject is another one; the second stands for a stream with replicas.
_WRONG_LAST = (10071, 10164)


@dataclass(frozen=True, slots=True)
class Stored:
    """What a stream says about a message that it took.

    Attributes:
        is_duplicate: whether it already had a message with the same id, and stored none.
    """

    stream: str
    sequence: int
    is_duplicate: bool


async def publish(
    link: ServerLink, subject: str, payload: bytes, headers: dict[str, str]
) -> Stored:
    """Publish into whichever stream listens to a subject.

    Raises:
        AskingError: no stream took it; the text is in the server's own words.
    """
    if any(each in ("*", ">") for each in subject.split(".")):
        raise RefusedError(f"'{subject}' has a wildcard: a message has one subject.")
    answer = parsed(await link.request(subject, payload, headers))
    if not text(answer, "stream"):
        raise RefusedError("Something answered that is no stream.")
    duplicate = flag(answer, "duplicate")
    return Stored(text(answer, "stream"), number(answer, "seq"), duplicate)


def is_overtaken(error: RefusedError) -> bool:
    """Tell whether nothing was stored because the last message is not the `EXPECTED_LAST`."""
    return error.err_code in _WRONG_LAST


def headers_of(lines: str) -> dict[str, str]:
    """Return headers that were written as `Name: value`, one per line.

    Raises:
        RefusedError: a line is not a header.
    """
    headers: dict[str, str] = {}
    for line in lines.splitlines():
        name, colon, value = line.partition(":")
        if not line.strip():
            continue
        if not colon or not name.strip() or not name.strip().isprintable():
            raise RefusedError(f"'{line}' is no header; write it as Name: value.")
        if name.strip() in headers:
            raise RefusedError(f"The header '{name.strip()}' is there twice.")
        headers[name.strip()] = value.strip()
    return headers
