"""How the store grows: memory, rates, start times, many subjects, purges beside publishing.

    python benchmarks/store_figures.py                        # all, 5 million messages, minutes
    python benchmarks/store_figures.py fill --messages 20000000
    python benchmarks/store_figures.py subjects purge --folder /mnt/disk

Each part starts a server process of its own on an empty folder and removes it afterwards. Resident
memory is given as anonymous (what the server needs) and file-backed (mapped blocks, which the
system takes back when it likes).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.wire import Wire

PAYLOAD = b"0123456789abcdef"
BATCH = 10_000
WINDOW = 40_000
STREAM = "FIGURES"


class Server:
    """A server process."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._folder, self._arguments = folder, arguments
        self.start_s = 0.0
        self.start()

    def start(self) -> None:
        began = time.monotonic()
        command = [sys.executable, "-m", "jetstream_server", "-a", "127.0.0.1", "-p", "-1"]
        self.process = subprocess.Popen(
            [*command, "-js", "-sd", str(self._folder), *self._arguments],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        port, said = "", ""
        for line in self.process.stderr:
            said += line
            if found := re.search(r"client connections on 127\.0\.0\.1:(\d+)", line):
                port = found[1]
            if "Server is ready" in line:
                break
        else:
            raise SystemExit(f"the server did not start: {said}")
        self.start_s = time.monotonic() - began
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        self.port = int(port)

    def wire(self) -> Wire:
        wire = Wire(self.port, 120)
        wire.subscribe_inbox()
        return wire

    def stop(self, number: int = signal.SIGTERM) -> float:
        began = time.monotonic()
        self.process.send_signal(number)
        self.process.wait()
        return time.monotonic() - began

    def memory_mib(self) -> tuple[float, float]:
        """Return anonymous and file-backed resident memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        anonymous, mapped = (
            int(re.search(rf"{name}:\s+(\d+) kB", status)[1]) / 1024  # type: ignore[index]
            for name in ("RssAnon", "RssFile")
        )
        return anonymous, mapped


@contextlib.contextmanager
def serving(options: argparse.Namespace, *arguments: str) -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="figures-", dir=options.folder))
    try:
        server = Server(folder, *arguments)
        try:
            yield server
        finally:
            server.process.kill()
            server.process.wait()
    finally:
        shutil.rmtree(folder)


def create(wire: Wire, **fields: object) -> None:
    wire.api(f"STREAM.CREATE.{STREAM}", {"name": STREAM, "subjects": ["s.>"], **fields})


def publish(wire: Wire, subjects: Iterator[bytes], count: int) -> list[float]:
    """Publish with a window; return when each batch was acknowledged, the start first."""
    sock, times = wire.sock, [time.monotonic()]
    sent = acked = 0
    tail = b""
    while acked < count:
        while sent < count and sent - acked < WINDOW:
            size = min(BATCH, count - sent)
            frames = [
                b"PUB %b %b.%d %d\r\n%b\r\n"
                % (next(subjects), wire.inbox, number, len(PAYLOAD), PAYLOAD)
                for number in range(size)
            ]
            sock.sendall(b"".join(frames))
            sent += size
        data = tail + sock.recv(1 << 20)
        if b'"error"' in data:
            raise SystemExit(f"refused: {data[:300]!r}")
        before, acked = acked, acked + data.count(b"}\r\n")
        tail = data[-2:] if not data.endswith(b"}\r\n") else b""
        times += [time.monotonic()] * (acked // BATCH - before // BATCH)
    return times


def rate(times: list[float], start: float, stop: float) -> float:
    first, last = int(start * (len(times) - 1)), int(stop * (len(times) - 1))
    return (last - first) * BATCH / (times[last] - times[first])


def round_robin(count: int) -> Iterator[bytes]:
    names = [b"s.%d" % number for number in range(count)]
    while True:
        yield from names


def fill(options: argparse.Namespace) -> None:
    """Fill a stream over 1,000 subjects, then start again after a stop and after a kill."""
    with serving(options) as server:
        wire = server.wire()
        create(wire)
        before = server.memory_mib()[0]
        times = publish(wire, round_robin(1000), options.messages)
        anonymous, mapped = server.memory_mib()
        tenths = [rate(times, tenth / 10, (tenth + 1) / 10) for tenth in range(10)]
        first, last = sorted(tenths[:3])[1], sorted(tenths[-3:])[1]  # medians: others use the disk
        print(f"  {options.messages:,} messages of {len(PAYLOAD)} bytes over 1,000 subjects")
        print("  rate      tenths of the way, thousands a second:", end="")
        print("".join(f" {each / 1000:,.0f}" for each in tenths), f"last/first {last / first:.2f}")
        print(f"  memory    {before:.0f} -> {anonymous:.0f} MiB, and {mapped:.0f} MiB mapped files")
        stopped = server.stop()
        server.start()
        check(server, options.messages)
        print(f"  reopen    {server.start_s:.2f} s after a stop, which took {stopped:.2f} s")
        print(f"  memory    {server.memory_mib()[0]:.0f} MiB after that")
        wire = server.wire()
        publish(wire, round_robin(1000), 200_000)
        server.stop(signal.SIGKILL)
        server.start()
        check(server, options.messages + 200_000)
        print(f"  reopen    {server.start_s:.2f} s after kill -9")


def check(server: Server, messages: int) -> None:
    state = server.wire().api(f"STREAM.INFO.{STREAM}")["state"]
    if state["messages"] != messages:
        raise SystemExit(
            f"{messages:,} messages were acknowledged, {state['messages']:,} are there"
        )


def subjects(options: argparse.Namespace) -> None:
    """One message on each of many subjects, then get the last one of random subjects."""
    count = options.subjects
    with serving(options) as server:
        wire = server.wire()
        create(wire, allow_direct=True, max_msgs_per_subject=1)
        before = server.memory_mib()[0]
        names = [b"s.device-%07d.status" % number for number in range(count)]
        times = publish(wire, iter(names), count)
        growth = (server.memory_mib()[0] - before) * 1024 * 1024 / count
        print(f"  {count:,} subjects at {rate(times, 0, 1):,.0f}/s: {growth:.0f} bytes each")
        for label in ("fresh", "after a restart"):
            taken = sorted(_direct_gets(server.wire(), random.Random(1).choices(names, k=5000)))
            print(
                f"  last by subject, {label}: p50 {taken[2500] * 1000:.2f} ms,"
                f" p99 {taken[4950] * 1000:.2f} ms, worst {taken[-1] * 1000:.2f} ms"
            )
            if label == "fresh":
                server.stop()
                server.start()
                anonymous = server.memory_mib()[0]
                print(f"  reopen {server.start_s:.2f} s, {anonymous:.0f} MiB")


def _direct_gets(wire: Wire, names: list[bytes]) -> Iterator[float]:
    for name in names:
        began = time.perf_counter()
        wire.sock.sendall(b"PUB $JS.API.DIRECT.GET.%b.%b %b.g 0\r\n\r\n" % (
            STREAM.encode(), name, wire.inbox))  # fmt: skip
        data = b""
        while PAYLOAD + b"\r\n" not in data:  # a PING may follow
            data += wire.sock.recv(1 << 16)
        yield time.perf_counter() - began


def purge(options: argparse.Namespace) -> None:
    """Remove most messages while somebody publishes one message after the other."""
    count = options.purged
    for label, body in (
        ("a filter", {"filter": "s.old.*"}),
        ("a sequence", {"seq": count + 1}),
        ("nothing: all", {}),
        ("max_age", None),
    ):
        with serving(options) as server:
            wire = server.wire()
            create(wire)
            subjects = _mixed() if body and "filter" in body else round_robin(1000)
            publish(wire, subjects, count * 5 // 4 if body else count)
            time.sleep(3.5 if body is None else 0)  # so that what comes now is not over as well
            removal = threading.Thread(target=_remove, args=(server, body, count))
            before = _published_beside(wire, count=200)
            began = time.monotonic()
            removal.start()
            during = _published_beside(wire, beside=removal)
            took = time.monotonic() - began
            at_99 = during[int(len(during) * 0.99)]
            print(f"  {count:,} by {label}: {took:.2f} s, {len(during):,} published beside it;"
                  f" ack p50 {during[len(during) // 2] * 1000:.1f} ms (alone"
                  f" {before[100] * 1000:.1f}), p99 {at_99 * 1000:.1f} ms,"
                  f" worst {during[-1] * 1000:.1f} ms", flush=True)  # fmt: skip


def _mixed() -> Iterator[bytes]:
    while True:
        yield from (b"s.keep", b"s.old.1", b"s.old.2", b"s.old.3", b"s.old.4")


def _remove(server: Server, body: dict[str, object] | None, count: int) -> None:
    """Purge, or let messages grow too old; return when they are gone."""
    wire = server.wire()
    if body is not None:
        purged = wire.api(f"STREAM.PURGE.{STREAM}", body)["purged"]
        if purged < count:
            raise SystemExit(f"{count:,} messages match, {purged:,} were purged")
        return
    config = wire.api(f"STREAM.INFO.{STREAM}")["config"]
    first = wire.api(f"STREAM.INFO.{STREAM}")["state"]["last_seq"] + 1 - 200
    wire.api(
        f"STREAM.UPDATE.{STREAM}",
        config | {"max_age": 3_000_000_000, "duplicate_window": 3_000_000_000},
    )
    while wire.api(f"STREAM.INFO.{STREAM}")["state"]["first_seq"] < first:
        time.sleep(0.01)


def _published_beside(
    wire: Wire, *, count: int = 0, beside: threading.Thread | None = None
) -> list[float]:
    """Publish so many, or while a thread runs and a second more; return the times, sorted."""
    taken: list[float] = []
    ended = 0.0
    while len(taken) < count or (beside is not None and time.monotonic() < (ended or 1e9) + 1):
        if beside is not None and not beside.is_alive() and not ended:
            ended = time.monotonic()
        began = time.perf_counter()
        wire.sock.sendall(b"PUB s.new %b.p 1\r\nx\r\n" % wire.inbox)
        data = b""
        while b"}\r\n" not in data:
            data += wire.sock.recv(4096)
        taken.append(time.perf_counter() - began)
    return sorted(taken)


def sync(options: argparse.Namespace) -> None:
    """The same load with every ack after its sync, and with lazy syncs."""
    count = min(options.messages, 3_000_000)
    found: dict[str, list[float]] = {"group": [], "2m": []}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for _ in range(3):
            for policy, rates in found.items():
                config = Path(folder, "server.conf")
                config.write_text(f'jetstream {{ store_dir: "{folder}/s", sync: "{policy}" }}\n')
                with serving(options, "-c", str(config)) as server:
                    wire = server.wire()
                    create(wire)
                    rates.append(rate(publish(wire, round_robin(1000), count), 0, 1))
    medians = {policy: sorted(rates)[1] for policy, rates in found.items()}
    print(f"  group {medians['group']:,.0f}/s, lazily {medians['2m']:,.0f}/s:"
          f" {medians['group'] / medians['2m']:.2f}")  # fmt: skip


PARTS = {"fill": fill, "subjects": subjects, "purge": purge, "sync": sync}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument(
        "parts", nargs="*", default=list(PARTS), metavar="part", help=", ".join(PARTS)
    )
    parser.add_argument("--messages", type=int, default=5_000_000)
    parser.add_argument("--subjects", type=int, default=1_000_000)
    parser.add_argument("--purged", type=int, default=10_000_000)
    parser.add_argument("--folder", default=os.environ.get("TMPDIR", "/tmp"))
    options = parser.parse_args()
    for name in options.parts:
        if name not in PARTS:
            parser.error(f"no such part: {name}")
        print(f"{name}: {PARTS[name].__doc__}", flush=True)
        PARTS[name](options)


if __name__ == "__main__":
    main()
