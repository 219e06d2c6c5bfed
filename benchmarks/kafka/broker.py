"""One Kafka broker in KRaft mode, alone and with its defaults.

What the scripts of Kafka's own archive would do, which Maven Central does not have: format the
folder, then start the server with a heap of one GiB and G1.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path

from benchmarks.servers import ServerNotStartedError, Target

READY_TIMEOUT_S = 60.0
_JVM = ("-Xms1G", "-Xmx1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
# Where it listens, and that it is the only one: replicas of its own topics are what it has alone.
_SETTINGS = """process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


@contextlib.contextmanager
def broker(class_path: str) -> Iterator[Target]:
    """Start a broker with an empty folder and wait until it takes connections.

    Raises:
        ServerNotStartedError: it ended, or was not ready in time.
    """
    with tempfile.TemporaryDirectory(prefix="kafka-bench-", ignore_cleanup_errors=True) as name:
        settings = Path(name) / "server.properties"
        port, controller = _free_ports()
        folder = Path(name) / "log"
        settings.write_text(_SETTINGS.format(port=port, controller=controller, folder=folder))
        java = ["java", *_JVM, "-cp", class_path]
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        _format([*java, "kafka.tools.StorageTool", "format"], cluster, settings)
        with (Path(name) / "output").open("w+") as output:
            process = subprocess.Popen(
                [*java, "kafka.Kafka", str(settings)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            try:
                _wait_until_ready(process, port)
                yield Target(port, process.pid)
            finally:
                process.terminate()
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def _format(command: list[str], cluster: str, settings: Path) -> None:
    arguments = ["--standalone", "-t", cluster, "-c", str(settings)]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ServerNotStartedError(f"Kafka's folder was not made: {done.stdout}{done.stderr}")


def _wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        time.sleep(0.2)
    raise ServerNotStartedError(f"{os.fspath(process.args[0])} did not start Kafka")  # type: ignore[index]


def _free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]
