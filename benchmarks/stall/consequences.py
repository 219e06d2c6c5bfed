"""What comes of what a client says: statuses, advisories, traces and schedules, which very many may
listen to, and copies that are stored again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence

from benchmarks.stall.crowds import message, readers, said, say
from benchmarks.stall.inputs import TIMEOUT_S, Act, Input
from benchmarks.wire import Wire

_SECOND_NS = 1_000_000_000
_LISTENERS = 1000


def _listening(subject: bytes) -> bytes:
    return b"".join(b"SUB %b %d\r\n" % (subject, number + 10) for number in range(_LISTENERS))


def made(*requests: tuple[str, object]) -> Act:
    """Ask for all of it, one after the other; nothing may be refused."""

    def prepare(port: int) -> None:
        with Wire(port, TIMEOUT_S) as wire:
            wire.subscribe_inbox()
            for verb, body in requests:
                wire.api(verb, body)

    return prepare


def _consumer(**config: object) -> Act:
    settings = {"name": "c", "durable_name": "c", "ack_policy": "explicit", **config}
    return made(
        ("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"]}),
        ("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": settings}),
    )


def _copied(*, circle: bool) -> Act:
    """Make stream A, whose messages are republished as those of B, and perhaps the other way."""
    to_b = {"src": "a.*", "dest": "b.{{wildcard(1)}}"}
    to_a = {"src": "b.*", "dest": "a.{{wildcard(1)}}"}
    b: dict[str, object] = {"name": "B", "subjects": ["b.*"]}
    if circle:
        b["republish"] = to_a
    a = {"name": "A", "subjects": ["a.*"], "republish": to_b}
    return made(("STREAM.CREATE.A", a), ("STREAM.CREATE.B", b))


def _pull(count: int, body: dict[str, object], reply: bytes) -> list[bytes]:
    text = json.dumps(body).encode()
    frame = b"PUB $JS.API.CONSUMER.MSG.NEXT.S.c %b %d\r\n%b\r\n" % (reply, len(text), text)
    return [frame] * count


def with_headers(subject: Callable[[int], bytes], lines: bytes, count: int) -> list[bytes]:
    """Return so many messages, each with these lines of headers, to the subject of its number."""
    block = b"NATS/1.0\r\n%b\r\n\r\n" % lines
    return [
        b"HPUB %b %d %d\r\n%b\r\n" % (subject(number), len(block), len(block), block)
        for number in range(count)
    ]


def _then(frames: Sequence[bytes], heard: bytes, seconds: float, stored: int = 0) -> Act:
    """Publish so many messages, say frames, and wait, while another client listens."""

    def act(port: int) -> None:
        if stored:
            say(port, [message(b"S.{}")(number) for number in range(stored)])
        with readers(port, heard):
            say(port, frames)
            time.sleep(seconds)

    return act


def _unheard(frames: Sequence[bytes], seconds: float) -> Act:
    """Say frames, however long it takes until they are acted on, and go after a while."""

    def act(port: int) -> None:
        with Wire(port, TIMEOUT_S) as wire:
            wire.sock.sendall(b"".join(frames))
            time.sleep(seconds)

    return act


_WIDE = _listening(b"wide")
_ADVISED = _listening(b"$JS.EVENT.ADVISORY.>")

CONSEQUENCES = [
    Input(
        "500 pulls that expire together, for 1,000 listeners",
        _then(_pull(500, {"batch": 1, "expires": 2 * _SECOND_NS}, b"wide"), _WIDE, 4),
        _consumer(),
    ),
    Input(
        "500 pulls with heartbeats, for 1,000 listeners",
        _then(
            _pull(
                500,
                {"batch": 1, "expires": 20 * _SECOND_NS, "idle_heartbeat": _SECOND_NS},
                b"wide",
            ),
            _WIDE,
            4,
        ),
        _consumer(),
    ),
    Input(
        "3,000 pulls of nothing, for 1,000 listeners",
        said(lambda _: _pull(1, {"batch": 1, "no_wait": True}, b"wide")[0], 3000, _WIDE),
        _consumer(),
    ),
    Input(
        "500 pulls for 1,000 listeners, and 2,000 messages",
        _then(
            _pull(500, {"batch": 4, "expires": 20 * _SECOND_NS}, b"wide")
            + [message(b"S.x", after=b"PING\r\n")(number) for number in range(2000)],
            _WIDE,
            1,
        ),
        _consumer(),
    ),
    Input(
        "100,000 messages given up, and somebody listens",
        _then(
            _pull(1, {"batch": 100_000}, b"mine"),
            b"SUB mine 1\r\nSUB $JS.EVENT.ADVISORY.> 2\r\n",
            4,
            stored=100_000,
        ),
        _consumer(max_deliver=1, ack_wait=_SECOND_NS, max_ack_pending=-1),
    ),
    Input(
        "2,000 messages given up, for 1,000 listeners",
        _then(_pull(1, {"batch": 2000}, b"mine"), b"SUB mine 1\r\n" + _ADVISED, 4, stored=2000),
        _consumer(max_deliver=1, ack_wait=_SECOND_NS, max_ack_pending=-1),
    ),
    Input(
        "3,000 requests for 1,000 listeners to advisories",
        said(message(b"$JS.API.STREAM.INFO.S", b"mine"), 3000, b"SUB mine 1\r\n" + _ADVISED),
        _consumer(),
    ),
    Input(
        "3,000 traces for 1,000 listeners",
        _then(with_headers(lambda _: b"S.x", b"Nats-Trace-Dest: wide", 3000), _WIDE, 0),
        _consumer(),
    ),
    Input(
        "50,000 messages republished and stored again",
        said(message(b"a.{}"), 50_000),
        _copied(circle=False),
    ),
    Input(
        "2,000 messages in a circle of two streams, for 6 s",
        _unheard([message(b"a.{}")(number) for number in range(2000)], 6),
        _copied(circle=True),
    ),
    Input(
        "20,000 schedules, all due",
        _then(
            with_headers(
                lambda number: b"S.%d" % number,
                b"Nats-Schedule: @at 2026-01-01T00:00:00Z\r\nNats-Schedule-Target: S.t",
                20_000,
            ),
            b"",
            4,
        ),
        made(("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"], "allow_msg_schedules": True})),
    ),
]
