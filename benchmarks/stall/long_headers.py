"""Messages with as many headers as they may have, which the server has to read: traces, requests
that may be timed, counters."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable

from benchmarks.stall.consequences import made, with_headers
from benchmarks.stall.crowds import say
from benchmarks.stall.inputs import USER, Act, Input, stream
from benchmarks.stall.timers import ASKER, timed_service

_TRACED = b"Nats-Trace-Dest: t\r\n"
_PACKED = _TRACED + b"Accept-Encoding: gzip\r\n"


def _same(number: int) -> bytes:
    return b"x:"


def _distinct(number: int) -> bytes:
    return b"%x:" % number


def _random(number: int) -> bytes:
    """Return a line of 1 MB that can hardly be packed."""
    return b"X: " + base64.b64encode(random.Random(number).randbytes(760_000))


def _said(
    line: Callable[[int], bytes],
    count: int,
    first: bytes = b"",
    *,
    subject: bytes = b"S.x",
    **credentials: str,
) -> Act:
    """Publish 40 messages with so many lines of headers."""

    def act(port: int) -> None:
        lines = first + b"\r\n".join(map(line, range(count)))
        say(port, with_headers(lambda _: subject, lines, 40), **credentials)

    return act


def _counted(lines: bytes) -> Act:
    """Make a counter by a message with these lines; one that is refused makes none."""

    def prepare(port: int) -> None:
        made(stream(allow_msg_counter=True, allow_direct=True))(port)
        say(port, with_headers(lambda _: b"S.x", lines, 1))

    return prepare


def _count_up(port: int) -> None:
    say(port, with_headers(lambda _: b"S.x", b"Nats-Incr: 1", 2000))


_SOURCES = b"Nats-Counter-Sources: {" + b",".join(b'"%x":{}' % n for n in range(6500)) + b"}"

LONG_HEADERS = [
    Input(
        "40 traced messages with 260,000 times the same header",
        _said(_same, 260_000, _TRACED),
        made(stream()),
    ),
    Input(
        "40 traced messages with 120,000 headers",
        _said(_distinct, 120_000, _TRACED),
        made(stream()),
    ),
    Input(
        "40 traced messages with 120,000 headers for nobody",
        _said(_distinct, 120_000, _TRACED, subject=b"nobody"),
    ),
    Input(
        "40 traced messages with a header of 1 MB, whose traces are packed",
        _said(_random, 1, _PACKED),
        made(stream()),
    ),
    Input(
        "40 requests with 260,000 headers, which are timed if one of those says so",
        _said(_same, 260_000, subject=b"told", **ASKER),
        config=timed_service("headers"),
        credentials=tuple(USER.items()),
    ),
    Input(
        "2,000 increments of a counter with 6,500 sources",
        _count_up,
        _counted(b"Nats-Incr: 1\r\n" + _SOURCES),
    ),
    Input(
        "2,000 increments of a counter of 65,000 digits",
        _count_up,
        _counted(b"Nats-Incr: " + b"7" * 65_000),
    ),
]
