"""A streaming copy through Spark while everything is killed: what comes out is what went in.

    python -m tests.chaos --seed 1 --rounds 3 --server genuine

A seed decides what is done to whom, and when: the driver and everything it started is killed, a
worker is killed, the server is killed or stopped for a while, connections are cut or stall. A query
that failed or was killed is started again from its checkpoint, as a supervisor would. When it has
ended, the rows of the copy are compared with those of the original, each as often as it is there.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from jetstream_spark.client import pool
from jetstream_spark.client.blocking import Blocking, iterate, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.client.flow import publish_frame
from jetstream_spark.fetch.ranges import SequenceRange
from jetstream_spark.options.format_options import SourceOptions
from jetstream_spark.source.partition import RangePartition, read_partition
from tests.leasing import lease
from tests.ports import free_port
from tests.proxy import Proxy

ROOT = Path(__file__).parents[2]
ROWS = 200_000
RUN = 1000
# So many blows, then it is left alone; so many failures of a query by itself are taken for normal.
BLOWS = 10
FAILURES_MAX = 10
# A copy that gets no row for so long has come to a standstill; a busy machine is only slow.
STANDSTILL_S = 400.0
COLUMN = pa.schema({"data": pa.binary()})
PROGRAMS = {"genuine": "nats-server", "bundled": "jetstream-server"}


class Server:
    """A server that can be killed, on a port that stays."""

    def __init__(self, program: str, folder: Path) -> None:
        self.port = free_port()
        path = Path(sys.executable).parent / program
        self._command = [str(path), "-a", "127.0.0.1", "-p", str(self.port), "-js"]
        self._command += ["-sd", str(folder)]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            time.sleep(0.1)
        raise AssertionError("the server does not start")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def hang(self, seconds: float) -> None:
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)


class Driver:
    """The process of the query, and what it started."""

    def __init__(self, arguments: list[str], log: Path) -> None:
        paths = [str(ROOT), str(ROOT / "server"), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        }
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.driver", *arguments],
                cwd=ROOT,
                env=environment,
                stdout=file,
                stderr=file,
            )

    def kill(self) -> None:
        """Kill it with all it started, children last so that none is adopted unseen."""
        started = descendants(self.process.pid)
        self.process.kill()
        for pid in started:
            kill(pid)
        self.process.wait()

    def kill_worker(self, chance: random.Random) -> bool:
        """Kill one Python process below the JVM; whether there was one."""
        workers = [pid for pid in descendants(self.process.pid) if is_worker(pid)]
        if workers:
            kill(chance.choice(workers))
        return bool(workers)


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def is_worker(pid: int) -> bool:
    """Whether Spark started it to run Python: `python -m pyspark...`."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return words[1:2] == [b"-m"] and words[2].startswith(b"pyspark")
    return False


def descendants(pid: int) -> list[int]:
    """All processes that a process started, and they in turn."""
    children: dict[int, list[int]] = collections.defaultdict(list)
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            children[int(path.read_text().rpartition(")")[2].split()[1])].append(
                int(path.parent.name)
            )
    found = list(children[pid])
    for one in found:
        found += children[one]
    return found


