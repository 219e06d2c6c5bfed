"""A cluster whose leader does not know, for a moment, what there is.

It stands before the bundled server, which is no cluster, and answers in its place as a genuine one
does whose leader has just begun to make a stream for somebody else, came to lead a moment ago, or
was stopped and does not know yet that another one leads: there is no such stream, nor such a
consumer, no names are listed, and nobody takes what is published; or a stream is as it was a while
ago. The rest goes through. All streams are said to have three replicas.
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
_INFO = b"$JS.API.STREAM.INFO."
_ANSWER = re.compile(
    rb'\{"type":"io\.nats\.jetstream\.api\.v1\.stream_info_response",.*"name":"([^"]+)"'
)
_CREATED = re.compile(rb'"created":"([^"]+)"')
_REMEMBERED_MAX = 20  # states of a stream, the last ones that anybody was told of
# What only a leader who knows of a stream can answer; deliveries and direct gets have others.
_ASKS = re.compile(
    rb"\$JS\.API\.(STREAM\.(INFO|MSG\.GET|PURGE)|CONSUMER\.(CREATE|INFO|RESET|DELETE|LIST))\."
)
_CONSUMERS = re.compile(rb"\$JS\.API\.CONSUMER\.(INFO|RESET|DELETE)\.")
_NOT_FOUND = {10059: "stream not found", 10014: "consumer not found"}
# Most of what is asked meanwhile, so that one answer contradicts the next.
_CHANCE = 0.8


class Memory:
    """What was told of streams."""

    def __init__(self) -> None:
        self._states: dict[bytes, list[bytes]] = {}

    def note(self, payload: bytes) -> None:
        """Note an answer of the server, if it is the state of a stream."""
        found = _ANSWER.match(payload)
        if found is None:
            return
        states = self._states.setdefault(found[1], [])
        if states and _created(states[-1]) != _created(payload):
            states.clear()  # it was made anew
        states.append(payload)
        del states[:-_REMEMBERED_MAX]

    def of(self, stream: bytes) -> bytes:
        """A state that a stream once had, empty when none is known."""
        states = self._states.get(stream)
        return states[0] if states else b""


def _created(payload: bytes) -> bytes:
    found = _CREATED.search(payload)
    return found[1] if found else b""


class StaleLeader:
    """The reader of one connection, in front of the server's own.

    Args:
        inner: the server's protocol.
        transport: of the connection.
        is_stale: whether it does not know at this moment.
        memory: of all connections.
    """

    def __init__(
        self,
        inner: Any,
        transport: Any,
        is_stale: Callable[[], bool],
        memory: Memory,
        random: Random,
    ) -> None:
        self._memory = memory
        self._unread = b""
        transport.written = self._written
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
            passed = passed.replace(b'"num_replicas": 3', b'"num_replicas": 1')
            self._inner.data_received(bytes(passed))

    def _written(self, data: bytes) -> bytes:
        """Take what the server writes; return what is sent."""
        data = data.replace(b'"num_replicas":1', b'"num_replicas":3')
        self._unread += data
        stop = 0
        for _, line_stop, stop in _whole(self._unread):
            self._memory.note(self._unread[line_stop : stop - 2])
        self._unread = self._unread[stop:]
        return data

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
        if subject.startswith(b"_INBOX."):
            return b""  # who listens there, all servers know
        if not subject.startswith((_API, b"$JS.")):
            status = b"NATS/1.0 503\r\n\r\n"
            return b"HMSG %b %b %d %d\r\n%b\r\n" % (reply, sid, len(status), len(status), status)
        if subject.startswith(_INFO) and self._random.random() < 0.5:
            payload = self._memory.of(subject[len(_INFO) :])
            return (
                b"MSG %b %b %d\r\n%b\r\n" % (reply, sid, len(payload), payload) if payload else b""
            )
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
