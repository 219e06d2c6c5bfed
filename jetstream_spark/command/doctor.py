"""`jetstream-spark doctor`: what keeps a job from running, found without running it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from jetstream_spark import validate
from jetstream_spark.client.blocking import run, this_host
from jetstream_spark.client.control import Control, StreamState
from jetstream_spark.command import worker_facts
from jetstream_spark.command.environment import of_driver, of_java, of_lookup, of_worker
from jetstream_spark.command.finding import FAIL, OK, WARN, Finding
from jetstream_spark.command.given_options import (
    connection_of,
    connection_part,
    read_options,
    takes_options,
)
from jetstream_spark.command.needed_subjects import Need, needs_of_read, needs_of_write
from jetstream_spark.command.output import CommandOutput, reports
from jetstream_spark.command.server_look import look_at_clock, look_at_rights, look_at_servers
from jetstream_spark.errors import ConnectorError, OptionsError
from jetstream_spark.options.connection_options import ConnectionOptions
from jetstream_spark.options.format_options import SinkOptions, SourceOptions
from jetstream_spark.spark_api import HAS_ADMISSION_CONTROL, HAS_STREAM_ARROW_WRITER
from jetstream_spark.validation import SIDES

_JAVA_S = 20
_PYTHON_S = 60
# Spark lists the folders of packages, and takes those with this beginning for formats.
_LOOKUP = """
import importlib.util, pkgutil, sys
missing = [name for name in ("pyspark", "jetstream_spark") if not importlib.util.find_spec(name)]
if not missing and "pyspark_jetstream" not in [each.name for each in pkgutil.iter_modules()]:
    missing = ["pyspark_jetstream that it would find"]