class Round:
    """One copy of all rows, and its blows."""

    def __init__(self, kind: str, seed: int, folder: Path) -> None:
        self._chance = random.Random(seed)
        (folder / "server").mkdir()
        self._server = Server(PROGRAMS[kind], folder / "server")
        self._proxy = Proxy(self._server.port)
        options = {"servers": f"nats://127.0.0.1:{self._server.port}", "stream": "FROM"}
        self._options = SourceOptions.parse(options)
        self._control = Blocking(Control(this_host(), self._options.connection, "chaos"))
        for name in ("FROM", "TO"):
            body = {"name": name, "subjects": [f"{name}.>"]}
            self._control.request(f"STREAM.CREATE.{name}", body)
        self._fill()
        url = f"nats://127.0.0.1:{self._proxy.port}"
        self._arguments = [url, str(folder / "checkpoint"), "FROM", "TO"]
        self.log = folder / "driver.log"
        self.blows: list[str] = []

    def _fill(self) -> None:
        with lease(self._options.connection, "chaos") as flow:
            for at in range(0, ROWS, RUN):
                *run, last = (b"%d" % n for n in range(at, at + RUN))
                frames = b"".join(publish_frame(b"FROM.a", one) for one in run)
                flow.send(frames, time.monotonic() + 30)
                flow.request(b"FROM.a", last, 30)

    def run(self) -> None:
        """Copy, whatever happens; raise when the copy is not the original."""
        deadline, copied = time.monotonic() + STANDSTILL_S, -1
        failures = 0
        driver = Driver(self._arguments, self.log)
        try:
            while True:
                if time.monotonic() > deadline:
                    before, copied = copied, self._control.stream_state("TO").next - 1
                    assert copied > before, f"the copy stands still at {copied} of {ROWS} rows"
                    deadline = time.monotonic() + STANDSTILL_S
                pause_s = self._chance.uniform(2, 8) if len(self.blows) < BLOWS else 1.0
                with contextlib.suppress(subprocess.TimeoutExpired):
                    if driver.process.wait(pause_s) == 0:
                        break
                    failures += 1
                    self.blows.append(f"(the query failed: {self._reason()})")
                    assert failures <= FAILURES_MAX, "the query fails again and again"
                    driver = Driver(self._arguments, self.log)
                    continue
                if len(self.blows) < BLOWS:
                    driver = self._strike(driver)
            self._compare()
        finally:
            driver.kill()
            self._proxy.go_on()
            self._server.kill()
            pool.close_all(this_host())

    def _strike(self, driver: Driver) -> Driver:
        """Do one of the bad things; return the driver that runs now."""
        chance = self._chance
        blow = chance.choice(["driver", "worker", "server", "hang", "cut", "cuts", "stall"])
        self.blows.append(blow)
        if blow == "driver":
            driver.kill()
            return Driver(self._arguments, self.log)
        if blow == "worker":
            driver.kill_worker(chance)
        elif blow == "server":
            self._server.kill()
            time.sleep(chance.uniform(0, 4))
            self._server.start()
        elif blow == "hang":
            self._server.hang(chance.uniform(0, 8))
        elif blow == "stall":
            self._proxy.stall()
            time.sleep(chance.uniform(0, 8))
            self._proxy.go_on()
        else:
            for _ in range(1 if blow == "cut" else 20):
                self._proxy.cut()
                time.sleep(chance.uniform(0, 0.3))
        return driver

    def _reason(self) -> str:
        """The last error of the connector in the driver's log."""
        found = re.findall(r"\[[A-Z_]+\] [^\n]{0,200}", self.log.read_text(errors="replace"))
        return found[-1] if found else "no error of the connector"

    def _compare(self) -> None:
        info = self._control.request("STREAM.INFO.TO")
        sequences = SequenceRange("TO", info["created"], 1, info["state"]["last_seq"] + 1)
        options = SourceOptions.parse(
            {"servers": f"nats://127.0.0.1:{self._server.port}", "stream": "TO"}
        )
        reading = read_partition(this_host(), options, COLUMN, RangePartition(sequences))
        found = collections.Counter(
            int(one.as_py()) for batch in iterate(reading) for one in batch["data"]
        )
        twice = [n for n, times in found.items() if times > 1]
        lost = [n for n in range(ROWS) if n not in found]
        assert not twice and not lost, (
            f"{len(lost)} rows are lost ({lost[:5]}), {len(twice)} are there more than once "
            f"({twice[:5]})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--server", choices=sorted(PROGRAMS), action="append")
    chosen = parser.parse_args()
    for seed in range(chosen.seed, chosen.seed + chosen.rounds):
        for kind in chosen.server or sorted(PROGRAMS):
            with tempfile.TemporaryDirectory(prefix="jetstream-chaos-") as folder:
                started = time.monotonic()
                one = Round(kind, seed, Path(folder))
                try:
                    one.run()
                except BaseException:
                    print(one.log.read_text(errors="replace")[-8000:])
                    print(f"FAILED: seed {seed}, {kind}: {', '.join(one.blows)}", flush=True)
                    raise
                took_s = time.monotonic() - started
                print(f"seed {seed}, {kind}: {ROWS} rows exact, {took_s:.0f} s, after", end=" ")
                print(", ".join(one.blows), flush=True)


if __name__ == "__main__":
    main()
