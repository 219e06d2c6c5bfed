"""A server that stores messages, and was asked for nothing else, imports nothing else.

A library that is imported stays: most of the memory of a server is its code. What serves TLS,
websockets, monitoring, passwords, JWTs, encryption or compression comes when it is asked for.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

from jetstream_server.kernels.in_use import KERNELS

PROGRAM = """
import sys
from jetstream_server.cli import main
code = main(sys.argv[1:])
print(*sys.modules, sep="\\n")
sys.exit(code)
"""

UNWANTED = {
    "bcrypt",
    "cramjam",
    "cryptography",
    "email",
    "h11",
    "http",
    "importlib.metadata",  # all of what finds pydantic's plugins, when a validator is built
    "jetstream_server.config.claims",
    "jetstream_server.net.monitor_http",
    "jetstream_server.net.tls_context",
    "jetstream_server.net.websocket_layer",
    "jetstream_server.store.disk.keyring",
    "multiprocessing",
    "nkeys",
    "numpy",
    "prometheus_client",
    "pyarrow",
    "pydantic.plugin._loader",
    "shutil",
    "starlette",
    "tempfile",
    "uvicorn",
    "websockets",
    "zipfile",
}
CREATE = b'{"name":"S","subjects":["s.*"]}'
CONVERSATION = (
    b"CONNECT {}\r\nSUB _INBOX.* 1\r\n"
    b"PUB $JS.API.STREAM.CREATE.S _INBOX.a %d\r\n%b\r\n"
    % (len(CREATE), CREATE)
    + b"PUB s.a _INBOX.b 1\r\nx\r\n"
)


def test_who_stores_messages_imports_what_stores_messages(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, "-a", "127.0.0.1", "-p", "-1"]
    with subprocess.Popen(
        [*command, "-js", "-sd", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            _store_a_message(_port(server))
            server.terminate()
            imported, said = server.communicate(timeout=60)
        finally:
            server.kill()
    assert server.returncode == 0, said
    names = set(imported.split())
    assert "jetstream_server.store.file" in names
    unwanted = UNWANTED
    if all(kernel.TWIN == "compiled" for kernel in KERNELS):
        unwanted = UNWANTED | {"google_crc32c"}  # which the pure ones need
    assert names & unwanted == set()


def _port(server: subprocess.Popen[str]) -> int:
    assert server.stderr is not None
    said, port = "", 0
    for line in server.stderr:
        said += line
        if found := re.search(r"Listening for client connections on .*:(\d+)", line):
            port = int(found[1])
        if "Server is ready" in line:
            return port
    raise AssertionError(f"the server did not start:\n{said}")


def _store_a_message(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(CONVERSATION)
        answers = b""
        while b'"seq":1' not in answers:
            piece = client.recv(65536)
            assert piece, answers
            answers += piece
        assert b'"error"' not in answers
