"""A cluster whose leader does not know, for a moment, what there is.

It stands before the bundled server, which is no cluster, and answers in its place as a genuine one
does whose leader has just begun to make a stream for somebody else, came to lead a moment ago, or
was stopped and does not know yet that another one leads: there is no such stream, nor such a
consumer, no names are listed, and nobody takes what is published. The rest goes through.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

from tests.connector_sim.frames import frames

_API = b"$JS.API."
_NAMES = b"$JS.API.STREAM.NAMES"
# What only a leader who knows of a stream can answer; deliveries and direct gets have others.
_ASKS = re.compile(
    rb"\$JS\.API\.(STREAM\.(INFO|MSG\.GET|PURGE)|CONSUMER\.(CREATE|INFO|RESET|DELETE|LIST))\."
)
_CONSUMERS = re.compile(rb"\$JS\.API\.CONSUMER\.(INFO|RESET|DELETE)\.")
_NOT_FOUND = {10059: "stream not found", 10014: "consumer not found"}
# Most of what is asked meanwhile, so that one answer contradicts the next.
_CHANCE = 0.8


class StaleLeader:
    """The reader of one connection, in front of the server's own.

    Args:
        inner: the server's protocol.
        transport: of the connection.
        is_stale: whether it does not know at this moment.
    """

    def __init__(
        self, inner: Any, transport: Any, is_stale: Callable[[], bool], random: Random
    ) -> None:
        self._inner = inner
        self._transport = transport
        self._is_stale = is_stale
        self._random = random
        self._unfinished = b""
        self._listening: list[tuple[bytes, bytes]] = []  # what subjects begin with, and the sid

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def data_received(self, data: bytes) -> None:
        """Take bytes; whole frames go on, or are answered."""
        data, passed = self._unfinished + data, bytearray()
        stop = 0
        for start, line_stop, stop in _whole(data):
            line = data[start : line_stop - 2]
            answer = self._answer(line)
            if answer:
                self._transport.write(answer)
            else:
                passed += data[start:stop]
        self._unfinished = data[stop:]
        if passed:
            self._inner.data_received(bytes(passed))

    def _answer(self, line: bytes) -> bytes:
        """What is said in the place of the server; nothing if the frame is for that one."""
        verb, *words = line.split()
        if verb == b"SUB" and words[0].endswith((b"*", b">")):
            self._listening.append((words[0][:-1], words[-1]))
        is_publish = len(words) == {b"PUB": 3, b"HPUB": 4}.get(verb)
        if not is_publish or not self._is_stale() or self._random.random() > _CHANCE:
            return b""
        subject, reply = words[:2]
        sid = next((sid for start, sid in self._listening if reply.startswith(start)), b"")
        if not sid:
            return b""
        if not subject.startswith((_API, b"$JS.")):
            status = b"NATS/1.0 503\r\n\r\n"
            return b"HMSG %b %b %d %d\r\n%b\r\n" % (reply, sid, len(status), len(status), status)
        if subject == _NAMES:
            said: dict[str, Any] = {"total": 0, "offset": 0, "limit": 1024, "streams": None}
        elif _ASKS.match(subject):
            code = self._random.choice([10059, 10014]) if _CONSUMERS.match(subject) else 10059
            error = {"code": 404, "err_code": code, "description": _NOT_FOUND[code]}
            said = {"type": "io.nats.jetstream.api.v1.response", "error": error}
        else:
            return b""
        payload = json.dumps(said).encode()
        return b"MSG %b %b %d\r\n%b\r\n" % (reply, sid, len(payload), payload)


def _whole(data: bytes) -> list[tuple[int, int, int]]:
    """The frames that have arrived whole."""
    found = []
    try:
        for place in frames(data):
            if place[2] > len(data):
                break
            found.append(place)
    except ValueError:  # the line has not ended
        pass
    return found
