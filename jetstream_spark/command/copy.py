"""`jetstream-spark copy`: a stream to Parquet files, to another stream, and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from jetstream_spark.command.copy_files import ParquetDestination, ParquetOrigin
from jetstream_spark.command.copy_plan import CopyError, CopyPlan, CopySource, CopyTarget, plan_of
from jetstream_spark.command.copy_streams import StreamDestination, StreamOrigin
from jetstream_spark.command.given_options import connection_part, read_options
from jetstream_spark.command.output import CommandOutput, reports
from jetstream_spark.errors import PublishRefusedError

_STREAM = "stream:"
_INTERRUPTED = 130
_OF_ANOTHER_STREAM = 10060
_RENAMING = (
    "The target does not collect this subject. Have it collect the source's subjects, or rename "
    "them: --rename OLD=NEW, as in --rename orders=copies."
)
_TOKENS = re.compile(r"[^\s.*>\\]+(\.[^\s.*>\\]+)*")


@click.command()
@click.argument("source")
@click.argument("target")
@click.option("--from", "from_", multiple=True, metavar="KEY=VALUE", help="An option of the read.")
@click.option("--to", multiple=True, metavar="KEY=VALUE", help="An option of the write.")
@click.option("--name", help="Of the copy, to go on with it; source and target, if left out.")
@click.option("--rename", metavar="OLD=NEW", help="Put NEW in the place of OLD before subjects.")
@click.option("--chunk", type=click.IntRange(1, 10_000_000), default=100_000, show_default=True,
              help="Sequences that are copied as one, to Parquet: in one file.")  # fmt: skip
@reports
def command(
    output: CommandOutput,
    source: str,
    target: str,
    from_: tuple[str, ...],
    to: tuple[str, ...],
    name: str | None,
    rename: str | None,
    chunk: int,
) -> None:
    """Copy SOURCE to TARGET, each of them stream:NAME or a folder of Parquet files.

    What the source holds when the copy begins is copied, once: called again after it was cut off,
    it goes on. At the end rows are counted at both ends; it exits with 1 if any is missing.
    Options, as in Spark: --from servers=nats://here:4222 --to servers=nats://there:4222.
    """
    here, there = read_options(from_, None), read_options(to, None)
    _check_apart((source, here), (target, there))
    origin = _origin(source, here, chunk)
    called = name or f"{source} to {target}"
    destination = _destination(target, there, called, _renaming(rename))
    try:
        plan = plan_of(origin, destination, source)
        with _progress(output) as progress:
            # Whole paths would leave no room for the bar and its figures.
            names = " -> ".join(Path(place).name for place in (source, target))
            task = progress.add_task(names, total=plan.rows)
            copy_all(plan, origin, destination, lambda rows: progress.advance(task, rows))
        found = destination.count(plan.begun)
    except PublishRefusedError as error:
        if error.err_code != _OF_ANOTHER_STREAM:
            raise
        raise CopyError(error.what, _RENAMING) from None
    except KeyboardInterrupt:
        output.error(CopyError("interrupted.", "Give the command again, and the copy goes on."))
        raise SystemExit(_INTERRUPTED) from None
    output.value({"source": source, "target": target, "rows": found, "expected": plan.rows})
    check_count(plan, found, target)
    output.say(f"{found:,} rows are there" + ("" if plan.rows is None else ", all of them"))


def _check_apart(source: tuple[str, dict[str, str]], target: tuple[str, dict[str, str]]) -> None:
    """Make sure that a stream is not copied into itself, as far as options can tell."""
    (name, here), (other, there) = source, target
    if (
        name == other
        and name.startswith(_STREAM)
        and connection_part(here) == connection_part(there)
    ):
        raise CopyError(
            f"'{name}' is the source and the target: all that it holds would be in it twice.",
            "Name another stream, or give --to the servers of the other one.",
        )


def _origin(place: str, options: dict[str, str], chunk: int) -> CopySource:
    if place.startswith(_STREAM):
        return StreamOrigin({**options, "stream": place.removeprefix(_STREAM)}, chunk)
    return ParquetOrigin(Path(place))


def _destination(
    place: str, options: dict[str, str], name: str, renaming: tuple[str, str] | None
) -> CopyTarget:
    if place.startswith(_STREAM):
        stream = place.removeprefix(_STREAM)
        return StreamDestination({**options, "stream": stream}, name, renaming)
    if renaming is not None:
        raise click.UsageError("--rename is for copies into a stream")
    return ParquetDestination(Path(place))


def _renaming(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    old, _, new = text.partition("=")
    if not (_TOKENS.fullmatch(old) and _TOKENS.fullmatch(new)):
        raise click.UsageError("--rename has the form OLD=NEW, as in --rename orders=copies")
    return old, new


def _progress(output: CommandOutput) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=output.as_json,
    )


def copy_all(
    plan: CopyPlan, source: CopySource, target: CopyTarget, advance: Callable[[int], object]
) -> None:
    """Copy the chunks that are still missing, in order.

    Args:
        advance: told of rows as they are read; first of those that were copied before, by the
            share of their chunks.
    """
    done = target.done()
    if done and plan.rows is not None:
        advance(plan.rows * min(done, plan.chunks) // plan.chunks)
    for chunk in range(done, plan.chunks):
        target.write(chunk, _told(source.read(plan.source, chunk), advance))


def _told(
    batches: Iterator[pa.RecordBatch], advance: Callable[[int], object]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch
        advance(batch.num_rows)


def check_count(plan: CopyPlan, found: int | None, target: str) -> None:
    """Make sure that as many rows arrived as there were to copy.

    Raises:
        CopyError: they are fewer, or more.
    """
    if plan.rows is None or found is None or found == plan.rows:
        return
    if found < plan.rows:
        raise CopyError(
            f"{plan.rows - found} of {plan.rows} rows are not in '{target}': they were removed "
            "from the source while it was copied, or are duplicates by the ids in their headers.",
            "Compare first_seq of the source with the sequences that were copied; to copy what is "
            "there now, begin another copy under another --name.",
        )
    raise CopyError(
        f"'{target}' got {found} rows, and {plan.rows} were copied: somebody else writes there, so "
        "that they cannot be counted.",
        "The copy is done; count what came from it by its subjects.",
    )
