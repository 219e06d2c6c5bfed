"""The subjects of a run in pure Python: the reference for `subjects_fast`.

Runs are cut where the target of their subjects changes, and subjects that only servers may use are
found. What a subject maps to is the router's business (`node/router.py`); the arguments `chunk` and
`fields` are those of a `PubRun` (`protocol/ops.py`).
"""

from __future__ import annotations

from array import array
from typing import TypeVar

from jetstream_server.kernels.frames_pure import STRIDE

T = TypeVar("T")

_ACK_HEAD = b"$JS.ACK."
_ACK_TOKENS = 9
_ACK_TAIL_TOKENS = 5


def family(subject: bytes) -> tuple[bytes, int]:
    """Return the prefix that a subject shares with its kind, and how many tokens are behind it.

    Acks differ in the five tokens that describe a delivery, other subjects in their last token: an
    identifier, often a new one for each message. A subject without such a prefix gives (b"", 0).
    """
    if subject.startswith(_ACK_HEAD):
        tokens = subject.split(b".")
        if len(tokens) != _ACK_TOKENS or not all(tokens[-_ACK_TAIL_TOKENS:]):
            return b"", 0
        return b".".join(tokens[:-_ACK_TAIL_TOKENS]), _ACK_TAIL_TOKENS
    prefix, _, last = subject.rpartition(b".")
    return (prefix, 1) if prefix and last else (b"", 0)


def segment(
    chunk: bytes,
    fields: array[int],
    start: int,
    stop: int,
    routes: dict[bytes, T],
    families: dict[bytes, T],
) -> tuple[int, T | None]:
    """Return (cut, target): the subjects of messages `start` up to `cut` all map to `target`.

    A subject is looked for by the prefix of its `family` in `families`, then in `routes`. The
    stretch is the longest there is, at least one message long unless the first subject is in
    neither: then the answer is (start, None). Targets are compared by identity.
    """
    first, end = start * STRIDE, stop * STRIDE
    target: T | None = None
    index = start
    known: dict[bytes, T | None] = {}
    for a, b in zip(fields[first:end:STRIDE], fields[first + 1 : end : STRIDE], strict=True):
        subject = chunk[a:b]
        if subject in known:
            found = known[subject]
        else:
            found = families.get(family(subject)[0])
            if found is None:
                found = routes.get(subject)
            known[subject] = found
        if found is not target:
            if index > start:
                return index, target
            target = found
        if found is None:
            return start, None
        index += 1
    return index, target


def first_reserved(
    chunk: bytes,
    fields: array[int],
    start: int,
    stop: int,
    subjects: tuple[bytes, ...],
    replies: tuple[bytes, ...],
) -> int:
    """Return the first message in [start, stop) with a subject or reply of a reserved kind.

    That is a subject that begins with one of `subjects`, or a reply that begins with one of
    `replies`, and goes on behind it. `stop` when there is none.
    """
    first, end = start * STRIDE, stop * STRIDE
    columns = (fields[first + column : end : STRIDE] for column in range(4))
    for index, (a, b, c, d) in enumerate(zip(*columns, strict=True), start):
        for prefix in subjects:
            if b - a > len(prefix) and chunk.startswith(prefix, a, b):
                return index
        for prefix in replies:
            if d - c > len(prefix) and chunk.startswith(prefix, c, d):
                return index
    return max(start, stop)
