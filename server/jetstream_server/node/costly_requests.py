"""Requests that take milliseconds each, a few of them a turn.

Five hundred streams can be asked for in one write, and whoever else wants something would wait for
all of them. So a run of messages is cut behind every few of those requests, and a pause is put
there. What is behind a pause is acted on in a later turn, in the order in which it was said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeGuard

from jetstream_server.kernels import subjects
from jetstream_server.protocol.ops import STRIDE, Op, PubRun

COSTLY_OF_TURN_MAX = 6

_FEW_FIELDS = COSTLY_OF_TURN_MAX * STRIDE
_API = (b"$JS.API.",)
_COSTLY = (
    b"$JS.API.STREAM.CREATE.",
    b"$JS.API.STREAM.UPDATE.",
    b"$JS.API.STREAM.DELETE.",
    b"$JS.API.STREAM.LIS",  # LIST, which has nothing behind it
    b"$JS.API.CONSUMER.CREATE.",
    b"$JS.API.CONSUMER.DURABLE.",
    b"$JS.API.CONSUMER.LIST.",
)


class Pause:
    """What follows is for another turn."""


PAUSE = Pause()


def with_pauses(ops: list[Op]) -> Sequence[Op | Pause]:
    """Return the same ops, with a pause behind every few requests that are costly."""
    for op in ops:
        if _may_need_pauses(op):
            break
    else:
        return ops
    paused: list[Op | Pause] = []
    for op in ops:
        if _may_need_pauses(op):
            paused.extend(_pieces(op))
        else:
            paused.append(op)
    return paused


def _may_need_pauses(op: Op) -> TypeGuard[PubRun]:
    # Payloads are not looked at: they are the most of what comes.
    return (
        type(op) is PubRun
        and len(op.fields) > _FEW_FIELDS
        and subjects.first_reserved(op.chunk, op.fields, 0, op.count, _API, ()) < op.count
    )


def _pieces(run: PubRun) -> Iterator[PubRun | Pause]:
    count, start = run.count, 0
    while start < count:
        stop = start
        for _ in range(COSTLY_OF_TURN_MAX):
            stop = subjects.first_reserved(run.chunk, run.fields, stop, count, _COSTLY, ()) + 1
            if stop > count:
                break
        if stop >= count and not start:  # as nearly always
            yield run
            return
        yield PubRun(run.chunk, run.fields[start * STRIDE : stop * STRIDE])
        if stop < count:
            yield PAUSE
        start = stop
