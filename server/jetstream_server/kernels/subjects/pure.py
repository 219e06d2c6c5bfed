"""The subjects of a run in pure Python: the reference for `fast.pyx`.

Runs are cut where the target of their subjects changes, and subjects that only servers may use are
found. What a subject maps to is the router's business (`node/router.py`); the arguments `chunk` and
`fields` are those of a `PubRun` (`protocol/ops.py`).
"""

from __future__ import annotations

from array import array
from typing import TypeVar

from jetstream_server.kernels.frames.pure import STRIDE, first_traced, published_bytes

T = TypeVar("T")

TAIL_TOKENS_MAX = 5  # of a family
_ACK_HEAD = b"$JS.ACK."
_ACK_TOKENS = 9
_ACK_TAIL_TOKENS = 5


def prefixes(subject: bytes) -> list[tuple[bytes, int]]:
    """Return the families that a subject may belong to, the narrowest first: a prefix, and how many
    tokens follow it.

    Acks differ in the five tokens that describe a delivery, other subjects in their last tokens:
    identifiers, often new ones with each message. A subject with empty tokens there has none.
    """
    if subject.startswith(_ACK_HEAD):
        tokens = subject.split(b".")
        if len(tokens) != _ACK_TOKENS or not all(tokens[-_ACK_TAIL_TOKENS:]):
            return []
        return [(b".".join(tokens[:-_ACK_TAIL_TOKENS]), _ACK_TAIL_TOKENS)]
    found: list[tuple[bytes, int]] = []
    prefix, _, last = subject.rpartition(b".")
    while prefix and last and len(found) < _ACK_TAIL_TOKENS - 1:
        found.append((prefix, len(found) + 1))
        prefix, _, last = prefix.rpartition(b".")
    return found


def segment(
    chunk: bytes,
    fields: array[int],
    start: int,
    stop: int,
    routes: dict[bytes, T],
    families: list[dict[bytes, T]],
) -> tuple[int, T | None]:
    """Return (cut, target): the subjects of messages `start` up to `cut` all map to `target`.

    A subject is looked for by its narrowest prefix in `families` (by the number of tokens after the
    prefix), then in `routes`, then by its wider prefixes. The stretch is as long as possible and
    has at least one message, unless the first subject is not found: then the answer is (start,
    None). Targets are compared by identity.
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
            found = known[subject] = _find(subject, routes, families)
        if found is not target:
            if index > start:
                return index, target
            target = found
        if found is None:
            return start, None
        index += 1
    return index, target


def _find(subject: bytes, routes: dict[bytes, T], families: list[dict[bytes, T]]) -> T | None:
    found = None
    for narrowest, (prefix, tail) in enumerate(prefixes(subject)):
        if narrowest == 1:
            found = routes.get(subject)
        if found is None:
            found = families[tail].get(prefix)
        if found is not None:
            return found
    return routes.get(subject)


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
    `replies`, and goes on after it. `stop` when there is none.
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


def admitted(
    chunk: bytes, fields: array[int], subjects: tuple[bytes, ...], replies: tuple[bytes, ...]
) -> tuple[int, int]:
    """Return how many bytes headers and payloads of all messages have, and how many messages from
    the first on are neither of a reserved kind nor ask for a trace."""
    untraced = first_traced(chunk, fields, 0, len(fields) // STRIDE)
    return published_bytes(fields), first_reserved(chunk, fields, 0, untraced, subjects, replies)
