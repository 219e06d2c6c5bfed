"""The checkpoints of Spark's queries in a folder, and how far each is behind its streams.

A query's positions are in its checkpoint and nowhere else, unless it keeps a consumer. Spark notes
no errors there: a batch that was begun and is not done may run, wait or have failed; `event_logs`
may know.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from jetstream_console.asking.answers import number, part, text
from jetstream_console.asking.api import Api, is_absent, token
from jetstream_console.asking.errors import AskingError, RefusedError
from jetstream_spark.command.checkpoint import (
    Checkpoint,
    CheckpointError,
    PlannedBatch,
    find_checkpoints,
)
from jetstream_spark.options.offsets import Offsets, StreamOffset

CHECKPOINTS_MAX = 100


@dataclass(frozen=True, slots=True)
class QueryPosition:
    """Where a query stands in one stream.

    Attributes:
        query: its id, or the folder if there is none.
        batch: the last one that is done; None if none is.
        begun: a later one that was begun; None if there is none.
        next: the sequence that comes next; None before the first batch is done.
        rate: sequences a second from the batch before to this one; None if that is not known.
        changed: when the checkpoint was last written.
        lag: sequences that are not read yet; None if the position means nothing to the stream.
        words: what there is to say about it.
    """

    query: str
    folder: str
    stream: str
    batch: int | None
    begun: int | None
    next: int | None
    created: str
    rate: float | None
    changed: datetime | None
    lag: int | None = None
    words: str = ""


async def checkpoints_in(api: Api, folder: str) -> tuple[QueryPosition, ...]:
    """Return the positions of all queries whose checkpoints lie in a folder.

    Raises:
        AskingError: there is none, or the servers do not answer.
    """
    try:
        found = await asyncio.to_thread(_read_all, folder)
    except CheckpointError as error:
        raise RefusedError(str(error)) from None
    return tuple([await _with_lag(api, each) for each in found])


def _read_all(folder: str) -> list[QueryPosition]:
    found: list[QueryPosition] = []
    for checkpoint in find_checkpoints(folder)[:CHECKPOINTS_MAX]:
        try:
            found += read_positions(checkpoint)
        except (CheckpointError, OSError) as error:
            name = str(checkpoint.folder)
            words = str(error)
            found.append(QueryPosition("", name, "", None, None, None, "", None, None, words=words))
    return found


def read_positions(checkpoint: Checkpoint) -> list[QueryPosition]:
    """Return where a query stands, a position for each of its streams."""
    planned, committed = checkpoint.planned(), checkpoint.committed()
    done = [each for each in committed if each in planned]
    begun = planned[-1] if planned and (not done or planned[-1] > done[-1]) else None
    batch = checkpoint.batch(done[-1]) if done else None
    before = checkpoint.batch(done[-2]) if len(done) > 1 else None
    past_s = _past_s(checkpoint, done) if before is not None else 0.0
    changed_ns = checkpoint.changed_ns()
    whole = QueryPosition(
        query=checkpoint.query_id or str(checkpoint.folder),
        folder=str(checkpoint.folder),
        stream="",
        batch=done[-1] if done else None,
        begun=begun,
        next=None,
        created="",
        rate=None,
        changed=datetime.fromtimestamp(changed_ns / 1e9, UTC) if changed_ns else None,
    )
    earlier = _streams(before)
    rows = [
        replace(
            whole,
            stream=name,
            next=at.next,
            created=at.created,
            rate=_rate(earlier.get(name), at, past_s),
        )
        for name, at in sorted(_streams(batch).items())
    ]
    return rows or [whole]


def _streams(batch: PlannedBatch | None) -> dict[str, StreamOffset]:
    sources: list[Offsets] = list(batch.offsets.values()) if batch is not None else []
    return {name: at for source in sources for name, at in source.streams.items()}


def _past_s(checkpoint: Checkpoint, done: list[int]) -> float:
    """Return the seconds between the ends of the last two batches."""
    commits = checkpoint.folder / "commits"
    before, after = (commits.joinpath(str(each)).stat().st_mtime for each in done[-2:])
    return after - before


def _rate(before: StreamOffset | None, after: StreamOffset, past_s: float) -> float | None:
    if before is None or before.created != after.created or past_s <= 0:
        return None
    return (after.next - before.next) / past_s


async def _with_lag(api: Api, row: QueryPosition) -> QueryPosition:
    words = [row.words] if row.words else []
    lag = None
    if row.begun is not None:
        words.append(f"batch {row.begun} was begun and is not done")
    if row.stream and row.next is not None:
        lag, said = await _lag(api, row)
        words += [said] if said else []
    return replace(row, lag=lag, words="; ".join(words))


async def _lag(api: Api, row: QueryPosition) -> tuple[int | None, str]:
    try:
        answer = await api.ask(f"STREAM.INFO.{token(row.stream)}")
    except AskingError as error:
        return None, "the stream does not exist any more" if is_absent(error) else str(error)
    state, position = part(answer, "state"), row.next or 0
    first, end = number(state, "first_seq"), number(state, "last_seq") + 1
    if text(answer, "created") != row.created:
        return None, "the stream was made anew"
    if position > end:
        return None, f"the stream ends before, at {end}"
    gone = max(0, first - position)
    said = f"{gone} sequences are gone unread" if gone else ""
    return end - max(position, first), said
