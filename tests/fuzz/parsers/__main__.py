"""Parsers and decoders under a fuzzer that looks at what the code does (atheris, libFuzzer).

    python -m tests.fuzz.parsers --minutes 60
    python -m tests.fuzz.parsers --target frames --inputs 1000000

Each target has a process of its own, as many at once as there are processors; inputs that led
somewhere new are kept in a folder from one run to the next. What tripped stays there as
`crash-...`, and is told.
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


def _fuzz(name: str, corpus: Path, seconds: int, inputs: int) -> None:
    """Fuzz one target in this process; never returns."""
    import atheris  # here: only this process is looked into

    with atheris.instrument_imports(include=["jetstream_server"]):
        from tests.fuzz.parsers.targets import TARGETS, trust_all
    trust_all()
    target = TARGETS[name]
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    flags = [f"-max_len={target.longest}", f"-artifact_prefix={corpus}/", "-print_final_stats=1"]
    flags += [f"-max_total_time={seconds}"] if seconds else []
    flags += [f"-runs={inputs}"] if inputs else []
    # What one input may take, beside much else on the machine.
    atheris.Setup([sys.argv[0], *flags, "-timeout=20", str(corpus)], target.run)
    atheris.Fuzz()


def _run(name: str, folder: Path, seconds: int, inputs: int) -> tuple[int, bool]:
    """Fuzz one target in a process of its own; return how many inputs, and whether all is well."""
    corpus = folder / name
    corpus.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.fuzz.parsers", "--target", name, "--here"]
    command += ["--corpus", str(folder), "--seconds", str(seconds), "--inputs", str(inputs)]
    # Kernels in C cannot be looked into.
    environment = os.environ | {"JETSTREAM_PURE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    found = re.search(r"number_of_executed_units:\s*(\d+)", done.stderr)
    if done.returncode:
        print(f"{name}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}", flush=True)
    return int(found[1]) if found else 0, done.returncode == 0


def main() -> int:
    """Run; return the number of targets that tripped."""
    parser = argparse.ArgumentParser(prog="tests.fuzz.parsers")
    parser.add_argument("--target", default="", help="only this one")
    parser.add_argument("--minutes", type=float, default=10, help="of all targets together")
    parser.add_argument("--seconds", type=int, default=0, help="of each")
    parser.add_argument("--inputs", type=int, default=0, help="to each, instead")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at once")
    parser.add_argument("--corpus", type=Path, default=Path(".fuzz"))
    parser.add_argument("--here", action="store_true", help="in this process")
    options = parser.parse_args()
    if options.here:
        _fuzz(options.target, options.corpus / options.target, options.seconds, options.inputs)
    from tests.fuzz.parsers.targets import TARGETS

    names = [options.target] if options.target else list(TARGETS)
    jobs = min(options.jobs, len(names))
    each = 60 * options.minutes * jobs / len(names)
    seconds = 0 if options.inputs else options.seconds or int(each)

    def run(name: str) -> tuple[int, bool]:
        began = time.monotonic()
        inputs, is_well = _run(name, options.corpus, seconds, options.inputs)
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
