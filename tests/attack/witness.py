"""Somebody who has nothing to do with an attack, and whose stream is as it was afterwards."""

from __future__ import annotations

import json
from typing import Any, Protocol

from tests.attack.acts import FoundError

_CONSUMER_FIELDS = ("delivered", "ack_floor", "num_pending", "num_ack_pending", "config", "error")
_MESSAGES = 5


class Talk(Protocol):
    """The conversation of a client with a server."""

    @property
    def is_over(self) -> bool:
        """Return whether the server has ended it."""
        ...

    def begin(self) -> None:
        """Connect, and subscribe to `_WITNESS.>`."""
        ...

    def say(self, data: bytes, mark: bytes) -> bytes:
        """Say something; return what comes, as far as this and more."""
        ...


class Witness:
    """A client with a stream and a consumer that nobody else has to do with."""

    def __init__(self, talk: Talk, stream: str) -> None:
        self._talk = talk
        self._stream = stream
        self._replies = 0
        self._before: list[Any] = []

    def come(self) -> None:
        """Connect."""
        self._talk.begin()

    def prepare(self) -> None:
        """Make the stream."""
        self.come()
        name = self._stream
        config = {"name": name, "subjects": [f"{name}.>"], "allow_direct": True}
        self._ask(f"STREAM.CREATE.{name}", config)
        consumer = {"stream_name": name, "config": {"durable_name": "C", "ack_policy": "explicit"}}
        self._ask(f"CONSUMER.CREATE.{name}.C", consumer)
        for number in range(_MESSAGES):
            reply = f"_WITNESS.m{number} "
            self._talk.say(f"PUB {name}.{number} {reply}1\r\nx\r\n".encode(), reply.encode())
        self._before = self._seen()

    def _ask(self, subject: str, body: Any = None) -> Any:
        self._replies += 1
        data = json.dumps(body).encode() if body is not None else b""
        reply = b"_WITNESS.r%d " % self._replies
        request = b"PUB $JS.API.%b %b%d\r\n%b\r\n" % (subject.encode(), reply, len(data), data)
        said = self._talk.say(request, reply)
        at = said.find(b"{", said.find(reply))
        if reply not in said or at < 0:
            raise FoundError(f"a witness gets no answer from {subject}: {said[:300]!r}")
        return json.JSONDecoder().raw_decode(said[at:].decode())[0]

    def _seen(self) -> list[Any]:
        stream = self._ask(f"STREAM.INFO.{self._stream}")
        consumer = self._ask(f"CONSUMER.INFO.{self._stream}.C")
        messages = [
            self._ask(f"STREAM.MSG.GET.{self._stream}", {"seq": number}).get("message")
            for number in range(1, _MESSAGES + 1)
        ]
        return [
            stream.get("error"), stream.get("config"), stream.get("state"),
            {name: consumer.get(name) for name in _CONSUMER_FIELDS}, messages,
        ]  # fmt: skip

    def check(self) -> None:
        """Look whether all is as it was.

        Raises:
            FoundError: it is not.
        """
        if self._talk.is_over:  # time has passed, and it has not answered pings
            self.come()
        if b"PONG\r\n" not in self._talk.say(b"PING\r\n", b"PONG\r\n"):
            if not self._talk.is_over:
                raise FoundError("a witness is not served")
            self.come()
        seen = self._seen()
        for now, before in zip(seen, self._before, strict=True):
            if now != before:
                raise FoundError(f"what a witness holds has changed: {before} is {now}")
