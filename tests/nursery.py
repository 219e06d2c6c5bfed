"""Bundled servers as children of one process in which all is imported already.

Imports are nearly all of what a start costs, and the tests start servers by the hundred. Such a
server is a process like any other: it has its own arguments, log, signals and end. How the command
itself starts is tried by those tests that run it (`tests/server/test_cli.py` and others).
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

BUNDLED = [sys.executable, "-m", "jetstream_server"]
_REQUEST_BYTES_MAX = 1 << 16


def start(command: Sequence[str], log: IO[Any] | None = None) -> subprocess.Popen[str] | Child:
    """Start a server, in the nursery if it is the bundled one.

    Args:
        log: takes its log; a pipe, which is the attribute `stderr`, if None.
    """
    if [*command[:3]] == BUNDLED:
        return Child(command[3:], log)
    return subprocess.Popen(command, stderr=log or subprocess.PIPE, text=True, errors="replace")


class Child:
    """A bundled server, with what is used of `subprocess.Popen`.

    Args:
        arguments: of the command.
        stderr: a file that takes its log; a pipe, which is the attribute of that name, if None.
    """

    def __init__(self, arguments: Sequence[str], stderr: IO[Any] | None = None) -> None:
        self.returncode: int | None = None
        self.stderr: IO[str] | None = None
        self._link = socket.socket(socket.AF_UNIX)
        self._link.connect(_nursery().path)
        if stderr is not None:
            taken = os.dup(stderr.fileno())
        else:
            log, taken = os.pipe()
            self.stderr = open(log, encoding="utf-8", errors="replace")  # noqa: SIM115
        try:
            socket.send_fds(self._link, [json.dumps([*arguments]).encode()], [taken])
        finally:
            os.close(taken)
        self.pid = int.from_bytes(self._link.recv(4))
        assert self.pid, "the nursery has ended"

    def poll(self) -> int | None:
        """Its exit code, as that of `Popen`, None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; return the exit code.

        Raises:
            TimeoutExpired: it runs after so many seconds.
        """
        if self.returncode is None:
            self._link.settimeout(timeout)
            try:
                told = self._link.recv(4)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("jetstream-server", timeout or 0) from None
            assert told, "the nursery has ended"
            self._link.close()
            self.returncode = os.waitstatus_to_exitcode(int.from_bytes(told))
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it without a chance to tidy up."""
        self.send_signal(signal.SIGKILL)


class _Nursery:
    """The process, which ends with this one."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="nursery-")
        self.path = str(Path(self._folder.name) / "socket")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.path)
            listener.listen(64)
            # -P: beside this file there are folders with names of other people's packages.
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(listener.fileno())],
                stdin=subprocess.PIPE,
                pass_fds=[listener.fileno()],
            )

    def end(self) -> None:
        """End it, and every server that is left."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._folder.cleanup()


_lock = threading.Lock()
_only: list[_Nursery] = []


def _nursery() -> _Nursery:
    with _lock:
        if not _only:
            _only.append(_Nursery())
            atexit.register(_only[0].end)
        return _only[0]


# --- in the process itself ----------------------------------------------------------------------


def _serve(listener: socket.socket) -> None:
    """Fork a server for each connection; tell it the process id, and in the end the status."""
    import gc
    import importlib

    for name in ("jetstream_server.cli", "uvloop"):
        importlib.import_module(name)
    gc.freeze()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    links: dict[int, socket.socket] = {}
    selector = selectors.DefaultSelector()
    for file in (0, woken, listener.fileno()):
        selector.register(file, selectors.EVENT_READ)
    while True:
        ready = {key.fd for key, _ in selector.select()}
        if woken in ready:
            os.read(woken, 4096)
            _report(links)
        if 0 in ready:  # whoever started it is gone
            for pid in links:
                os.kill(pid, signal.SIGKILL)
            return
        if listener.fileno() in ready:
            link, _ = listener.accept()
            request, [log], _, _ = socket.recv_fds(link, _REQUEST_BYTES_MAX, 1)
            pid = os.fork()
            if pid == 0:
                selector.close()
                for each in (listener, link, *links.values()):
                    os.close(each.detach())
                os.close(woken)
                signal.set_wakeup_fd(-1)
                os.close(wake)
                _become_server(json.loads(request), log)
            os.close(log)
            links[pid] = link
            link.sendall(pid.to_bytes(4))


def _report(links: dict[int, socket.socket]) -> None:
    """Tell of the servers that have ended."""
    while links:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with links.pop(pid) as link, contextlib.suppress(ConnectionError):
            link.sendall(status.to_bytes(4))


def _become_server(arguments: list[str], log: int) -> None:
    """Run the command in this process, which then ends."""
    from jetstream_server.__main__ import main

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(log, 2)
    os.close(log)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.argv = ["jetstream-server", *arguments]
    code = 1
    try:
        code = main()
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
