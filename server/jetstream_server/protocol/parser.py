"""A client's bytes to ops (docs/reference/protocol.md#framing and #limits).

Two readers take turns over a chunk. The `frames` kernel takes publishes written the way every
client writes them, thousands per call. Where it stops, the slow path takes one frame: another verb,
a publish in lower case or with tabs, the incomplete end of the chunk, or an error, which it alone
decides on. Publishes from both end up in the same `PubRun`, which only another op breaks.

Theory of operation:

- An incomplete frame is held as the list of the pieces in which it came. They are joined when there
  is a reason to look again: its line feed has come, or as many bytes as it declares. So the work is
  linear in the input, however that is cut.
- A frame is held only up to what its limits allow. Blanks before arguments and whatever follows
  PING, PONG and +OK are unlimited, as in the genuine server, and are dropped as they come.
- The ops do not depend on how the input is cut.

The parser knows nothing of sessions: that CONNECT must come first, permissions and pedantic checks
are the session's. It follows only the one option that changes the grammar, `headers`, because a
client may send HPUB in the same packet as its CONNECT.

One departure from the genuine server: a line feed right after a verb's blanks ends the line there;
there it becomes part of the first argument, and a subject could carry it to subscribers.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import deque
from collections.abc import Callable
from typing import Any

import orjson

from jetstream_server.kernels.frames import scan_publishes
from jetstream_server.protocol import errors
from jetstream_server.protocol.ops import Connect, Op, Ping, Pong, PubRun, Sub, Unsub, Violation

_VERBS = {
    b"P": (b"PUB", b"PING", b"PONG"),
    b"H": (b"HPUB", b"HMSG"),
    b"S": (b"SUB",),
    b"U": (b"UNSUB",),
    b"C": (b"CONNECT",),
    b"I": (b"INFO",),
    b"+": (b"+OK",),
    b"-": (b"-ERR",),
}
_VERB_BYTES_MAX = 7
_INTEGER_CHARACTERS_MAX = 20
# A read of at least this size is not copied to join it to a torn frame; instead the frame gets what
# it lacks.
_JOINED_BYTES_MAX = 32 * 1024
_READ_TOGETHER_BYTES_MAX = 16 * 1024  # of pieces that were put off
# These take no arguments: the rest of the line is skipped. Ops are not changed, so one will do.
_WITHOUT_ARGUMENTS: dict[bytes, Op | None] = {b"PING": Ping(), b"PONG": Pong(), b"+OK": None}
# Their JSON may follow without a blank.
_BLANK_OPTIONAL = (b"CONNECT", b"INFO")

# What most clients send, character for character.
_PLAIN = re.compile(rb"UNSUB ([^ \t\r\n]++)\r\n|SUB ([^ \t\r\n]++) ([^ \t\r\n]++)\r\n|PING\r\n")

_ARGUMENT = re.compile(rb"[^ \t]")
# The genuine server lets a lone CR be part of a published subject, but of no other argument.
_PUBLISH_TOKEN = re.compile(rb"[^ \t]++")
_TOKEN = re.compile(rb"[^ \t\r]++")
_SIZE = re.compile(rb"[0-9]{1,9}")  # nine digits at most, as in the genuine server

# How many are read at a time; each takes a microsecond or two.
OPS_MAX = 2000

# Where the next frame starts, or HELD: the rest of the chunk waits for more.
_HELD = -1
_Taken = tuple[int, Op | None]
_INCOMPLETE: _Taken = (_HELD, None)


def _refuse(fault: errors.Fault) -> _Taken:
    return _HELD, fault.violation()


class Parser:
    """The parser of one connection.

    Attributes:
        control_line_max: longest arguments of a line, in bytes.
        payload_max: largest payload, header block included; an account may lower it.
        headers: whether HPUB is allowed; follows the `headers` option of CONNECT.
        later: pieces that are left for `read_on`; empty when there are none.
        joined_bytes: of frames that came in pieces and were put together, since the start.
    """

    __slots__ = (
        "_awaited_bytes",
        "_ended",
        "_frame_bytes",
        "_headers_supported",
        "_held",
        "_held_bytes",
        "_in_line",
        "_unread_at",
        "control_line_max",
        "headers",
        "joined_bytes",
        "later",
        "payload_max",
    )

    def __init__(
        self, control_line_max: int, payload_max: int, *, headers_supported: bool = True
    ) -> None:
        self.control_line_max = control_line_max
        self.payload_max = payload_max
        self.headers = False
        self._headers_supported = headers_supported
        self._ended = False  # by a violation
        self._held: list[bytes] = []  # pieces of the incomplete frame
        self._held_bytes = 0
        self._awaited_bytes = 0  # no use looking at the held frame before it has this many
        self._frame_bytes = 0  # how long it will be, if that is known
        self._in_line = False  # ... or before a line feed comes, if its limit allows
        self.later: deque[bytes] = deque()  # the first of them from `_unread_at` on
        self._unread_at = 0
        self.joined_bytes = 0

    def end(self) -> None:
        """Read no more, and let go of what was not read."""
        self._ended = True
        self._held.clear()
        self.later.clear()

    def put_off(self, data: bytes) -> None:
        """Take bytes that there is no time to read now."""
        if not self._ended:
            self.later.append(data)

    def feed(self, data: bytes, ops_max: int = OPS_MAX) -> list[Op]:
        """Return the ops that `data` completes, in order; only the first of them, if there are
        many.

        A `Violation` is the last op of a connection; what is fed after it is ignored.
        """
        if self._ended:
            return []
        if self.later:
            self.later.append(data)
            return []
        if not self._held:
            return self._parse(data, 0, ops_max)
        if len(data) > _JOINED_BYTES_MAX and self._frame_bytes:
            lacking = self._frame_bytes - self._held_bytes
            if lacking < len(data):
                return self._complete(data, lacking, ops_max)
        self._held.append(data)
        self._held_bytes += len(data)
        if self._held_bytes < self._awaited_bytes:
            return []
        if self._in_line and self._held_bytes <= self.control_line_max and b"\n" not in data:
            return []
        chunk = b"".join(self._held)
        self._held.clear()
        self.joined_bytes += len(chunk)
        return self._parse(chunk, 0, ops_max)

    def read_on(self, ops_max: int = OPS_MAX) -> list[Op]:
        """Return the next ops of what was fed or put off, not many more than `ops_max`: of one
        piece, or of several that are little together."""
        ops: list[Op] = []
        read_bytes = 0
        while self.later and not self._ended:
            data, at, self._unread_at = self.later.popleft(), self._unread_at, 0
            waiting, self.later = self.later, deque()
            left = ops_max - len(ops)
            ops += self._parse(data, at, left) if at else self.feed(data, left)
            self.later.extend(waiting)
            read_bytes += len(data) - at
            if ops and (len(ops) >= ops_max or read_bytes > _READ_TOGETHER_BYTES_MAX):
                break
        if self._ended:
            self.later.clear()
        return ops

    def _complete(self, data: bytes, lacking: int, ops_max: int) -> list[Op]:
        """Parse the held frame with the bytes that it lacks, and then what follows them."""
        frame = b"".join((*self._held, data[:lacking]))
        self._held.clear()
        self.joined_bytes += len(frame)
        ops = self._parse(frame, 0, ops_max)  # one at most
        return ops if self._ended else ops + self._parse(data, lacking, ops_max)

    def _parse(self, chunk: bytes, at: int, ops_max: int) -> list[Op]:
        ops: list[Op] = []
        fields = array("i")
        while True:
            at = scan_publishes(
                chunk, at, fields, self.control_line_max, self.payload_max, self.headers
            )
            if at == len(chunk):
                break
            at, op = self._take(chunk, at, fields)
            if op is not None:
                if fields:
                    ops.append(PubRun(chunk, fields))
                    fields = array("i")
                ops.append(op)
                self._ended = type(op) is Violation
            if self._ended or at == _HELD:
                break
            if len(ops) >= ops_max and at < len(chunk):
                self.later.append(chunk)
                self._unread_at = at
                break
        if fields:
            ops.append(PubRun(chunk, fields))
        return ops

    def _hold(
        self, rest: bytes, awaited_bytes: int = 0, frame_bytes: int = 0, *, in_line: bool = False
    ) -> _Taken:
        self._held.append(rest)
        self._held_bytes = len(rest)
        self._awaited_bytes = awaited_bytes
        self._frame_bytes = frame_bytes
        self._in_line = in_line
        return _INCOMPLETE

    def _take(self, chunk: bytes, start: int, fields: array[int]) -> _Taken:
        """Take the one frame at `start`; a publish goes to `fields`."""
        plain = _PLAIN.match(chunk, start)
        if plain is not None and plain.end() - start <= self.control_line_max:
            stop = plain.end()
            match plain.lastindex:
                case 1:
                    return stop, Unsub(plain[1], 0)
                case 3:
                    return stop, Sub(plain[2], b"", plain[3])
            return stop, _WITHOUT_ARGUMENTS[b"PING"]
        head = chunk[start : start + _VERB_BYTES_MAX].upper()
        verbs = _VERBS.get(head[:1], ())
        for verb in verbs:
            if head.startswith(verb):
                break
        else:
            if any(verb.startswith(head) for verb in verbs):
                return self._hold(head)
            return _refuse(errors.UNKNOWN_OPERATION)
        after_verb = start + len(verb)
        if verb in _WITHOUT_ARGUMENTS:
            line_feed = chunk.find(b"\n", after_verb)
            if line_feed < 0:
                return self._hold(verb)
            return line_feed + 1, _WITHOUT_ARGUMENTS[verb]
        argument = _ARGUMENT.search(chunk, after_verb)
        argument_start = argument.start() if argument else len(chunk)
        if argument_start == len(chunk):
            return self._hold(verb if argument_start == after_verb else verb + b" ")
        if argument_start == after_verb and verb not in _BLANK_OPTIONAL:
            return _refuse(errors.UNKNOWN_OPERATION)
        # The longest line allowed ends in CR LF; looking no further keeps this linear.
        line_feed = chunk.find(b"\n", argument_start, argument_start + self.control_line_max + 2)
        argument_stop = line_feed if line_feed >= 0 else len(chunk)
        if chunk[argument_stop - 1 : argument_stop] == b"\r" and argument_stop > argument_start:
            argument_stop -= 1
        if argument_stop - argument_start > self.control_line_max:
            return _refuse(errors.CONTROL_LINE_EXCEEDED)
        if line_feed < 0:
            return self._hold(verb + b" " + chunk[argument_start:], in_line=True)
        if verb in (b"PUB", b"HPUB"):
            return self._take_publish(
                chunk, start, argument_start, argument_stop, line_feed, fields
            )
        if verb == b"HMSG":
            return self._take_hmsg(chunk, start, line_feed)
        op = _OPERATIONS[verb](chunk[argument_start:argument_stop])
        if type(op) is Connect and isinstance(wanted := op.options.get("headers"), bool):
            self.headers = wanted and self._headers_supported
        return line_feed + 1, op

    def _take_publish(
        self,
        chunk: bytes,
        start: int,
        argument_start: int,
        argument_stop: int,
        line_feed: int,
        fields: array[int],
    ) -> _Taken:
        """Take the PUB or HPUB at `start`, whose line is complete."""
        spans = [
            found.span() for found in _PUBLISH_TOKEN.finditer(chunk, argument_start, argument_stop)
        ]
        has_headers = chunk[start : start + 1] in b"Hh"
        names = len(spans) - (2 if has_headers else 1)  # subject, perhaps reply
        if (has_headers and not self.headers) or not 1 <= names <= 2:
            return _refuse(errors.MALFORMED)
        sizes = [chunk[a:b] for a, b in spans[names:]]
        if not all(map(_SIZE.fullmatch, sizes)):
            return _refuse(errors.MALFORMED)
        header_bytes, total_bytes = int(sizes[0]) if has_headers else 0, int(sizes[-1])
        if header_bytes > total_bytes:
            return _refuse(errors.MALFORMED)
        if total_bytes > self.payload_max:
            return _refuse(errors.PAYLOAD_EXCEEDED)
        header_start = line_feed + 1
        payload_stop = header_start + total_bytes
        ending = chunk[payload_stop : payload_stop + 2]
        if not b"\r\n".startswith(ending):
            return _refuse(errors.UNKNOWN_OPERATION)
        if len(ending) < 2:
            awaited_bytes = payload_stop + len(ending) + 1 - start
            return self._hold(chunk[start:], awaited_bytes, payload_stop + 2 - start)
        subject = spans[0]
        reply = spans[1] if names == 2 else (subject[1], subject[1])
        fields.extend((*subject, *reply, header_start, header_start + header_bytes, payload_stop))
        return payload_stop + 2, None

    def _take_hmsg(self, chunk: bytes, start: int, line_feed: int) -> _Taken:
        # The genuine server reads no arguments from a client's HMSG, expects an empty payload and
        # drops it.
        ending = chunk[line_feed + 1 : line_feed + 3]
        if not b"\r\n".startswith(ending):
            return _refuse(errors.UNKNOWN_OPERATION)
        if len(ending) < 2:
            return self._hold(chunk[start:])
        return line_feed + 3, None


def _tokens(arguments: bytes) -> list[bytes]:
    return _TOKEN.findall(arguments)


def _sub(arguments: bytes) -> Op:
    match _tokens(arguments):
        case [subject, sid]:
            return Sub(subject, b"", sid)
        case [subject, queue, sid]:
            return Sub(subject, queue, sid)
    return errors.MALFORMED.violation()


def _unsub(arguments: bytes) -> Op:
    match _tokens(arguments):
        case [sid]:
            return Unsub(sid, 0)
        case [sid, max_messages]:
            # What is not a number counts as 0, which means now.
            return Unsub(sid, int(max_messages) if _SIZE.fullmatch(max_messages) else 0)
    return errors.MALFORMED.violation()


def _json_object(arguments: bytes) -> dict[str, Any] | None:
    """Return a JSON object with its keys in lower case, null as {}; None when it is neither.

    Go matches keys in any case, and replaces bytes that are not UTF-8.
    """
    text = arguments.decode("utf-8", "replace")
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = _lenient(text)
    if value is None:
        return {}
    return {key.lower(): held for key, held in value.items()} if isinstance(value, dict) else None


def _lenient(text: str) -> Any:
    """Return the value of JSON with what Go takes and orjson does not; False for none.

    That means numbers beyond all bounds, deep nesting, and halves of surrogate pairs, which are
    replaced.
    """
    try:
        value = json.loads(text, parse_int=_whole, parse_constant=_refuse_constant)
        whole = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass")
        return json.loads(whole.decode("utf-16", "replace"))
    except (ValueError, RecursionError):
        return False


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) <= _INTEGER_CHARACTERS_MAX else float(digits)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _connect(arguments: bytes) -> Op:
    options = _json_object(arguments)
    return errors.MALFORMED.violation() if options is None else Connect(options)


def _info(arguments: bytes) -> Op | None:
    return errors.MALFORMED.violation() if _json_object(arguments) is None else None


def _err(_arguments: bytes) -> Op:
    return errors.CLIENT_SENT_ERROR.violation()


_OPERATIONS: dict[bytes, Callable[[bytes], Op | None]] = {
    b"SUB": _sub,
    b"UNSUB": _unsub,
    b"CONNECT": _connect,
    b"INFO": _info,
    b"-ERR": _err,
}