print(sys.executable, *missing, sep="\\n")
"""


@click.command()
@click.argument("side", type=click.Choice(SIDES), required=False)
@click.option("--master", help="Ask workers too, of this Spark: local[2], spark://host:7077, ...")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of that Spark.")
@takes_options
@reports
def command(
    output: CommandOutput,
    side: str | None,
    master: str | None,
    conf: tuple[str, ...],
    option: tuple[str, ...],
    options_file: Path | None,
) -> None:
    """Look for what keeps a job from running.

    SIDE says what the options are for. Without it only the machine and the servers are checked.
    Nothing is published, and no request changes a stream. Exits with 1 if anything fails.
    """
    options = read_options(option, options_file)
    found: list[Finding] = []
    for finding in _examine(side, options, master, conf):
        found.append(finding)
        _say(output, finding)
    counts = Counter(one.status for one in found)
    output.value(
        {
            "ok": not counts[FAIL],
            "findings": [
                {"status": f.status, "check": f.check, "what": f.what, "remedy": f.remedy}
                for f in found
            ],
        }
    )
    output.say(f"{counts[OK]} well, {counts[WARN]} could be better, {counts[FAIL]} failed")
    raise SystemExit(1 if counts[FAIL] else 0)


def _say(output: CommandOutput, finding: Finding) -> None:
    output.mark(finding.status, f"{finding.check}: {finding.what}")
    if finding.remedy:
        output.say(f"       {finding.remedy}")


def _examine(
    side: str | None, options: dict[str, str], master: str | None, conf: tuple[str, ...]
) -> Iterator[Finding]:
    yield of_java(_java())
    here = worker_facts.facts({})
    yield from of_driver(here, _missing())
    yield _lookup()
    connection: ConnectionOptions | None = None
    if options:
        try:
            connection = connection_of(options)
        except OptionsError as error:
            yield from (
                Finding(FAIL, "options", problem, "Correct it.") for problem in error.problems
            )
    if connection is not None:
        servers = list(look_at_servers(connection))
        yield from servers
        if side is not None and any(f.status == OK and "server" in f.check for f in servers):
            yield from _of_job(side, options, connection)
    if master is not None:
        yield from _workers(here, master, conf, connection_part(options))


def _missing() -> list[str]:
    missing = [] if HAS_STREAM_ARROW_WRITER else ["streaming writes"]
    return missing + ([] if HAS_ADMISSION_CONTROL else ["limits of a micro-batch, availableNow"])


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    candidates = [str(Path(home) / "bin" / "java")] if home else []
    program = next((one for one in map(shutil.which, [*candidates, "java"]) if one), None)
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=_JAVA_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stderr + done.stdout


def _lookup() -> Finding:
    """Ask the Python that Spark would start, if it were started from here."""
    named = filter(None, map(os.environ.get, ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")))
    python = next(named, "python3")
    try:
        done = subprocess.run(
            [python, "-c", _LOOKUP],
            capture_output=True,
            text=True,
            timeout=_PYTHON_S,
            check=False,
            errors="replace",
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return of_lookup(python, (), str(error))
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        return of_lookup(python, (), last)
    return of_lookup(python, done.stdout.splitlines(), "")


# --- the job ----------------------------------------------------------------------------------


def _of_job(side: str, options: dict[str, str], connection: ConnectionOptions) -> Iterator[Finding]:
    control = Control(this_host(), connection, "doctor")
    try:
        needs, streams = _needs(side, options, control)
    except OptionsError as error:
        yield from (Finding(FAIL, "options", problem, "Correct it.") for problem in error.problems)
        return
    except ConnectorError as error:
        yield Finding(FAIL, side, f"[{error.condition}] {error.what}", error.remedy)
        return
    rights = run(look_at_rights(control, needs))
    yield from rights
    for name in streams[:1]:
        yield from run(look_at_clock(control, name))
    impatient = {"requestTimeout": "5s", "outageTimeout": "5s"} | options
    problems = validate(impatient, side, connect=True)
    for problem in problems:
        yield Finding(FAIL, side, problem, "docs/options.md says what each option does.")
    if not problems:
        good = all(finding.status == OK for finding in rights)
        # Of what the user may, nothing more is claimed than was found.
        what = "the job can be run" if good else "its options and streams are right"
        yield Finding(OK, side, f"{what}, on {', '.join(streams) or 'these options'}")


def _needs(side: str, options: dict[str, str], control: Control) -> tuple[list[Need], list[str]]:
    """What the job asks for, and its streams."""
    if side in ("read", "readStream"):
        source = SourceOptions.parse(options)
        names = list(source.streams)
        if source.stream_pattern:
            names = [one for one in run(control.all_stream_names()) if source.is_about(one)]
        states: dict[str, StreamState] = {name: run(control.stream_state(name)) for name in names}
        return needs_of_read(source, states, side == "readStream"), names
    sink = SinkOptions.parse(options)
    state = run(control.stream_state(sink.stream)) if sink.stream else None
    return needs_of_write(sink, state), [sink.stream] if sink.stream else []


# --- workers ----------------------------------------------------------------------------------


def _workers(
    here: dict[str, Any], master: str, conf: tuple[str, ...], options: dict[str, str]
) -> Iterator[Finding]:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("jetstream-spark doctor")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    for pair in conf:
        key, _, value = pair.partition("=")
        builder = builder.config(key, value)
    # By value, so that it can report that the connector is missing.
    pickling: Any = import_module("pyspark.cloudpickle")
    pickling.register_pickle_by_value(worker_facts)
    try:
        session = builder.getOrCreate()
        count = max(2, min(64, session.sparkContext.defaultParallelism))
        frame = session.range(0, count, 1, count)
        rows = frame.mapInArrow(worker_facts.FactsLook(options), "facts string").collect()
    except Exception as error:  # whatever Spark raises; it has many errors of its own
        said = str(error).strip().splitlines()[:3]
        remedy = "Look into Spark's log; --master and --conf are those of the job."
        yield Finding(FAIL, "workers", f"Spark could not be asked: {' '.join(said)[:500]}", remedy)
        return
    finally:
        pickling.unregister_pickle_by_value(worker_facts)
    seen: set[tuple[str, str]] = set()
    for row in rows:
        told = json.loads(row["facts"])
        for finding in of_worker(here, told):
            said_already = (finding.check, finding.what)
            if said_already not in seen:  # many workers of one machine say the same
                seen.add(said_already)
                yield finding
