"""`jetstream-spark offsets`: the positions of a checkpoint: shown, compared, and changed."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from jetstream_spark.client.blocking import run, this_host
from jetstream_spark.client.control import Control, StreamState
from jetstream_spark.command.checkpoint import Checkpoint, CheckpointError, PlannedBatch
from jetstream_spark.command.given_options import connection_of, read_options, takes_options
from jetstream_spark.command.ledger_entries import LEDGER_BUCKET, read_entries, standings
from jetstream_spark.command.offset_reset import back_up, check_resettable, reset
from jetstream_spark.command.output import CommandOutput, reports
from jetstream_spark.command.synced_disk import SyncedDisk
from jetstream_spark.command.wanted_position import WantedPosition, parse_positions
from jetstream_spark.options.offsets import Offsets, StreamOffset
from jetstream_spark.sink.ledger import ScopeKind

_ACTIVE_S = 30.0


@click.group()
def command() -> None:
    """Show, compare and reset the positions of a query's checkpoint."""


# --- show -------------------------------------------------------------------------------------


@command.command()
@click.argument("checkpoint")
@click.option(
    "--last", type=click.IntRange(1), default=3, show_default=True, help="How many batches."
)
@reports
def show(output: CommandOutput, checkpoint: str, last: int) -> None:
    """Where the newest batches of CHECKPOINT end."""
    found = Checkpoint(checkpoint)
    committed = set(found.committed())
    rows = []
    for number in found.planned()[-last:]:
        batch = found.batch(number)
        offsets = batch.offsets
        for source, stream, at in _positions(batch):
            subjects = offsets[source].subjects
            rows.append(
                {
                    "batch": number,
                    "state": "committed" if number in committed else "unfinished",
                    "planned": _planned_at(batch),
                    "source": source,
                    "stream": stream,
                    "next": at.next,
                    "created": at.created,
                    "subjects": None if subjects is None else ", ".join(subjects) or "all",
                    "purged": offsets[source].is_purged,
                }
            )
    output.value({"query": found.query_id, "batches": rows})
    output.say(f"query {found.query_id or '(id unknown)'}")
    is_purged = any(row["purged"] for row in rows)
    columns = [name for name in rows[0] if name != "purged" or is_purged] if rows else []
    output.table(columns, rows, "no batch with a position in a stream is planned yet")


def _positions(batch: PlannedBatch) -> list[tuple[int, str, StreamOffset]]:
    return [
        (source, name, at)
        for source, offsets in batch.offsets.items()
        for name, at in sorted(offsets.streams.items())
    ]


def _planned_at(batch: PlannedBatch) -> str | None:
    milliseconds = batch.session.get("batchTimestampMs")
    if not isinstance(milliseconds, int) or not 0 <= milliseconds < 1 << 47:
        return None
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


# --- diff -------------------------------------------------------------------------------------


@command.command()
@click.argument("checkpoint")
@click.argument("other", required=False)
@click.option(
    "--from", "start", type=click.IntRange(0), help="A batch; the one before, if left out."
)
@click.option("--to", "stop", type=click.IntRange(0), help="A batch; the newest, if left out.")
@reports
def diff(
    output: CommandOutput, checkpoint: str, other: str | None, start: int | None, stop: int | None
) -> None:
    """What moved between two batches of CHECKPOINT, or from CHECKPOINT to the newest of OTHER.

    OTHER may be what a reset has kept (CHECKPOINT/before-reset/...).
    """
    here = Checkpoint(checkpoint)
    there = Checkpoint(other) if other else here
    last = _batch(there, stop, 1)
    first = _batch(here, start, 1 if other else 2)
    rows = compare(first, last)
    output.value({"from": first.number, "to": last.number, "streams": rows})
    output.say(f"batch {first.number} to batch {last.number}")
    output.table(["source", "stream", "from", "to", "sequences", "note"], rows)


def _batch(checkpoint: Checkpoint, number: int | None, from_end: int) -> PlannedBatch:
    planned = checkpoint.planned()
    if number is None:
        if len(planned) < from_end:
            raise CheckpointError(
                f"'{checkpoint.folder}' remembers {'one batch' if planned else 'no batch'}; there "
                "is nothing to compare.",
                "Give another checkpoint as second argument, or wait for the next batch.",
            )
        number = planned[-from_end]
    return checkpoint.batch(number)


def compare(first: PlannedBatch, last: PlannedBatch) -> list[dict[str, object]]:
    """What lies between the ends of two batches, by source and stream."""
    before = {(source, name): at for source, name, at in _positions(first)}
    after = {(source, name): at for source, name, at in _positions(last)}
    rows: list[dict[str, object]] = []
    for source, name in sorted({*before, *after}):
        start, end = before.get((source, name)), after.get((source, name))
        row: dict[str, object] = {
            "source": source,
            "stream": name,
            "from": start.next if start else None,
            "to": end.next if end else None,
            "sequences": None,
            "note": None,
        }
        if start is None or end is None:
            row["note"] = "new" if start is None else "gone"
        elif start.created != end.created:
            row["note"] = "the stream was made anew"
        else:
            row["sequences"] = end.next - start.next
        rows.append(row)
    return rows


