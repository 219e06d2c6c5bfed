"""Three genuine servers that are one cluster, and what befalls them."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Callable
from typing import Any

from jetstream_spark.client.blocking import Blocking, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.client.flow import publish_frame
from jetstream_spark.errors import ConnectorError
from jetstream_spark.options.format_options import SourceOptions
from tests.leasing import lease
from tests.ports import free_ports

SIZE = 3
# An election takes 4 to 9 s, and a machine that is busy takes its time.
READY_WITHIN_S = 120.0


class Cluster:
    """Three servers with routes to each other; one may be killed, stopped or restarted."""

    def __init__(self, start: Callable[..., Any], config: str = "") -> None:
        routes = free_ports(SIZE)
        self._names = [f"n{at}" for at in range(SIZE)]
        arguments = ["-cluster_name", "C"]
        arguments += ["-routes", ",".join(f"nats://127.0.0.1:{port}" for port in routes)]
        arguments += ["-c", config] if config else []
        self.servers = [
            start(*arguments, "-cluster", f"nats://127.0.0.1:{port}", "-n", name)
            for port, name in zip(routes, self._names, strict=True)
        ]
        self.control = self.ask()
        self.until(lambda: self.control.request("INFO") and True)

    @property
    def url(self) -> str:
        return ",".join(server.url for server in self.servers)

    def ask(self, *servers: int) -> Blocking:
        """Requests through some of the servers, through all by default; they do not wait long."""
        urls = ",".join(self.servers[at].url for at in servers or range(SIZE))
        options = {"servers": urls, "requestTimeout": "2s", "outageTimeout": "1s"}
        return Blocking(
            Control(this_host(), SourceOptions.parse(options | {"stream": "S"}).connection, "test")
        )

    def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so; what cannot be asked is not."""
        deadline = time.monotonic() + READY_WITHIN_S
        while True:
            with contextlib.suppress(ConnectorError):
                if is_so():
                    return
            assert time.monotonic() < deadline, "the cluster does not come to rest"
            time.sleep(0.1)

    # --- streams ----------------------------------------------------------------------------

    def create(self, name: str, **config: object) -> None:
        """Make a stream of three replicas that collects `<name>.>`."""
        body = {"name": name, "subjects": [f"{name}.>"], "num_replicas": SIZE, **config}
        self.until(lambda: bool(self.control.request(f"STREAM.CREATE.{name}", body)))
        self.leader(name)

    def info(self, stream: str) -> dict:
        """What a stream says of itself; waits until it does."""
        found: dict = {}
        self.until(lambda: found.update(self.control.request(f"STREAM.INFO.{stream}")) is None)
        return found

    def leader(self, stream: str) -> int:
        """Which server leads a stream; waits until one does."""
        found: list[int] = []

        def look() -> bool:
            name = self.info(stream)["cluster"].get("leader")
            found[:] = [self._names.index(name)] if name else []
            return bool(found)

        self.until(look)
        return found[0]

    def rest(self, *streams: str) -> None:
        """Wait until all servers answer and every replica has what its leader has."""
        for at in range(SIZE):
            self.until(lambda at=at: self.ask(at).request("INFO") and True)  # type: ignore[misc]
        for name in streams:
            self.until(
                lambda name=name: all(  # type: ignore[misc]
                    one["current"] and not one.get("lag")
                    for one in self.info(name)["cluster"]["replicas"]
                )
            )

    def publish(self, stream: str, count: int, padding: bytes = b"", *servers: int) -> None:
        """Store the numbers from 0 on, on ten subjects; return when the last one is stored.

        Args:
            padding: what follows each number.
            servers: through which of them, any when none.
        """
        subject = stream.encode()
        with lease(self.ask(*servers).options, "test") as flow:
            for at in range(0, count, 1000):
                *run, last = range(at, min(at + 1000, count))
                frames = [
                    publish_frame(b"%s.%d" % (subject, i % 10), b"%d" % i + padding) for i in run
                ]
                flow.send(b"".join(frames), time.monotonic() + 60)
                payload = b"%d" % last + padding
                answer = json.loads(
                    flow.request(b"%s.%d" % (subject, last % 10), payload, 60).payload
                )
                assert "seq" in answer, answer

    # --- what befalls them ------------------------------------------------------------------

    def step_down(self, stream: str) -> None:
        """Have another server lead a stream."""
        with contextlib.suppress(ConnectorError):
            self.control.request(f"STREAM.LEADER.STEPDOWN.{stream}")

    def step_down_all(self, seconds: float, *streams: str) -> None:
        """Have the leaders of streams, and of the cluster, step down again and again."""
        stop = time.monotonic() + seconds
        while time.monotonic() < stop:
            for name in streams:
                self.step_down(name)
            time.sleep(0.3)

    def kill(self, at: int, seconds: float) -> None:
        """Kill a server and start it again."""
        self.servers[at].kill()
        time.sleep(seconds)
        self.servers[at].start()

    def pause(self, at: int, seconds: float) -> None:
        """Let a server hang, its connections open."""
        self.servers[at].pause()
        time.sleep(seconds)
        self.servers[at].resume()

    def restart(self, at: int) -> None:
        """Stop a server as an operator would, and start it again."""
        self.servers[at].process.send_signal(signal.SIGTERM)
        self.servers[at].process.wait()
        self.servers[at].start()
