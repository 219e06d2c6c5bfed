"""Parsers and decoders under a fuzzer that looks at what the code does (libFuzzer).

    python -m tests.fuzz.parsers --minutes 60
    python -m tests.fuzz.parsers --target frames --inputs 1000000
    python -m tests.fuzz.parsers --compiled --target kernel-frames --minutes 5

Each target has a process of its own, as many at once as there are processors; inputs that led
somewhere new are kept in a folder from one run to the next. What tripped stays there as
`crash-...`, and is told.

There are two ways. The one looks into Python (atheris), with the kernels in pure Python. With
`--compiled` the kernels are compiled by clang, counted and checked: what goes beyond its memory or
has no meaning in C trips, and each kernel is a target of its own, compared with its pure twin now
and then. It runs ten times as many inputs or more, guided by what the kernels do and by the lines
of Python.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tests.fuzz.parsers.compiled.build import BuildError, build, built_in

if TYPE_CHECKING:
    from tests.fuzz.parsers.targets import Target


def _fuzz(name: str, corpus: Path, seconds: int, inputs: int) -> None:
    """Fuzz one target in this process; never returns."""
    import atheris  # here: only this process is looked into

    with atheris.instrument_imports(include=["jetstream_server"]):
        from tests.fuzz.parsers.targets import TARGETS, trust_all
    trust_all()
    target = TARGETS[name]
    atheris.Setup([sys.argv[0], *_flags(target, corpus, seconds, inputs)], target.run)
    atheris.Fuzz()


# Where sanitizers, libFuzzer and Python begin to say what happened.
_TRIPPED = re.compile(r"^(.*runtime error:|==\d+==\s*ERROR|Traceback)", re.M)


def _flags(target: Target, corpus: Path, seconds: int, inputs: int) -> list[str]:
    """Write the seeds of a target; return what libFuzzer is told."""
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    flags = [f"-max_len={target.longest}", f"-artifact_prefix={corpus}/", "-print_final_stats=1"]
    flags += [f"-max_total_time={seconds}"] if seconds else []
    flags += [f"-runs={inputs}"] if inputs else []
    # What one input may take, beside much else on the machine.
    return [*flags, "-timeout=20", str(corpus)]


def _fuzz_compiled(name: str, corpus: Path, seconds: int, inputs: int) -> NoReturn:
    """Have this process become one that fuzzes a target with compiled kernels."""
    from tests.fuzz.parsers import kernels, targets

    folder = built_in(corpus.parent)
    environment = os.environ | {
        "FUZZ_TARGET": name,
        "FUZZ_KERNELS": str(folder),
        "FUZZ_PYTHON": sys.executable,
        "PYTHONHASHSEED": "0",
        # Python keeps what it will need again. Where memory came from is asked of the one input
        # that trips, with `malloc_context_size=30`.
        "ASAN_OPTIONS": "detect_leaks=0:malloc_context_size=0:quarantine_size_mb=1:"
        "max_malloc_fill_size=0:allocator_may_return_null=1:" + os.environ.get("ASAN_OPTIONS", ""),
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    flags = _flags((kernels.TARGETS | targets.TARGETS)[name], corpus, seconds, inputs)
    driver = "driver" if name in kernels.TARGETS else "driver-of-lines"
    # An input with which memory was kept would be run, and counted, twice.
    os.execve(folder / driver, [driver, "-detect_leaks=0", *flags], environment)


def _run(name: str, folder: Path, seconds: int, inputs: int, *, compiled: bool) -> tuple[int, bool]:
    """Fuzz one target in a process of its own; return how many inputs, and whether all is well."""
    corpus = folder / name
    corpus.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.fuzz.parsers", "--target", name, "--here"]
    command += ["--corpus", str(folder), "--seconds", str(seconds), "--inputs", str(inputs)]
    command += ["--compiled"] if compiled else []
    # To atheris kernels in C say nothing.
    environment = os.environ | {"JETSTREAM_PURE": "0" if compiled else "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", env=environment
    )
    found = re.search(r"number_of_executed_units:\s*(\d+)", done.stderr)
    if done.returncode:
        tripped = _TRIPPED.search(done.stderr)
        told = done.stderr[tripped.start() :][:6000] if tripped else done.stderr[-3000:]
        print(f"{name}:\n{done.stdout[-3000:]}\n{told}", flush=True)
    return int(found[1]) if found else 0, done.returncode == 0


def _names(*, compiled: bool) -> list[str]:
    from tests.fuzz.parsers import kernels, targets  # not where something else is to be looked into

    return [*kernels.TARGETS, *targets.TARGETS] if compiled else [*targets.TARGETS]


def main() -> int:
    """Run; return the number of targets that tripped."""
    parser = argparse.ArgumentParser(prog="tests.fuzz.parsers")
    parser.add_argument("--target", default="", help="only this one")
    parser.add_argument("--minutes", type=float, default=10, help="of all targets together")
    parser.add_argument("--seconds", type=int, default=0, help="of each")
    parser.add_argument("--inputs", type=int, default=0, help="to each, instead")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at once")
    parser.add_argument("--corpus", type=Path, default=Path(".fuzz"))
    parser.add_argument("--compiled", action="store_true", help="with kernels in C; takes clang")
    parser.add_argument("--here", action="store_true", help="in this process")
    options = parser.parse_args()
    if options.here:
        fuzz = _fuzz_compiled if options.compiled else _fuzz
        fuzz(options.target, options.corpus / options.target, options.seconds, options.inputs)
    if options.compiled:
        try:
            build(options.corpus)
        except BuildError as error:
            parser.error(str(error))
    names = [options.target] if options.target else _names(compiled=options.compiled)
    jobs = min(options.jobs, len(names))
    each = 60 * options.minutes * jobs / len(names)
    seconds = 0 if options.inputs else options.seconds or int(each)

    def run(name: str) -> tuple[int, bool]:
        began = time.monotonic()
        inputs, is_well = _run(
            name, options.corpus, seconds, options.inputs, compiled=options.compiled
        )
        took = time.monotonic() - began
        told = f"{name}: {inputs} inputs in {took:.0f} s, {inputs / took:.0f} a second"
        print(told + ("" if is_well else ", BAD"), flush=True)
        return inputs, is_well

    with ThreadPoolExecutor(jobs) as pool:
        runs = list(pool.map(run, names))
    total, bad = sum(inputs for inputs, _ in runs), sum(not is_well for _, is_well in runs)
    print(f"{total} inputs in all, {bad} targets tripped")
    return bad


if __name__ == "__main__":
    sys.exit(main())
