"""The servers that are measured: how each is started, stopped and found in `/proc`.

Each start is a process of its own with an empty store folder, which goes when the server goes.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
READY_TIMEOUT_S = 30.0
_LISTENING = re.compile(r"Listening for client connections on \S+:(\d+)")
_OURS = (sys.executable, "-m", "jetstream_server")
_GENUINE = (str(Path(sys.executable).parent / "nats-server"),)
_CONFIG = 'listen: "127.0.0.1:-1"\njetstream {{ store_dir: "{folder}"{settings} }}\n'


class ServerNotStartedError(Exception):
    """A server did not become ready; the text holds its own words."""


@dataclass(frozen=True)
class ServerKind:
    """A server and how it treats its disk.

    Attributes:
        name: the key in reports.
        settings: what its configuration file says in the `jetstream` block.
    """

    name: str
    command: tuple[str, ...]
    settings: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


OURS = ServerKind("ours", _OURS)
OURS_LAZY = ServerKind("ours lazy", _OURS, ', sync_interval: "2m"')
OURS_PURE = ServerKind("ours pure", _OURS, environment={"JETSTREAM_PURE": "1"})
GENUINE = ServerKind("genuine", _GENUINE)
GENUINE_ALWAYS = ServerKind("genuine always", _GENUINE, ", sync_interval: always")
KINDS = {kind.name: kind for kind in (OURS, OURS_LAZY, OURS_PURE, GENUINE, GENUINE_ALWAYS)}


@dataclass(frozen=True, slots=True)
class Target:
    """A running server, as the load process sees it. A null server stores and checks nothing."""

    port: int
    pid: int
    is_null: bool = False


@contextlib.contextmanager
def running(kind: ServerKind, more: str = "") -> Iterator[Target]:
    """Start a server with an empty store and wait until it takes connections.

    Args:
        more: lines for its configuration file.

    Raises:
        ServerNotStartedError: it is not installed, ended, or was not ready in time.
    """
    with tempfile.TemporaryDirectory(prefix="jetstream-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        config = folder / "server.conf"
        text = _CONFIG.format(folder=folder / "store", settings=kind.settings)
        config.write_text(text + more)
        with _process([*kind.command, "-c", str(config)], kind.environment) as target:
            yield target


@contextlib.contextmanager
def running_null(payload_bytes: int, stored_messages: int) -> Iterator[Target]:
    """Start the null server, which delivers so many payloads of this size to each consumer."""
    numbers = [str(payload_bytes), str(stored_messages)]
    command = [sys.executable, "-m", "benchmarks.null_server", *numbers]
    with _process(command, {}) as target:
        yield Target(target.port, target.pid, is_null=True)


@contextlib.contextmanager
def _process(command: list[str], environment: Mapping[str, str]) -> Iterator[Target]:
    try:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
    except OSError as error:
        raise ServerNotStartedError(f"{command[0]} cannot be run: {error}") from None
    log = _Log(process)
    try:
        yield Target(log.wait_for_port(READY_TIMEOUT_S), process.pid)
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log.join()


class _Log:
    """Drains a server's log, or it would block on a full pipe, and finds the port in it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._last_lines: deque[str] = deque(maxlen=20)
        self._port = 0
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr:
            for line in self._process.stderr:
                self._last_lines.append(line)
                if (match := _LISTENING.search(line)) is not None:
                    self._port = int(match[1])
                if "Server is ready" in line:
                    self._is_ready.set()
        self._is_ready.set()

    def wait_for_port(self, timeout_s: float) -> int:
        deadline = time.monotonic() + timeout_s
        self._is_ready.wait(timeout_s)
        if not self._port or time.monotonic() >= deadline or self._process.poll() is not None:
            raise ServerNotStartedError(
                f"{self._process.args!r} did not start:\n{''.join(self._last_lines)}"
            )
        return self._port

    def join(self) -> None:
        self._thread.join(5)
