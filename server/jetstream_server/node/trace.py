"""What clients and server say to each other, as log lines: `-V`, and with `-D` who comes and goes.

The lines are the genuine server's, which people search for; secrets in CONNECT are hidden. A trace
is for looking at a conversation, so it goes message by message, and costs nothing when it is off.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol

import orjson

from jetstream_server.jetstream.wire.go_quote import quoted
from jetstream_server.node.accounts.account import Account
from jetstream_server.protocol.ops import Connect, Op, Ping, Pong, PubRun, Sub, Unsub

_SECRETS = ("pass", "auth_token", "jwt", "sig")
# The size of the headers, where there are any, and of everything.
_MESSAGE = re.compile(rb"(?:MSG|HMSG .* (\d+)).* (\d+)")
_ERROR = re.compile(r"-ERR '(.*)'")


class Client(Protocol):
    """Who speaks, as far as the log shows it."""

    cid: int
    host: str
    port: int
    closing: str

    @property
    def options(self) -> dict[str, Any]:
        """What it said in CONNECT."""
        ...

    @property
    def is_connected(self) -> bool:
        """Whether it has signed in."""
        ...

    @property
    def account(self) -> Account:
        """Whose it is."""
        ...


class Trace:
    """Writes conversations to the log.

    Args:
        note: takes level and text.
        payload_max: how much of a payload is shown, 0 for all of it.
        headers_only: for messages with headers only these are shown, for others nothing.
    """

    def __init__(
        self,
        note: Callable[[str, str], None],
        payload_max: int = 0,
        *,
        headers_only: bool = False,
    ) -> None:
        self._note = note
        self._payload_max = payload_max
        self._headers_only = headers_only

    def opened(self, session: Client) -> None:
        """A client is there."""
        self._note("DBG", f"{label(session)} - Client connection created")

    def closed(self, session: Client) -> None:
        """A client is gone."""
        self._note("DBG", f"{label(session)} - Client connection closed: {session.closing}")

    def arrived(self, session: Client, op: Op) -> None:
        """A client has said something; it is not acted on yet."""
        match op:
            case PubRun():
                for index in range(op.count):
                    self._publish(session, op, index)
            case Connect():
                shown = {
                    key: "[REDACTED]" if key in _SECRETS else value
                    for key, value in op.options.items()
                }
                self._line(session, "<<-", f"CONNECT {orjson.dumps(shown).decode()}")
            case Sub():
                self._line(session, "<<-", _text(b"SUB", op.subject, op.queue, op.sid))
            case Unsub():
                most = b"%d" % op.max_messages if op.max_messages else b""
                self._line(session, "<<-", _text(b"UNSUB", op.sid, most))
            case Ping():
                self._line(session, "<<-", "PING")
            case Pong():
                self._line(session, "<<-", "PONG")

    def _publish(self, session: Client, run: PubRun, index: int) -> None:
        headers, payload = run.headers(index), run.payload(index)
        total = len(headers) + len(payload)
        words = [run.subject(index), run.reply(index), b"%d" % total]
        if headers:
            words.insert(2, b"%d" % len(headers))
        self._line(session, "<<-", _text(b"HPUB" if headers else b"PUB", *words))
        self._payload(session, "<<-", headers + payload, len(headers))

    def left(self, session: Client, data: bytes) -> None:
        """The server has said something: whole protocol lines with their payloads."""
        at = 0
        while at < len(data):
            stop = data.index(b"\r\n", at)
            line = data[at:stop]
            at = stop + 2
            if line.startswith(b"INFO "):
                continue
            text = line.decode(errors="backslashreplace")
            if error := _ERROR.fullmatch(text):
                text = f"-ERR {error[1]}"
            self._line(session, "->>", "OK" if text == "+OK" else text)
            if found := _MESSAGE.fullmatch(line):
                size = int(found[2])
                self._payload(session, "->>", data[at : at + size], int(found[1] or 0))
                at += size + 2

    def _line(self, session: Client, arrow: str, text: str) -> None:
        self._note("TRC", f"{label(session)} - {arrow} [{text}]")

    def _payload(self, session: Client, arrow: str, payload: bytes, headers: int) -> None:
        if self._headers_only:
            payload = payload[:headers].removesuffix(b"\r\n\r\n")
        if not payload:
            return
        rest = ""
        if 0 < self._payload_max < len(payload):
            payload, rest = payload[: self._payload_max], "..."
        text = quoted(payload.decode(errors="surrogateescape") + rest)
        self._note("TRC", f"{label(session)} - {arrow} MSG_PAYLOAD: [{text}]")


def label(session: Client) -> str:
    """Return what the log calls a client."""
    address = f"[{session.host}]" if ":" in session.host else session.host
    parts = [f"{address}:{session.port} - cid:{session.cid}"]
    if not session.is_connected:
        return parts[0]
    options = session.options
    version = f"v{options['version']}" if options.get("version") else ""
    words = [word for word in (version, options.get("lang"), options.get("name")) if word]
    if words:
        parts.append(quoted(":".join(words)))
    if user := options.get("user"):
        parts.append(quoted(f"{session.account.name}/user:{user}"))
    return " - ".join(parts)


def _text(*words: bytes) -> str:
    return b" ".join(word for word in words if word).decode(errors="backslashreplace")
