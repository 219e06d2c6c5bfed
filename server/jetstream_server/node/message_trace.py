"""What happens to one message on its way, as reported to whoever traces it.

The document is the genuine server's: the server, the message's headers and size, and its events:
`in`, `sm` (a subject mapping), `se` and `si` (through a stream's or a service's import), `js` and
`eg` (to a client). It leaves when the message has been everywhere; where a stream has stored it,
after the flush. Fields as probed with 2.15.1.
"""

from __future__ import annotations

import gzip
from typing import Any

from jetstream_server.core.provenance import is_own_subject
from jetstream_server.core.subject import is_valid_literal
from jetstream_server.core.subscription import Subscription
from jetstream_server.jetstream.streams.storing.storing_outcome import StoringOutcome
from jetstream_server.jetstream.wire.go_json import encode
from jetstream_server.jetstream.wire.go_time import format_time
from jetstream_server.node.accounts.account import Account
from jetstream_server.node.server_info import Introduced, server_info
from jetstream_server.node.trace import Client
from jetstream_server.node.trace_request import TraceRequest

# A client that publishes a few bytes to thousands of subscribers is not told of all of them, nor of
# a thousand that have long names.
EVENTS_MAX = 1000
EVENT_LETTERS_MAX = 131_072  # of what events name, all together
_GZIP_LEVEL = 1  # the best one takes twenty times as long

NO_ECHO = "Not delivered because of no echo"
_CLIENT = 0  # the kind of a connection


class MessageTrace:
    """One traced message.

    Args:
        session: who has published it.
        request: what was asked for.
        subject: where it was published.
        size: of headers and payload, in bytes.
    """

    def __init__(
        self, session: Client, request: TraceRequest, subject: bytes, size: int, now: int
    ) -> None:
        self._account = session.account
        self._request = request
        self.subject = request.subject
        self._size = size
        self._at = format_time(now)
        self._is_stored = False  # whether an event tells of a stream
        self._is_staged = False  # whether a batch holds it back
        self.is_only = request.is_only
        self._ingress = self._event("in", _of_client(session))
        self._ingress |= {"acc": self._account.name, "subj": _text(subject)}
        self._letters_left = EVENT_LETTERS_MAX
        self._events = [self._ingress]

    def __len__(self) -> int:
        return len(self._events)

    def refused(self, text: str) -> None:
        """Note that the message came no further."""
        self._ingress["error"] = text

    def mapped(self, subject: bytes) -> None:
        """Note that it goes to another subject."""
        self._add("sm", {"to": _text(subject)})

    def exported(self, account: Account, subject: bytes) -> None:
        """Note that an account that imports the stream gets it, and under which subject."""
        self._add("se", {"acc": account.name, "to": _text(subject)})

    def requested(self, account: str, before: bytes, after: bytes) -> None:
        """Note that the service of an account is asked."""
        self._add("si", {"acc": account, "from": _text(before), "to": _text(after)})

    def stored(self, stream: str, outcome: StoringOutcome) -> None:
        """Note what a stream has made of it."""
        if outcome.is_staged:
            self._is_staged = True
            return
        self._is_stored = True
        event: dict[str, Any] = {"stream": stream}
        if outcome.subject:
            event["subject"] = _text(outcome.subject)
        if outcome.is_unwanted:
            event["nointerest"] = True
        if outcome.error:
            event["error"] = outcome.error
        self._add("js", event)

    def delivered(self, session: Client, subscription: Subscription, error: str = "") -> None:
        """Note that a client gets it, or why not."""
        if self._is_full:
            return
        event = _of_client(session)
        if session.account is not self._account:
            event["acc"] = session.account.name
        event["sub"] = _text(subscription.subject)
        if subscription.queue:
            event["queue"] = _text(subscription.queue)
        if error:
            event["error"] = error
        self._add("eg", event)

    def send(self, node: Introduced, now: int) -> None:
        """Report all this, unless the message waits for the rest of its batch."""
        subject = self._request.subject
        if self._is_staged or not is_valid_literal(subject) or is_own_subject(subject):
            return
        headers = {
            _text(k): [_text(v) for v in values] for k, values in self._request.headers.items()
        }
        body = encode(
            {
                "server": server_info(node, now),
                "request": {
                    "header": dict(sorted(headers.items())),
                    "msgsize": self._size,
                },
                "events": self._events,
            }
        )
        block = b""
        if encoding := self._request.encoding:
            block = b"NATS/1.0\r\nContent-Encoding: %b\r\n\r\n" % encoding.encode()
            body = _encoded(body, encoding)
        output = self._account.output
        if self._is_stored:
            output.publish(subject, body, headers=block)
        else:
            output.publish_now(subject, body, headers=block)

    def _event(self, kind: str, fields: dict[str, Any]) -> dict[str, Any]:
        return {"type": kind, "ts": self._at} | fields

    def _add(self, kind: str, fields: dict[str, Any]) -> None:
        if not self._is_full:
            self._letters_left -= sum(len(each) for each in fields.values() if type(each) is str)
            self._events.append(self._event(kind, fields))

    @property
    def _is_full(self) -> bool:
        return len(self._events) >= EVENTS_MAX or self._letters_left <= 0


def _of_client(session: Client) -> dict[str, Any]:
    described: dict[str, Any] = {"kind": _CLIENT, "cid": session.cid}
    if name := session.options.get("name"):
        described["name"] = name
    return described


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def _encoded(body: bytes, encoding: str) -> bytes:
    if encoding == "gzip":
        return gzip.compress(body, _GZIP_LEVEL, mtime=0)
    # Imported here: a server that nobody asks for traces starts sooner without it.
    import cramjam

    return bytes(cramjam.snappy.compress(body))
