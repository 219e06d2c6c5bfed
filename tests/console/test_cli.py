"""The command as a process: it serves, to those who may, and ends."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from typing import Protocol

import httpx
import nicegui
import pytest
from jetstream_console.asking.object_stores import place_of

from tests import patient_client

STRANGER = {"Host": "stranger.example"}


class Listening(Protocol):
    """What a console can be led to: a server, or what stands before it."""

    port: int


def start(
    server: Listening, *arguments: str, **environment: str
) -> tuple[subprocess.Popen[str], str]:
    """Start the command, and return it and its address; it may not listen yet."""
    # Whether servers answer soon is for the machine to say.
    command = [sys.executable, "-m", "jetstream_console", "--port", "0", "--timeout", "60"]
    command += [*arguments, "--servers", f"nats://127.0.0.1:{server.port}", "--user", "all"]
    process = subprocess.Popen(
        [*command, "--password", "env:WORD"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Within tests the library would take another port.
        env={name: v for name, v in os.environ.items() if "PYTEST" not in name}
        | {"WORD": "all", **environment},
    )
    assert process.stdout is not None
    return process, process.stdout.readline().split()[1]


def get(address: str, **given) -> httpx.Response:
    transport = httpx.HTTPTransport(retries=8)
    with httpx.Client(transport=transport, timeout=60, trust_env=False) as client:
        return client.get(address, **given)


def end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert "Traceback" not in said, said


SOCKET = """GET /_nicegui_ws/socket.io/?EIO=4&transport=websocket HTTP/1.1
Host: %s
Connection: Upgrade
Upgrade: websocket
Sec-WebSocket-Version: 13
Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==
Sec-Fetch-Site: %s
"""


def said(address: str, request: str) -> bytes:
    """Return how an answer begins to what no library would send."""
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as wire:
        wire.sendall(request.replace("\n", "\r\n").encode() + b"\r\n")
        return wire.recv(12)


def leave(address: str, request: str) -> None:
    """Ask for a page, and go away at once."""
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as wire:
        wire.sendall(request.replace("\n", "\r\n").encode() + b"\r\n")


async def damage(port: int) -> None:
    """Put an object, and then more content than it should have."""
    client = await patient_client.connect(f"nats://all:all@127.0.0.1:{port}")
    store = await client.jetstream().create_object_store("DAMAGED")
    for name in ("good", "bad"):
        info = await store.put(name, bytes(300_000))
    await client.jetstream().publish(f"$O.DAMAGED.C.{info.nuid}", b"more")
    await client.close()


def test_it_serves_this_machine_and_no_name_that_leads_here(genuine_server):
    process, address = start(genuine_server)
    try:
        page = get(address)
        assert page.status_code == 200 and "default-src 'self'" in str(page.headers)
        assert get(address + "/streams/x%2Fy").status_code == 404
        assert get(address, headers=STRANGER).status_code == 400
        here = address.removeprefix("http://")
        assert get(address, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
        for site, status in (("same-origin", b"101"), ("cross-site", b"403")):
            assert said(address, SOCKET % (here, site)).endswith(status)
        for path in ("/_nicegui/../../../../etc/passwd", "/..%2f..%2f..%2fetc/passwd"):
            assert said(address, f"GET {path} HTTP/1.1\nHost: {here}\n").endswith(b"404")
        too_long = f"POST / HTTP/1.1\nHost: {here}\nContent-Length: {3 << 30}\n"
        assert said(address, too_long).endswith(b"413")
        asyncio.run(damage(genuine_server.port))
        for path in ("/", f"/_nicegui/{nicegui.__version__}/static/nicegui.js"):
            for _ in range(5):
                leave(address, f"GET {path} HTTP/1.1\nHost: {here}\n")
        content = f"{address}/stores/DAMAGED/content?at="
        assert get(content + place_of("good")).content == bytes(300_000)
        with pytest.raises(httpx.RemoteProtocolError):
            get(content + place_of("bad"))
    finally:
        end(process)


def test_elsewhere_it_asks_for_a_password(genuine_server):
    process, address = start(genuine_server, "--host", "0.0.0.0", "--page-password", "env:WORD")
    try:
        page = get(address, headers=STRANGER)
        assert page.status_code == 401 and "Password" in page.text
        address = address.replace("0.0.0.0", "127.0.0.1")
        assert said(address, SOCKET % ("console", "same-origin")).endswith(b"403")
        for path in ("/stores/DAMAGED/content?at=x", "/_nicegui/x", "/login/../streams"):
            assert said(address, f"GET {path} HTTP/1.1\nHost: console\n").endswith(b"401")
    finally:
        end(process)


def test_without_its_libraries_it_says_what_to_install():
    program = (
        "import sys; sys.modules['nicegui'] = None\n"
        "from jetstream_console.__main__ import run; run()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.strip().endswith("pip install 'jetstream-spark[console]'")
    assert done.stderr.count("\n") == 1
