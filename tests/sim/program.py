"""A client with one connection at a time, and the requests that it waits for.

A request has a reply subject of its own. Its answer is told of when the server writes it (`said`),
and again when it arrives (`arrived`); a request that is answered too late or was lost with its
connection is given up (`lost`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson
from jetstream_server.base.clock import MILLISECOND, SECOND

from tests.sim.life import Life, Reader
from tests.sim.network import Frame, Link

if TYPE_CHECKING:
    from tests.sim.workload import Workload

PATIENCE_NS = 4 * SECOND


def pub(subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> bytes:
    """Return a PUB or HPUB frame."""
    to = b"%b %b" % (subject, reply + b" " if reply else b"")
    if headers:
        sizes = b"%d %d" % (len(headers), len(headers) + len(payload))
        return b"HPUB %b%b\r\n%b%b\r\n" % (to, sizes, headers, payload)
    return b"PUB %b%d\r\n%b\r\n" % (to, len(payload), payload)


def answer_of(frame: Frame) -> dict[str, Any]:
    """Return a JSON answer."""
    answer: dict[str, Any] = orjson.loads(frame.payload)
    return answer


@dataclass(slots=True, eq=False)
class Request:
    """Something a program waits for.

    Attributes:
        kind: what it is, for counting.
        said: told of every answer but `503` when the server writes it.
        arrived: told of every answer that arrives; returns whether it was the last one.
        lost: told that there will be no answer.
    """

    kind: str
    program: Program
    reply: bytes
    deadline: int
    said: Callable[[Frame], None] = lambda frame: None
    arrived: Callable[[Frame], bool] = lambda frame: True
    lost: Callable[[], None] = lambda: None


@dataclass(eq=False)
class Pull:
    """A pull request under way; `left` is how many messages may still come."""

    request: Request
    life: Life
    reader: Reader
    sid: bytes
    left: int
    must_end: bool


@dataclass(eq=False)
class Program:
    """One client."""

    number: int
    account: str
    workload: Workload
    link: Link | None = None
    again_at: int = 0
    requests: dict[bytes, Request] = field(default_factory=dict)
    pulls: dict[bytes, Pull] = field(default_factory=dict)  # by sid
    pushes: dict[bytes, tuple[Reader, bytes]] = field(default_factory=dict)  # by sid
    repeats: list[Callable[[], bytes]] = field(default_factory=list)
    pins: dict[str, str] = field(default_factory=dict)  # by consumer

    @property
    def inbox(self) -> bytes:
        """Return what its inboxes begin with."""
        return b"_INBOX.p%d" % self.number

    @property
    def is_connected(self) -> bool:
        """Return whether it has a connection, as far as it knows."""
        return self.link is not None

    def connect(self) -> None:
        """Connect and subscribe again."""
        link = Link(self.workload.network, self)
        if self.workload.connect(link):
            self.link = link
            lines = [
                b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"protocol":1'
                b',"no_responders":true,"user":"%b","pass":"%b"}\r\n'
                % (self.account.encode(), self.account.encode()),
                b"SUB %b.> 1\r\n" % self.inbox,
                b"SUB REP.> 2\r\n",
            ]
            lines += [sub(reader, queue, sid) for sid, (reader, queue) in self.pushes.items()]
            self.link.send(b"".join(lines))

    def send(self, data: bytes) -> None:
        """Send, or let it be lost while there is no connection."""
        if self.link is not None:
            self.link.send(data)

    def ask(self, kind: str, **callbacks: Any) -> Request:
        """Prepare to wait for an answer to the reply subject of the request returned."""
        workload = self.workload
        reply = b"%b.%d" % (self.inbox, workload.next_number())
        request = Request(kind, self, reply, workload.now + PATIENCE_NS, **callbacks)
        self.requests[reply] = workload.requests[reply] = request
        return request

    def ask_api(self, verb: str, body: object, kind: str, **callbacks: Any) -> Request:
        """Ask the JetStream API; `body` is JSON, None for an empty one."""
        request = self.ask(kind, **callbacks)
        payload = orjson.dumps(body) if body is not None else b""
        self.send(pub(b"$JS.API." + verb.encode(), request.reply, b"", payload))
        return request

    def lost(self, link: Link) -> None:
        """The connection is gone, and everything asked on it is uncertain."""
        if self.link is link:
            workload = self.workload
            self.link = None
            self.again_at = workload.now + workload.random.randrange(300 * MILLISECOND)
            for request in list(self.requests.values()):
                workload.give_up(request)
            self.pulls.clear()

    def arrived(self, frame: Frame) -> None:
        """Take a frame."""
        if frame.verb == b"PING":
            self.send(b"PONG\r\n")
        elif frame.verb == b"-ERR":
            raise AssertionError(f"-ERR {frame.payload!r}")
        elif frame.verb in (b"MSG", b"HMSG"):
            self.workload.arrived(self, frame)


def sub(reader: Reader, queue: bytes, sid: bytes) -> bytes:
    """Return the line that makes a program listen to a push consumer."""
    subject = reader.config["deliver_subject"].encode()
    return b"SUB %b %b%b\r\n" % (subject, queue + b" " if queue else b"", sid)
