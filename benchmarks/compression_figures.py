"""What `compression: s2` saves and costs: JSON documents of 180 bytes, in turn with and without.

    python benchmarks/compression_figures.py --rounds 3 --messages 1000000

Each run starts a server of its own on an empty folder: publish with a window, pull everything, get
a thousand messages by random sequences.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.store_figures import BATCH, STREAM, WINDOW, check, create, serving
from benchmarks.wire import Wire


def measure(rounds: int, count: int, folder: str) -> None:
    """Print the medians of `rounds` pairs of runs with `count` messages."""
    found: dict[str, list[tuple[float, ...]]] = {"none": [], "s2": []}
    for _ in range(rounds):
        for how, figures in found.items():
            with (
                tempfile.TemporaryDirectory(dir=folder) as place,
                serving(argparse.Namespace(folder=place)) as server,
            ):
                wire = server.wire()
                create(wire, compression=how, allow_direct=True)
                published = _publish_documents(wire, count)
                used = sum(path.stat().st_size for path in Path(place).rglob("*.blk"))
                began = time.monotonic()
                _read_all(server.wire(), count)
                pulled = count / (time.monotonic() - began)
                got = sorted(_jumps(server.wire(), count))
                memory = server.memory_mib()[0]
                figures.append((used / 1e6, published, pulled, got[500] * 1e6, memory))
                check(server, count)
    names = ("MB on disk", "published/s", "pulled/s", "direct get, us", "MiB anonymous")
    for index, name in enumerate(names):
        pairs = zip(found["none"], found["s2"], strict=True)
        ratios = sorted(compressed[index] / plain[index] for plain, compressed in pairs)
        plain, compressed = (
            sorted(each[index] for each in found[how])[rounds // 2] for how in found
        )
        print(f"  {name:15} none {plain:12,.0f}   s2 {compressed:12,.0f}", end="")
        print(f"   ratio {ratios[rounds // 2]:.2f} [{ratios[0]:.2f} .. {ratios[-1]:.2f}]")


def _publish_documents(wire: Wire, count: int) -> float:
    """Publish with a window; return the messages a second."""
    chosen = random.Random(1)
    states = (b"open", b"paid", b"shipped", b"returned")
    batches = [
        b"".join(
            b"PUB s.%d %b.%d %d\r\n%b\r\n" % (number % 1000, wire.inbox, number, len(body), body)
            for number, body in enumerate(
                b'{"order_id":%d,"customer":"c%06d","status":"%b","amount":%d.%02d,'
                b'"currency":"EUR","placed_at":"2026-11-21T10:%02d:%02dZ","items":%d,'
                b'"comment":"%x"}'
                % (
                    chosen.randrange(1 << 40), chosen.randrange(500_000), chosen.choice(states),
                    chosen.randrange(1000), chosen.randrange(100), chosen.randrange(60),
                    chosen.randrange(60), chosen.randrange(20), chosen.getrandbits(96),
                )
                for _ in range(BATCH)
            )
        )
        for _ in range(20)
    ]  # fmt: skip
    sent = acked = 0
    began, tail = time.monotonic(), b""
    while acked < count:
        while sent < count and sent - acked < WINDOW:
            wire.sock.sendall(batches[sent // BATCH % len(batches)])
            sent += BATCH
        data = tail + wire.sock.recv(1 << 20)
        acked += data.count(b"}\r\n")
        tail = data[-2:] if not data.endswith(b"}\r\n") else b""
    return count / (time.monotonic() - began)


def _read_all(wire: Wire, count: int) -> None:
    """Pull everything, two requests ahead."""
    durable = {"durable_name": "C", "ack_policy": "none"}
    wire.api(f"CONSUMER.DURABLE.CREATE.{STREAM}.C", {"stream_name": STREAM, "config": durable})
    batch, asked, seen = 5000, 0, 0
    marker = b" $JS.ACK.%b.C." % STREAM.encode()
    tail = b""
    while seen < count:
        while asked < count and asked - seen <= batch:
            request = b'{"batch":%d,"expires":30000000000}' % batch
            wire.sock.sendall(
                b"PUB $JS.API.CONSUMER.MSG.NEXT.%b.C %b.m %d\r\n%b\r\n"
                % (STREAM.encode(), wire.inbox, len(request), request)
            )
            asked += batch
        data = tail + wire.sock.recv(1 << 20)
        seen += data.count(marker)
        tail = data[1 - len(marker) :]


def _jumps(wire: Wire, count: int) -> Iterator[float]:
    """Get messages by random sequences; how long each took, in seconds."""
    chosen = random.Random(2)
    for _ in range(1000):
        request = b'{"seq":%d}' % (chosen.randrange(count) + 1)
        began = time.perf_counter()
        wire.sock.sendall(b"PUB $JS.API.DIRECT.GET.%b %b.g %d\r\n%b\r\n" % (
            STREAM.encode(), wire.inbox, len(request), request))  # fmt: skip
        data = b""
        while b'"}\r\n' not in data:
            data += wire.sock.recv(1 << 16)
        yield time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--folder", default=os.environ.get("TMPDIR", "/tmp"))
    options = parser.parse_args()
    measure(options.rounds, options.messages, options.folder)


if __name__ == "__main__":
    main()