# --- reset ------------------------------------------------------------------------------------


@command.command("reset")
@click.argument("checkpoint")
@click.option(
    "--to",
    "wanted",
    multiple=True,
    required=True,
    metavar="[STREAM=]POSITION",
    help="earliest, latest, a sequence, or a time; for all streams, or for one. Repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Say what would change, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@takes_options
@reports
def reset_command(
    output: CommandOutput,
    checkpoint: str,
    wanted: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    option: tuple[str, ...],
    options_file: Path | None,
) -> None:
    """Give the query of CHECKPOINT, which must not run, other positions.

    They are looked up at the servers, so give -o servers=... and whatever else the connection
    needs. Nothing is overwritten before both logs are copied to CHECKPOINT/before-reset. A query is
    refused if it has state, left a batch unfinished, or has written its logs in the last 30
    seconds; or if the ledger of these servers says that it wrote in the last 30 seconds, or is
    ahead of the checkpoint. An idle query that runs elsewhere is not noticed; Spark ends it with an
    error at its next batch.
    """
    found = Checkpoint(checkpoint)
    control = Control(this_host(), connection_of(read_options(option, options_file)))
    last = check_resettable(found)
    _check_quiet(found, control)
    ends, rows = _new_ends(last, wanted, control)
    columns = ["source", "stream", "from", "to", "sequences", "note"]
    output.say("positions:" if dry_run else "new positions:")
    output.table(columns, rows)
    if dry_run:
        output.value({"batch": None, "backup": None, "streams": rows})
        return
    if not yes:
        _ask(output)
    _check_quiet(found, control)
    backup = back_up(found, f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}", SyncedDisk())
    number = reset(found, ends, SyncedDisk())
    output.value({"batch": number, "backup": str(backup), "streams": rows})
    output.say(f"the query goes on there with batch {number + 1}; as it was: {backup}")


def _ask(output: CommandOutput) -> None:
    if output.as_json:
        raise click.UsageError("with --json nothing is asked; add --yes, or --dry-run")
    click.confirm(
        "What is read again is written again, and what is passed over never is. Go on?", abort=True
    )


def _check_quiet(checkpoint: Checkpoint, control: Control) -> None:
    """Refuse if anything says that the query is running; see the help text of the command."""
    _check_age(checkpoint, checkpoint.changed_ns(), "planned or finished a batch")
    query, committed = checkpoint.query_id, checkpoint.committed()[-1]
    for one in standings(run(read_entries(control, LEDGER_BUCKET))):
        if one.kind != ScopeKind.QUERY or one.name != query:
            continue
        _check_age(checkpoint, one.written_us * 1000, f"wrote to stream '{one.stream}'")
        if one.version is not None and one.version > committed:
            raise CheckpointError(
                f"the query of '{checkpoint.folder}' has written batch {one.version} to stream "
                f"'{one.stream}', as the ledger says, but the checkpoint ends with {committed}: it "
                "is a copy, or was rolled back.",
                "Bring back the newer checkpoint and reset that one; from this one the query "
                "would be stopped by the ledger.",
            )


def _check_age(checkpoint: Checkpoint, since_ns: int, what: str) -> None:
    age_s = (time.time_ns() - since_ns) / 1e9
    if age_s < _ACTIVE_S:
        raise CheckpointError(
            f"the query of '{checkpoint.folder}' {what} {max(0.0, age_s):.0f} s ago, so it may be "
            "running.",
            f"Stop it, and try again in {_ACTIVE_S:g} s.",
        )


def _new_ends(
    last: PlannedBatch, wanted: tuple[str, ...], control: Control
) -> tuple[dict[int, Offsets], list[dict[str, object]]]:
    """The new offsets of the sources that change, and what they mean, by stream."""
    names = sorted({name for _, name, _ in _positions(last)})
    positions = parse_positions(wanted, names)
    moved: dict[str, StreamOffset] = {}
    notes: dict[str, str] = {}
    for name, position in positions.items():
        state: StreamState = run(control.stream_state(name))
        moved[name] = StreamOffset(state.created, run(_next(control, state, position)))
        if state.retention != "limits":
            notes[name] = f"{state.retention}: with commitMode what lies before is removed"
    ends = {
        source: replace(
            offsets, streams={name: moved.get(name, at) for name, at in offsets.streams.items()}
        )
        for source, offsets in last.offsets.items()
        if any(name in moved for name in offsets.streams)
    }
    rows = compare(last, last.ending_at(last.number + 1, ends))
    for row in rows:
        row["note"] = row["note"] or notes.get(str(row["stream"]))
    return ends, rows


def _next(control: Control, state: StreamState, position: WantedPosition) -> Any:
    return (yield from position.in_stream(control, state))
