"""Messages that leave their stream while consumers wait for their acks, or while there are very
many consumers: each of them has to hear of it."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.stall.crowds import readers, say
from benchmarks.stall.inputs import TIMEOUT_S, Act, Input
from benchmarks.wire import Wire

_MESSAGES = 100_000
_CONSUMERS = 16
_ONE_BY_ONE = 50_000
_REFUSED = 30_000
_HOUR_NS = 3600 * 10**9
_ROLLUP = b"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n"
_ADVISORIES = b"SUB $JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.> 9\r\n"


def delivered(
    subjects: int, *, messages: int = _MESSAGES, consumers: int = _CONSUMERS, **config: Any
) -> Act:
    """Have consumers with so many messages each that nobody has acknowledged."""

    def prepare(port: int) -> None:
        with Wire(port, TIMEOUT_S) as wire:
            wire.subscribe_inbox()
            stream = {"name": "S", "subjects": ["S.>"], "storage": "memory"}
            wire.api("STREAM.CREATE.S", stream | config)
            said = [b"PUB S.%d 1\r\nx\r\n" % (number % subjects) for number in range(messages)]
            wire.sock.sendall(b"".join(said))
            wire.ping()
        with readers(port, b"SUB d.* 7\r\n"), Wire(port, TIMEOUT_S) as wire:
            wire.subscribe_inbox()
            for number in range(consumers):
                name = f"c{number}"
                consumer = {
                    "name": name,
                    "durable_name": name,
                    "deliver_subject": f"d.{number}",
                    "ack_policy": "explicit",
                    "ack_wait": _HOUR_NS,
                    "max_ack_pending": -1,
                    "mem_storage": True,
                }
                config_of = {"stream_name": "S", "config": consumer}
                wire.api(f"CONSUMER.CREATE.S.{name}", config_of)
            for number in range(consumers):
                while _pending(wire, number) < messages:
                    time.sleep(0.2)

    return prepare


def _prepare(wire: Wire, messages: int, ack_policy: str) -> None:
    """Make a stream with so many messages, and a consumer that waits for their acks for long."""
    wire.subscribe_inbox()
    wire.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"], "storage": "memory"})
    wire.sock.sendall(b"PUB S.a 1\r\nx\r\n" * messages)
    wire.ping()
    config = {"name": "c", "durable_name": "c", "ack_policy": ack_policy, "ack_wait": _HOUR_NS}
    consumer = {"stream_name": "S", "config": config | {"max_ack_pending": -1}}
    wire.api("CONSUMER.CREATE.S.c", consumer)


def _one_at_a_time(port: int) -> None:
    """Have a consumer on a disk whose messages were asked for one by one, each in its own turn."""
    with Wire(port, TIMEOUT_S) as wire:
        _prepare(wire, _ONE_BY_ONE, "all")
    with Wire(port, TIMEOUT_S) as wire:
        wire.sock.sendall(b"SUB i 1\r\n")
        for _ in range(_ONE_BY_ONE):
            wire.sock.sendall(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.c i 0\r\n\r\n")
            wire.sock.recv(4096)


def _ack(sequence: int, times: int) -> Act:
    """Acknowledge a message and all before it, and ask for an answer, and so the ones after it."""

    def act(port: int) -> None:
        with Wire(port, TIMEOUT_S) as wire:
            wire.sock.sendall(b"SUB i 1\r\n")
            for number in range(sequence, sequence + times):
                subject = b"$JS.ACK.S.c.1.%d.%d.1.0" % (number, number)
                wire.sock.sendall(b"PUB %b i 0\r\n\r\n" % subject)
                wire.sock.recv(4096)

    return act


def _refused_in_falling_order(port: int) -> None:
    with Wire(port, TIMEOUT_S) as wire:
        _prepare(wire, _REFUSED, "explicit")
    _ask_for_refused(port)
    refusals = [
        b"PUB $JS.ACK.S.c.1.%d.%d.1.0 4\r\n-NAK\r\n" % (n, n) for n in range(_REFUSED, 0, -1)
    ]
    say(port, refusals)
    time.sleep(2)


def _ask_for_refused(port: int) -> None:
    with Wire(port, TIMEOUT_S, {"headers": True}) as wire:
        wire.subscribe(b"i", 1)
        batch = b"%d" % _REFUSED
        request = b"PUB $JS.API.CONSUMER.MSG.NEXT.S.c i %d\r\n%b\r\n" % (len(batch), batch)
        wire.sock.sendall(request)
        for _ in range(_REFUSED):
            wire.next_message()


def _pending(wire: Wire, number: int) -> int:
    return int(wire.api(f"CONSUMER.INFO.S.c{number}", {})["num_ack_pending"])


def _very_many_consumers(port: int) -> None:
    with Wire(port, TIMEOUT_S) as wire:
        wire.subscribe_inbox()
        stream = {"name": "S", "subjects": ["S.>"], "storage": "memory", "max_consumers": 5000}
        wire.api("STREAM.CREATE.S", stream | {"allow_rollup_hdrs": True})
        for number in range(5000):
            config = {"durable_name": f"c{number}", "ack_policy": "explicit", "mem_storage": True}
            consumer = {"stream_name": "S", "config": config | {"name": f"c{number}"}}
            wire.api(f"CONSUMER.CREATE.S.c{number}", consumer)


def _purge(port: int) -> None:
    with Wire(port, TIMEOUT_S) as wire:
        wire.subscribe_inbox()
        wire.api("STREAM.PURGE.S", {"filter": "S.1"})


def _roll_up(times: int, distance: int) -> Act:
    frame = b"HPUB S.%d %d %d\r\n" + _ROLLUP + b"x\r\n"
    sizes = (len(_ROLLUP), len(_ROLLUP) + 1)
    return lambda port: say(port, [frame % (n * distance, *sizes) for n in range(times)])


def _push_out(port: int) -> None:
    say(port, [b"PUB S.%d 1\r\nx\r\n" % number for number in range(0, 40_000, 2)])


def _push_out_heard(port: int) -> None:
    with readers(port, _ADVISORIES):
        _push_out(port)
        time.sleep(5)


_ONE_EACH = {"max_msgs_per_subject": 1}
_ROLLED_UP = {"allow_rollup_hdrs": True}
_BESIDE = "beside 16 consumers with 100,000 unacknowledged messages each"

DEPARTURES = [
    Input(
        "30,000 messages that were refused in falling order, asked for again",
        _ask_for_refused,
        _refused_in_falling_order,
    ),
    Input(
        "an ack for all of 50,000 messages that were asked for one by one",
        _ack(_ONE_BY_ONE, 1),
        _one_at_a_time,
    ),
    Input(
        "50 acks with an answer beside 50,000 messages that were asked for one by one",
        _ack(1, 50),
        _one_at_a_time,
    ),
    Input(f"a purge by a filter {_BESIDE}", _purge, delivered(2)),
    Input(
        f"20 messages of which each rolls up one {_BESIDE}",
        _roll_up(20, 2),
        delivered(_MESSAGES, **_ROLLED_UP),
    ),
    Input(f"2,000 of them {_BESIDE}", _roll_up(2000, 2), delivered(_MESSAGES, **_ROLLED_UP)),
    Input(f"a message that rolls up 50,000 {_BESIDE}", _roll_up(1, 0), delivered(2, **_ROLLED_UP)),
    Input(
        f"20,000 messages that push out one each {_BESIDE}",
        _push_out,
        delivered(_MESSAGES, **_ONE_EACH),
    ),
    Input(
        f"the same with a listener to what is terminated {_BESIDE}",
        _push_out_heard,
        delivered(_MESSAGES, **_ONE_EACH),
    ),
    Input(
        "20 messages that roll up one each beside 5,000 consumers",
        _roll_up(20, 0),
        _very_many_consumers,
    ),
]
