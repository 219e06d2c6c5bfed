"""What an attacker does: one step after the other, the same for every server.

What only shows while a server runs (the subject of an ack, where a restore takes its chunks) is
named by a `Heard`, and looked up in what this server has said.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

_KEPT = 16
_PREFIXES = {
    b"$JS.ACK.": "ack",
    b"$JS.FC.": "flow",
    b"$JS.M.": "feed",
    b"$JS.S.": "feed",
    b"$JSC.": "inbox",
    b"_R_.": "service",
    b"$JS.SNAPSHOT.ACK.": "snapshot",
    b"$JS.SNAPSHOT.RESTORE.": "restore",
    b"$SYS.": "system",
}


# Said in a fast batch, the one as of a message of no batch, the other of the first message.
_WRONG_LAST_ID = b'{"error":{"code":400,"err_code":10070,'
_FIRST_REFUSED = b'{"type":"err","seq":1,'
_STALLING = (_WRONG_LAST_ID, _FIRST_REFUSED)


class FoundError(Exception):
    """The server has not stood an attack."""


@dataclass(frozen=True, slots=True)
class Heard:
    """Something that the server has said.

    Attributes:
        kind: `ack`, `flow`, `feed`, `inbox`, `service`, `snapshot`, `restore`, `system`, `chunk`.
        number: which of those that were heard last.
        breaks: what is done to it: token (or byte) and what comes in its place, None to cut.
    """

    kind: str
    number: int = 0
    breaks: tuple[tuple[int, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Publish:
    """One message of one client; `headers` is a whole block, or empty."""

    who: int
    subject: bytes | Heard
    reply: bytes | Heard = b""
    headers: bytes = b""
    payload: bytes | Heard = b""


@dataclass(frozen=True, slots=True)
class Say:
    """Bytes of one client, whatever they are."""

    who: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Join:
    """A client comes in place of another: its CONNECT, whatever that is."""

    who: int
    connect: bytes = b""


@dataclass(frozen=True, slots=True)
class Show:
    """A client comes in place of another with a JWT; only where an operator is trusted.

    Attributes:
        token: the JWT.
        signer: name of the user whose key signs the nonce; empty for nobody's.
        breaks: what is done to the signature, as to what was `Heard`.
        is_web: it comes by WebSocket.
        is_sound: nothing about it is wrong by itself.
    """

    who: int
    token: str
    signer: str = ""
    breaks: tuple[tuple[int, bytes | None], ...] = ()
    is_web: bool = False
    is_sound: bool = False


@dataclass(frozen=True, slots=True)
class Web:
    """A WebSocket client comes, says this after its request, and goes."""

    request: bytes
    frames: bytes


@dataclass(frozen=True, slots=True)
class Pass:
    """Time passes."""

    nanoseconds: int


@dataclass(frozen=True, slots=True)
class Look:
    """Somebody looks at monitoring."""

    path: str
    parameters: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Reload:
    """The operator has the server follow one of its configurations."""

    number: int


@dataclass(frozen=True, slots=True)
class Crash:
    """The process is killed and started again."""


Act = Publish | Say | Join | Show | Web | Pass | Look | Reload | Crash
Steps = Iterator[Act]


@dataclass
class Ears:
    """What was heard of one server.

    Attributes:
        errors: what came for a reply subject: an error's number, 0 for success.
        circles: reply subjects of streams that were refused as they would copy in a circle.
        stalled: ids of fast batches in which a message was refused as if it belonged to none, or
            the first one was refused.
        unheard: reply subjects of what nobody listened to.
        meant: what was said of what had been heard, by reply subject.
    """

    kept: dict[str, deque[bytes]] = field(default_factory=dict)
    errors: dict[bytes, int] = field(default_factory=dict)
    meant: dict[bytes, tuple[bytes, bytes]] = field(default_factory=dict)
    circles: set[bytes] = field(default_factory=set)
    stalled: set[bytes] = field(default_factory=set)
    unheard: set[bytes] = field(default_factory=set)

    def hear(self, frames: bytes) -> int:
        """Take what a client was sent; return how much of it was whole frames."""
        at = 0
        while (stop := frames.find(b"\r\n", at)) >= 0:
            words = frames[at:stop].split(b" ")
            if words[0] not in (b"MSG", b"HMSG"):
                at = stop + 2
                continue
            size = int(words[-1])
            if stop + 2 + size + 2 > len(frames):
                break
            at = stop + 2
            self._note(words[1])
            if len(words) == (6 if words[0] == b"HMSG" else 5):
                self._note(words[3])
            payload = frames[at : at + size]
            at += size + 2
            if words[1].startswith(b"chunks"):
                self._keep("chunk", payload)
            self._answered(words[1], payload)
        return at

    def _answered(self, subject: bytes, payload: bytes) -> None:
        if b'"deliver_subject":"$JS.SNAPSHOT.RESTORE.' in payload:
            self._note(payload.split(b'"deliver_subject":"')[1].split(b'"')[0])
        if b'"description":"detected cycle"' in payload:
            self.circles.add(subject)
        elif payload.startswith(b"NATS/1.0 503\r\n"):
            self.unheard.add(subject)
        elif payload.startswith(_STALLING) and is_of_fast_batch(subject):
            self.stalled.add(fast_batch_of(subject))
        if subject.startswith(b"_INBOX.r"):
            self.errors.setdefault(subject, _error_of(payload))

    def _note(self, subject: bytes) -> None:
        for prefix, kind in _PREFIXES.items():
            if subject.startswith(prefix):
                self._keep(kind, subject)
                return

    def _keep(self, kind: str, data: bytes) -> None:
        kept = self.kept.setdefault(kind, deque(maxlen=_KEPT))
        if data not in kept:
            kept.append(data)

    def found(self, wanted: bytes | Heard) -> bytes:
        """Return what is meant by this; something else of its kind when nothing was heard."""
        if isinstance(wanted, bytes):
            return wanted
        kept = self.kept.get(wanted.kind)
        if not kept:
            return b"$JS.ACK.S0.C0.1.1.1.1.1" if wanted.kind != "chunk" else b""
        data = kept[wanted.number % len(kept)]
        return broken_chunk(data, wanted) if wanted.kind == "chunk" else broken(data, wanted)


def _error_of(payload: bytes) -> int:
    """Return the number of the error that an answer is, 0 if it is none. Those that it tells of,
    as an origin that a stream cannot copy from just now, come and go."""
    try:
        error = json.loads(payload)["error"]["err_code"] if b'"err_code"' in payload else 0
    except (KeyError, TypeError, ValueError, RecursionError):
        return 0
    return error if isinstance(error, int) else 0


def is_of_fast_batch(reply: bytes) -> bool:
    """Tell whether a reply subject is one of a fast batch."""
    return reply.endswith(b".$FI") and reply.count(b".") > 5


def fast_batch_of(reply: bytes) -> bytes:
    """Return the batch that the reply subject of a message names."""
    return reply.split(b".")[-6]


def broken(subject: bytes, wanted: Heard) -> bytes:
    """Return a subject with tokens in the place of others."""
    tokens = subject.split(b".")
    for at, token in wanted.breaks:
        if token is None:
            del tokens[at % len(tokens) + 1 :]
        else:
            tokens[at % len(tokens)] = token
    return b".".join(tokens)


def broken_chunk(data: bytes, wanted: Heard) -> bytes:
    """Return a piece of an archive with other bytes in it."""
    changed = bytearray(data)
    for at, piece in wanted.breaks:
        at %= len(changed) + 1
        if piece is None:
            del changed[at:]
        else:
            changed[at : at + len(piece)] = piece
    return bytes(changed)


def frame(publish: Publish, ears: Ears) -> bytes:
    """Return a message as it is said."""
    subject, reply = ears.found(publish.subject), ears.found(publish.reply)
    payload = ears.found(publish.payload)
    if isinstance(publish.subject, Heard) or isinstance(publish.payload, Heard):
        ears.meant[reply] = subject, payload
    if publish.headers:
        sizes = len(publish.headers), len(publish.headers) + len(payload)
        head = b"HPUB %b %b %d %d\r\n" % (subject, reply, *sizes)
    else:
        head = b"PUB %b %b %d\r\n" % (subject, reply, len(payload))
    return b"%b%b%b\r\n" % (head, publish.headers, payload)


def mutated(random: Random, data: bytes, pieces: tuple[bytes, ...]) -> bytes:
    """Return bytes that were sensible once."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 3)):
        at = random.randint(0, len(changed))
        match random.randrange(4):
            case 0:
                changed[at : at + 1] = bytes([random.randrange(256)])
            case 1:
                del changed[at : at + random.randint(1, 6)]
            case 2:
                changed[at:at] = random.choice(pieces)
            case _:
                changed[at:at] = changed[at : at + random.randint(1, 40)]
    return bytes(changed)
