"""A server of either kind as a process."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections import deque
from pathlib import Path

from tests import nursery
from tests.nursery import Child
from tests.ports import free_port

READY = "Server is ready"
# Answers are compared here, not disks: the bundled server syncs before it answers, and a disk that
# other work keeps busy for half a second would make its answer late. Memory keeps what SIGKILL
# leaves, as a disk does.
MEMORY = Path("/dev/shm")
_MEMORY_BYTES_MIN = 8 << 30


def _place() -> Path | None:
    """Return where folders of servers go, None for the usual place of temporary files."""
    if not MEMORY.is_dir() or not os.access(MEMORY, os.W_OK):
        return None
    return MEMORY if shutil.disk_usage(MEMORY).free >= _MEMORY_BYTES_MIN else None


class ServerProcess:
    """A server of either kind, on a free port and a folder of its own."""

    def __init__(self, command: list[str], config: str = "") -> None:
        self.command = command
        self.folder = Path(tempfile.mkdtemp(prefix="parity-", dir=_place()))
        self.process: subprocess.Popen[str] | Child | None = None
        self.config = config
        self.port = 0
        self.log: deque[str] = deque(maxlen=1000)

    def start(self) -> None:
        """Start and wait until clients may connect."""
        flags = ["-a", "127.0.0.1", "-p", str(free_port()), "-js", "-sd", str(self.folder)]
        if self.config:
            (self.folder / "ports").mkdir(exist_ok=True)  # for those that name a ports_file_dir
            file = self.folder / "server.conf"
            file.write_text(self.config.replace("{folder}", str(self.folder)))
            flags += ["-c", str(file)]
        command = [*self.command, *flags]
        if self.is_container:
            *run, image = self.command
            place = ["--name", self.folder.name, "--volume", f"{self.folder}:{self.folder}"]
            command = [*run, *place, image, *flags]
        self.process = _started(command)
        assert self.process.stderr is not None
        self.log.clear()
        for line in self.process.stderr:
            self.log.append(line)
            if found := re.search(r"Listening for client connections on .*:(\d+)", line):
                self.port = int(found[1])
            if READY in line:
                # Whatever is logged from now on must not fill the pipe.
                threading.Thread(target=self.log.extend, args=(self.process.stderr,)).start()
                return
        raise RuntimeError(f"{self.command[0]} did not start:\n" + "".join(self.log))

    def stop(self, signum: int = signal.SIGTERM) -> int:
        """End the process and return its exit code."""
        assert self.process is not None
        if self.is_container:  # a signal to `docker run` would not always reach the server
            name = signal.Signals(signum).name
            subprocess.run(["docker", "kill", "--signal", name, self.folder.name], check=True)
        else:
            self.process.send_signal(signum)
        return self.process.wait(60)

    @property
    def is_container(self) -> bool:
        """Whether the command runs an image rather than a program."""
        return self.command[0] == "docker"

    def configure(self, config: str) -> None:
        """Begin anew with another configuration; nothing happens when it is the same."""
        if config != self.config:
            self.end()
            self.folder.mkdir()
            self.config = config
            self.start()

    def revive(self) -> None:
        """Start again if the process has ended by itself, so that one crash fails one scenario."""
        if self.process is not None and self.process.poll() is not None:
            self.start()

    def ending(self) -> str:
        """Tell how the process ended by itself, and what it said last."""
        assert self.process is not None
        try:
            code = self.process.wait(2)  # a closed socket is seen before the end of its process
        except subprocess.TimeoutExpired:
            return f"{self.command[-1]} runs"
        return f"{self.command[-1]} ended with {code}, saying\n" + "".join([*self.log][-30:])

    def end(self) -> None:
        """Stop for good and remove the folder."""
        if self.process is not None and self.process.poll() is None:
            self.stop(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


def _started(command: list[str]) -> subprocess.Popen[str] | Child:
    try:
        return nursery.start(command)
    except OSError as error:
        # Seen once in ten thousand starts on a virtual machine that was short of everything: its
        # kernel could not read the arguments of exec.
        if error.errno != errno.EFAULT:
            raise
    return nursery.start(command)


def bundled_command() -> list[str]:
    """Return how to start the bundled server."""
    return [*nursery.BUNDLED]


def image_command(image: str) -> list[str]:
    """Return how to start a server of an image, such as `nats:2.15`, with a Docker engine."""
    return ["docker", "run", "--rm", "--network", "host", image]
