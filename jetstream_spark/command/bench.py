"""`jetstream-spark bench`: how quick the connector is here, in about a minute."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

import jetstream_spark
from jetstream_spark.client.blocking import this_host
from jetstream_spark.client.control import Control
from jetstream_spark.command.bench_rows import BenchRows, Load
from jetstream_spark.command.bench_streams import BenchError, BenchStreams
from jetstream_spark.command.given_options import (
    connection_of,
    connection_part,
    read_options,
    takes_options,
)
from jetstream_spark.command.output import CommandOutput, reports
from jetstream_spark.embedded import JetStreamServer

F = TypeVar("F", bound=Callable[..., Any])

_COLUMNS = ("query", "rows", "seconds", "rows_per_s", "mb_per_s", "slowest", "quickest")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
# Unmeasured before the rest: what the JVM compiles and the workers import does not count.
_WARM_UP_ROWS = 20_000
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_INTERRUPTED = 130


def _number(flag: str, least: int, most: int, default: int, text: str) -> Callable[[F], F]:
    """Return an option that takes a number between two bounds."""
    bounds = click.IntRange(least, most)
    return click.option(flag, type=bounds, default=default, show_default=True, help=text)


@click.command()
@click.option(
    "--servers", metavar="URL,...", help="Where to measure; a bundled server if left out."
)
@_number("--rows", 1, 100_000_000, 500_000, "Messages of one query.")
@_number("--size", 0, 1_000_000, 128, "Bytes of a message.")
@_number("--rounds", 1, 100, 3, "How often each query is measured; the median counts.")
@_number("--partitions", 1, 1000, 2, "Tasks of one query.")
@click.option(
    "--name",
    default="jetstream-spark-bench",
    show_default=True,
    help="What the names of its streams begin with.",
)
@_number("--replicas", 1, 5, 1, "Of its streams.")
@click.option("--master", default="local[*]", show_default=True, help="The Spark to measure.")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of that Spark.")
@takes_options
@reports
def command(
    output: CommandOutput,
    servers: str | None,
    rows: int,
    size: int,
    rounds: int,
    partitions: int,
    name: str,
    replicas: int,
    master: str,
    conf: tuple[str, ...],
    option: tuple[str, ...],
    options_file: Path | None,
) -> None:
    """Measure batch writes, batch reads, streaming reads and copies, in about a minute.

    The streams NAME-source, NAME-target and KV_NAME-ledger are made for it and removed at the end,
    also when it is interrupted; if one of these names is taken, nothing is measured. Without
    --servers a bundled server is started in a temporary folder.
    """  # fmt: skip
    if not _NAME.fullmatch(name):
        raise click.UsageError("--name takes letters, digits, _ and -, at most 64")
    options = read_options(option, options_file)
    if servers is not None:
        options["servers"] = servers
    load = Load(rows, size, partitions)
    try:
        with _ended_by_signals(), contextlib.ExitStack() as stack:
            if is_bundled := "servers" not in {key.lower() for key in options}:
                options["servers"] = stack.enter_context(JetStreamServer()).url
            control = Control(this_host(), connection_of(options), "bench")
            streams = BenchStreams(control, name, secrets.token_hex(8), replicas)
            if not is_bundled:  # the bundled one's go with its folder
                stack.callback(_remove, streams)
            streams.create()
            session = stack.enter_context(_spark(master, conf))
            progress = stack.enter_context(_progress(output))
            bench = BenchRows(session, streams, connection_part(options))
            found = _measure(bench, load, rounds, progress)
            versions = {
                "connector": jetstream_spark.__version__,
                "kernels": jetstream_spark.__version_info__["kernels"],
                "spark": str(session.version),
            }
    except KeyboardInterrupt:
        output.value({"error": {"condition": "BENCH", "what": "interrupted", "remedy": ""}})
        click.echo("interrupted", err=True)
        raise SystemExit(_INTERRUPTED) from None
    shown = [_row(query, seconds, load) for query, seconds in found.items()]
    where = "bundled" if is_bundled else ", ".join(map(str, control.options.servers))
    output.value({"servers": where, **versions, "results": shown})
    output.table(_COLUMNS, shown)
    said = f"{partitions} partitions of messages of {size:,} bytes; the median of {rounds}"
    output.say(f"{said}, and in rows a second the slowest and the quickest")


def _measure(
    bench: BenchRows, load: Load, rounds: int, progress: Progress
) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    task = progress.add_task("warming up", total=rounds)
    for _ in bench.measure(Load(min(load.rows, _WARM_UP_ROWS), load.size, load.partitions)):
        pass
    for number in range(1, rounds + 1):
        progress.update(task, description=f"round {number} of {rounds}")
        for query, seconds in bench.measure(load):
            found.setdefault(query, []).append(seconds)
        progress.advance(task)
    return found


def _row(query: str, seconds: Sequence[float], load: Load) -> dict[str, object]:
    """A query's line: the median, and the ends of what was seen."""
    median = statistics.median(seconds)
    return {
        "query": query,
        "rows": load.rows,
        "size": load.size,
        "partitions": load.partitions,
        "seconds": round(median, 3),
        "rows_per_s": round(load.rows / median),
        "mb_per_s": round(load.rows * load.size / median / 1e6, 1),
        "slowest": round(load.rows / max(seconds)),
        "quickest": round(load.rows / min(seconds)),
    }


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Have a signal to end unwind what was begun, once; the second one does not stop that."""

    def end(number: int, frame: FrameType | None) -> None:
        for one in _SIGNALS:
            signal.signal(one, signal.SIG_IGN)
        raise KeyboardInterrupt

    kept = {one: signal.signal(one, end) for one in _SIGNALS}
    try:
        yield
    finally:
        for one, handler in kept.items():
            signal.signal(one, handler)


@contextlib.contextmanager
def _spark(master: str, conf: Sequence[str]) -> Iterator[Any]:
    """A session, the one that runs already or one that ends with the block.

    Raises:
        BenchError: Spark does not start.
    """
    from pyspark.sql import SparkSession

    if (running := SparkSession.getActiveSession()) is not None:
        yield running
        return
    if master.startswith("local"):
        # Spark would look for a `python3` on the PATH, which need not be this one.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("jetstream-spark bench")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    for pair in conf:
        key, _, value = pair.partition("=")
        builder = builder.config(key, value)
    try:
        session = _started(builder)
    except Exception as error:  # whatever Spark raises; it has many errors of its own
        said = " ".join(str(error).strip().splitlines()[:3])[:500]
        raise BenchError(
            f"Spark does not start: {said}", "`jetstream-spark doctor` says what it lacks."
        ) from None
    try:
        session.sparkContext.setLogLevel("ERROR")
        yield session
    finally:
        session.stop()


def _started(builder: Any) -> Any:
    """Start a session. A signal to end is heard when that is done: a JVM whose beginning is cut off
    would stay for ever. The second one is heard at once.
    """
    heard: list[int] = []

    def wait(number: int, frame: FrameType | None) -> None:
        if heard:
            raise KeyboardInterrupt
        heard.append(number)
        click.echo("interrupted; it ends as soon as Spark has started", err=True)

    handlers = {one: signal.signal(one, wait) for one in _SIGNALS}
    try:
        session = builder.getOrCreate()
    finally:
        for one, handler in handlers.items():  # Spark puts one of its own there as well
            signal.signal(one, handler)
    if heard:
        session.stop()
        signal.raise_signal(heard[0])
    return session


def _remove(streams: BenchStreams) -> None:
    """Remove the streams; those that are left are named beside whatever else ended the command."""
    for one in _SIGNALS:
        signal.signal(one, signal.SIG_IGN)
    try:
        streams.remove()
    except BenchError as error:
        click.echo(str(error), err=True)


def _progress(output: CommandOutput) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        disable=output.as_json,
    )
