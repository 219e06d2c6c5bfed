"""Streams with consumers that are copied: snapshots, and what is restored from them."""

from __future__ import annotations

import json
import time
from typing import Any

from benchmarks.stall.crowds import readers, say
from benchmarks.stall.departures import delivered
from benchmarks.stall.inputs import TIMEOUT_S, Act, Input, publish
from benchmarks.wire import Wire

_WINDOW_BYTES = 1 << 20
_taken: list[tuple[dict[str, Any], list[bytes]]] = []  # by the last preparation


def _take(port: int) -> None:
    """Take a snapshot, and keep it."""
    chunks: list[bytes] = []
    with Wire(port, TIMEOUT_S) as asking, Wire(port, TIMEOUT_S, {"headers": True}) as wire:
        asking.subscribe_inbox()
        wire.subscribe(b"to.me", 5)
        wire.ping()
        body = {"deliver_subject": "to.me", "window_size": _WINDOW_BYTES}
        answer = asking.api("STREAM.SNAPSHOT.S", body)
        while chunk := (message := wire.next_message())[2]:
            chunks.append(chunk)
            if message[1]:
                wire.sock.sendall(b"PUB %b 0\r\n\r\n" % message[1])
    _taken[:] = [(answer, chunks)]


def _restorable(prepare: Act) -> Act:
    def prepared(port: int) -> None:
        prepare(port)
        _take(port)
        with Wire(port, TIMEOUT_S) as wire:
            wire.subscribe_inbox()
            wire.api("STREAM.DELETE.S")

    return prepared


def _restore(port: int) -> None:
    ((answer, chunks),) = _taken
    with Wire(port, TIMEOUT_S, {"headers": True}) as wire:
        wire.subscribe_inbox()
        body = {"config": answer["config"], "state": answer["state"]}
        target = wire.api("STREAM.RESTORE.S", body)["deliver_subject"]
        for chunk in chunks:
            head = b"PUB %b %b.chunk %d" % (target.encode(), wire.inbox, len(chunk))
            wire.sock.sendall(b"%b\r\n%b\r\n" % (head, chunk))
            wire.next_message()
        wire.request(target, b"")


def _many_consumers(port: int) -> None:
    with Wire(port, TIMEOUT_S) as wire:
        wire.subscribe_inbox()
        wire.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"], "storage": "file"})
        for number in range(500):
            config = {"name": f"c{number}", "durable_name": f"c{number}"}
            body = {"stream_name": "S", "config": config | {"ack_policy": "explicit"}}
            wire.api(f"CONSUMER.CREATE.S.c{number}", body)


def _take_unheard(port: int) -> None:
    """Ask for 500 snapshots in one write, and acknowledge none of their parts."""
    asked = []
    for number in range(500):
        body = {"deliver_subject": f"to.{number}", "chunk_size": 1 << 16, "window_size": 32 << 20}
        text = json.dumps(body).encode()
        asked.append(b"PUB $JS.API.STREAM.SNAPSHOT.S r %d\r\n%b\r\n" % (len(text), text))
    with readers(port, b"SUB to.* 1\r\n"):
        say(port, asked)
        time.sleep(6)


_FOUR = delivered(2, messages=50_000, consumers=4, storage="file")

COPIES = [
    Input("a snapshot with 4 consumers with 50,000 unacknowledged messages each", _take, _FOUR),
    Input(
        "a restore of 4 consumers with 50,000 unacknowledged messages each",
        _restore,
        _restorable(_FOUR),
    ),
    Input(
        "500 snapshots at once of which nobody acknowledges anything",
        _take_unheard,
        publish(1000, 20_000, bytes(1000)),
    ),
    Input("a restore of 500 consumers", _restore, _restorable(_many_consumers)),
]
