"""`python -m benchmarks.stall`: what one client sends, and how long another one waits for it.

python -m benchmarks.stall                     every input, both servers
python -m benchmarks.stall 'a stream*'         inputs by name or pattern (--list shows the names)
python -m benchmarks.stall --markdown          the table as Markdown
python -m benchmarks.stall --longest 60        seconds after which an input is given up on
python -m benchmarks.stall --sign-ins          how long clients wait that come meanwhile, in runs of
                                               their own, as signing in costs the server something
python -m benchmarks.stall --again 2           an input that keeps others waiting for over 50 ms
                                               twice more, a line each: the machine takes processors
                                               away now and then, and the median counts
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.process_usage import usage
from benchmarks.servers import KINDS, ServerKind, ServerNotStartedError, running
from benchmarks.stall.changes import CHANGES
from benchmarks.stall.consequences import CONSEQUENCES
from benchmarks.stall.copies import COPIES
from benchmarks.stall.crowds import CROWDS
from benchmarks.stall.departures import DEPARTURES
from benchmarks.stall.filters import FILTERS
from benchmarks.stall.first_questions import FIRST_QUESTIONS
from benchmarks.stall.growth import GROWTH
from benchmarks.stall.inputs import INPUTS, Input
from benchmarks.stall.long_headers import LONG_HEADERS
from benchmarks.stall.long_lists import LONG_LISTS
from benchmarks.stall.many_clients import MANY_CLIENTS
from benchmarks.stall.pace import pace_ms
from benchmarks.stall.packed import PACKED
from benchmarks.stall.permissions import PERMISSIONS
from benchmarks.stall.push_consumers import PUSH_CONSUMERS
from benchmarks.stall.stolen import stolen_ms
from benchmarks.stall.timers import TIMERS
from benchmarks.stall.unread import UNREAD
from benchmarks.stall.witness import Waits, Witness
from benchmarks.stall.wrapped import WRAPPED
from benchmarks.wire import LoadError

ALL = [
    *INPUTS,
    *CROWDS,
    *CONSEQUENCES,
    *WRAPPED,
    *DEPARTURES,
    *COPIES,
    *CHANGES,
    *TIMERS,
    *FILTERS,
    *PERMISSIONS,
    *PACKED,
    *LONG_HEADERS,
    *LONG_LISTS,
    *FIRST_QUESTIONS,
    *GROWTH,
    *MANY_CLIENTS,
    *UNREAD,
    *PUSH_CONSUMERS,
]
SHARES = (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0))
_MACHINE = ("stolen, ms", "witness late, ms")
_SETTLE_S = 0.3  # before the input, and behind it
LONGEST_S = 180.0
GOAL_MS = 50.0  # nobody is to wait longer, at the 99.9th percentile


@dataclass(slots=True)
class Outcome:
    """What one input did to one server.

    Attributes:
        waits: of the witness.
        elapsed_s: until the input was answered.
        cpu_s: that the server took meanwhile.
        pace_ms: what a fixed piece of work took, before or after it, whichever was more.
        stolen_ms: that the machine's host took from all its processors meanwhile.
        failure: why there is nothing to show, empty when there is.
    """

    waits: Waits
    elapsed_s: float = 0.0
    cpu_s: float = 0.0
    pace_ms: float = 0.0
    stolen_ms: float = 0.0
    failure: str = ""


@contextlib.contextmanager
def _within(seconds: float) -> Iterator[None]:
    def late(*_: object) -> None:
        raise TimeoutError(f"it was not over within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def measure(
    kind: ServerKind, each: Input, *, signs_in: bool = False, longest_s: float = LONGEST_S
) -> Outcome:
    """Send one input to a new server, while a witness asks, or clients sign in.

    Args:
        longest_s: after which the input, with what it needs to be there, is given up on.
    """
    outcome = Outcome(Waits(), pace_ms=pace_ms())
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(_within(longest_s))
            config = each.config
            if callable(config):
                config = config(Path(stack.enter_context(tempfile.TemporaryDirectory())))
            target = stack.enter_context(running(kind, config))
            each.prepare(target.port)
            with Witness(target.port, dict(each.credentials), signs_in=signs_in) as witness:
                witness.begin()
                time.sleep(_SETTLE_S)
                before, begun = usage(target.pid).cpu_s, time.monotonic()
                stolen_before_ms = stolen_ms()
                each.act(target.port)
                outcome.elapsed_s = time.monotonic() - begun
                time.sleep(_SETTLE_S)
                outcome.waits = witness.end()
                outcome.cpu_s = usage(target.pid).cpu_s - before
                outcome.stolen_ms = stolen_ms() - stolen_before_ms
    except (LoadError, OSError, ServerNotStartedError) as error:
        outcome.failure = f"{type(error).__name__}: {error}"
    outcome.pace_ms = max(outcome.pace_ms, pace_ms())
    return outcome


def percentile_ms(waits_ns: Sequence[int], share: float) -> float:
    """Return the wait that so large a share of all did not exceed, in milliseconds."""
    ordered = sorted(waits_ns)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] / 1e6


def longest_ms(outcome: Outcome) -> float:
    """Return what an input is judged by: the 99.9th percentile of what the witness waited for."""
    waits = outcome.waits
    kinds = [waits.sign_ins_ns] if waits.sign_ins_ns else [waits.pings_ns, waits.publishes_ns]
    return max(percentile_ms(each, 0.999) for each in kinds)


def row(name: str, kind: ServerKind, outcome: Outcome) -> list[str]:
    """Return the cells of one line."""
    if outcome.failure:
        return [name, kind.name, outcome.failure]
    cells = [name, kind.name]
    waits = outcome.waits
    columns = [waits.sign_ins_ns] if waits.sign_ins_ns else [waits.pings_ns, waits.publishes_ns]
    for waits_ns in columns:
        cells += [f"{percentile_ms(waits_ns, share):.1f}" for _, share in SHARES]
    cells += [f"{outcome.elapsed_s:.2f}", f"{outcome.cpu_s:.2f}", f"{outcome.pace_ms:.0f}"]
    return [*cells, f"{outcome.stolen_ms:.0f}", f"{waits.late_ns / 1e6:.1f}"]


def head(*, signs_in: bool = False) -> list[str]:
    """Return the headings."""
    what = ("sign-in",) if signs_in else ("PING", "publish")
    shares = [f"{each} {name}" for each in what for name, _ in SHARES]
    return ["Input", "Server", *shares, "answered, s", "CPU, s", "pace, ms", *_MACHINE]


def main(arguments: Sequence[str]) -> int:
    """Measure, and print a line for each input and server."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stall", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("inputs", nargs="*", help="names or patterns; all if none")
    parser.add_argument("--kinds", default="ours,genuine", help="servers, of: " + ", ".join(KINDS))
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument("--sign-ins", action="store_true", help="measure clients that sign in")
    parser.add_argument("--longest", type=float, default=LONGEST_S, help="seconds for an input")
    parser.add_argument("--again", type=int, default=0, help="times, for what is above 50 ms")
    parser.add_argument("--list", action="store_true", help="list the inputs and end")
    options = parser.parse_args(arguments)
    patterns = options.inputs or ["*"]
    chosen = [i for i in ALL if any(fnmatch.fnmatch(i.name, pattern) for pattern in patterns)]
    if options.list or not chosen:
        print("\n".join(each.name for each in ALL))
        return 0 if options.list else 1
    kinds = [KINDS[name] for name in options.kinds.split(",")]
    headings = head(signs_in=options.sign_ins)
    _print(headings, markdown=options.markdown)
    if options.markdown:
        print("|" + "---|" * len(headings))
    is_whole = True
    for each in chosen:
        for kind in kinds:
            for outcome in _runs(kind, each, options):
                is_whole &= not outcome.failure
                _print(row(each.name, kind, outcome), markdown=options.markdown)
    return 0 if is_whole else 1


def _runs(kind: ServerKind, each: Input, options: argparse.Namespace) -> Iterator[Outcome]:
    """Measure an input, and so often once more if it was above what is wanted."""
    outcome = measure(kind, each, signs_in=options.sign_ins, longest_s=options.longest)
    yield outcome
    if not outcome.failure and longest_ms(outcome) > GOAL_MS:
        for _ in range(options.again):
            yield measure(kind, each, signs_in=options.sign_ins, longest_s=options.longest)


def _print(cells: list[str], *, markdown: bool) -> None:
    if markdown:
        print("| " + " | ".join(cells) + " |", flush=True)
    else:
        first, second, *rest = cells
        print(f"{first:50} {second:14}" + " ".join(f"{cell:>9}" for cell in rest), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
