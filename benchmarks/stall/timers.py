"""What the clock brings about: schedules, which are looked at again and again or are due together,
and requests that are not answered in time."""

from __future__ import annotations

import time
import zoneinfo
from datetime import UTC, datetime, timedelta

from benchmarks.stall.consequences import made, with_headers
from benchmarks.stall.crowds import readers, say
from benchmarks.stall.inputs import USER, Act, Input, stream

_TARGET = b"\r\nNats-Schedule-Target: S.t"
_NOW = b"Nats-Schedule: @at 2026-01-01T00:00:00Z"
_DUE_S = 8  # from when on they are stored, until they are due
_LEFT_OUT = [b"x:"] * 5000 + [b"Nats-Expected-%d:" % number for number in range(2200)]


def _scheduled(schedule: bytes, count: int, seconds: float) -> Act:
    """Store so many schedules, unless they are refused, and wait."""

    def act(port: int) -> None:
        say(port, with_headers(lambda number: b"S.%d" % number, schedule + _TARGET, count))
        time.sleep(seconds)

    return act


def _in_all_zones(port: int) -> None:
    """Store 3,000 schedules for a day that is seldom a Monday, in one time zone after the other."""
    zones = sorted(zoneinfo.available_timezones())

    def schedule(number: int) -> bytes:
        zone = b"Nats-Schedule-Time-Zone: " + zones[number % len(zones)].encode()
        lines = b"Nats-Schedule: 0 0 0 29 2 1\r\n" + zone + _TARGET
        return with_headers(lambda _: b"S.%d" % number, lines, 1)[0]

    say(port, [schedule(number) for number in range(3000)])


def _with_many_headers(port: int) -> None:
    """Store 200 schedules whose messages leave out most of their headers, all due in one second."""
    at = datetime.now(UTC) + timedelta(seconds=_DUE_S)
    lines = [f"Nats-Schedule: @at {at:%Y-%m-%dT%H:%M:%SZ}".encode(), *_LEFT_OUT]
    _scheduled(b"\r\n".join(lines), 200, _DUE_S + 6)(port)


def _store_large(port: int) -> None:
    made(stream(allow_msg_schedules=True))(port)
    say(port, [b"PUB S.large 1000000\r\n%b\r\n" % bytes(1_000_000)])


def timed_service(sampling: object) -> str:
    """Return the configuration of a service of another account, with samples of its latency."""
    latency = f"latency: {{sampling: {sampling}, subject: lat}}, response_threshold: 5s"
    return (
        "accounts { W { jetstream: enabled, users: [ {user: witness, password: s3cret} ] }\n"
        " E { users: [ {user: serves, password: s3cret} ],"
        f" exports: [ {{service: told, {latency}}} ] }}\n"
        " I { users: [ {user: asks, password: s3cret} ],"
        " imports: [ {service: {account: E, subject: told}} ] } }\n"
    )


def _ask_in_vain(port: int) -> None:
    """Ask 200,000 times, and wait until the time for the answers is over."""
    with readers(port, b"SUB told 1\r\n", **(USER | {"user": "serves"})):
        say(port, [b"PUB told r 0\r\n\r\n"] * 200_000, **ASKER)
        time.sleep(6)


ASKER = USER | {"user": "asks"}  # of that service
_SCHEDULES = made(stream(allow_msg_schedules=True))
_STARS = b"Nats-Schedule: " + b"*," * 32_000 + b" * * * * *"

TIMERS = [
    Input("a schedule of 32,000 stars each second, for 4 s", _scheduled(_STARS, 1, 4), _SCHEDULES),
    Input("8 schedules of 32,000 stars each second, for 4 s", _scheduled(_STARS, 8, 4), _SCHEDULES),
    Input(
        "200 schedules of 15,000 stars for once a year",
        _scheduled(b"Nats-Schedule: " + b"*," * 15_000 + b"0 0 0 1 1 *", 200, 0),
        _SCHEDULES,
    ),
    Input("3,000 schedules in all time zones", _in_all_zones, _SCHEDULES),
    Input("200 schedules with 7,200 headers each, due together", _with_many_headers, _SCHEDULES),
    Input(
        "400 schedules, all due, of which each copies a message of 1 MB",
        _scheduled(_NOW + b"\r\nNats-Schedule-Source: S.large", 400, 5),
        _store_large,
    ),
    Input(
        "200,000 timed requests that nobody answers",
        _ask_in_vain,
        config=timed_service(100),
        credentials=tuple(USER.items()),
    ),
]
