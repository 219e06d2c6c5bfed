"""What a client says and hears to whom very much is denied: each subject is one of its own."""

from __future__ import annotations

from benchmarks.stall import surroundings
from benchmarks.stall.crowds import readers, say
from benchmarks.stall.inputs import USER, Act, Input

_BOUND = USER | {"user": "bound"}
_MESSAGES = [b"PUB q.%d 0\r\n\r\n" % number for number in range(3000)]
_STARRY = [b"PUB a.a.a.a.a.a.a.x%d 0\r\n\r\n" % number for number in range(3000)]
_SUBSCRIPTIONS = [b"SUB q.%d.> %d\r\n" % (number, number) for number in range(2000)]


def _hear(port: int) -> None:
    with readers(port, b"SUB > 1\r\n", **_BOUND):
        say(port, _MESSAGES, **USER)


def _hear_often(port: int) -> None:
    """Publish 200 messages for 3,000 subscriptions of a client, which do not hear the witness."""
    said = b"".join(b"SUB *.*.*.*.* %d\r\n" % number for number in range(3000))
    with readers(port, said, **_BOUND):
        say(port, [b"PUB q.%d.a.x.y 0\r\n\r\n" % number for number in range(200)], **USER)


def _bound(name: str, act: Act) -> Input:
    config, credentials = surroundings.many_denials, tuple(USER.items())
    return Input(name, act, config=config, credentials=credentials)


PERMISSIONS = [
    _bound(
        "3,000 messages of a client to whom 1,000 patterns are denied",
        lambda port: say(port, _MESSAGES, **_BOUND),
    ),
    _bound("3,000 messages for a client to whom 1,000 patterns are denied", _hear),
    _bound(
        "2,000 subscriptions of a client to whom 1,000 patterns are denied",
        lambda port: say(port, _SUBSCRIPTIONS, **_BOUND),
    ),
    _bound(
        "200 messages for 3,000 subscriptions of a client to whom 1,000 patterns are denied",
        _hear_often,
    ),
    Input(
        "3,000 messages of a client to whom 10,000 patterns with stars are denied",
        lambda port: say(port, _STARRY, **_BOUND),
        config=surroundings.starry_denials,
        credentials=tuple(USER.items()),
    ),
]
