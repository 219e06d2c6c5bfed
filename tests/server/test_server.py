"""The whole process: start, readiness, files, signals, folders in use."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest


class Process:
    """A server process and what it said."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jetstream_server", "-a", "127.0.0.1", "-p", "-1", *arguments],
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if "Server is ready" in line:
                break
        found = re.search(r"client connections on 127\.0\.0\.1:(\d+)", "".join(self.lines))
        self.port = int(found[1]) if found else 0

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(20)
        assert self.process.stderr is not None
        self.lines += self.process.stderr.readlines()
        self.process.stderr.close()
        return code

    def said(self, text: str) -> bool:
        return any(text in line for line in self.lines)


@pytest.fixture
def start():
    started: list[Process] = []

    def make(*arguments: str) -> Process:
        started.append(Process(*arguments))
        return started[-1]

    yield make
    for process in started:
        if process.process.poll() is None:
            process.process.kill()
            process.process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(start, tmp_path, number):
    server = start("-js", "-sd", str(tmp_path))
    assert server.port
    client = socket.create_connection(("127.0.0.1", server.port))
    assert client.recv(4096).startswith(b"INFO {")
    assert server.end(number) == 0
    assert server.said("Initiating Shutdown...") and server.said("Server Exiting..")
    assert client.recv(4096) == b""


def test_log_lines_come_in_the_order_that_tools_expect(start, tmp_path):
    server = start("-js", "-sd", str(tmp_path), "-m", "-1", "--name", "here")
    text = "".join(server.lines)
    places = [
        text.index(part)
        for part in (
            "Starting nats-server",
            "Version:",
            "Name:     here",
            "Starting JetStream",
            "Starting http monitor on 127.0.0.1:",
            "Listening for client connections on 127.0.0.1:",
            "Server is ready",
        )
    ]
    assert places == sorted(places)
    port = re.search(r"http monitor on 127\.0\.0\.1:(\d+)", text)
    assert port is not None
    with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/healthz", timeout=5) as answer:
        assert json.loads(answer.read()) == {"status": "ok"}


def test_pid_and_ports_files(start, tmp_path):
    pid = tmp_path / "pid"
    server = start("-P", str(pid), "--ports_file_dir", str(tmp_path))
    assert int(pid.read_text()) == server.process.pid
    ports = tmp_path / f"nats-server_{server.process.pid}.ports"
    assert json.loads(ports.read_text()) == {"nats": [f"nats://127.0.0.1:{server.port}"]}
    server.end()
    assert not ports.exists()


def test_a_second_server_on_one_folder_is_refused(start, tmp_path):
    first = start("-js", "-sd", str(tmp_path))
    second = start("-js", "-sd", str(tmp_path))
    assert second.process.wait(20) == 1
    assert second.said("[FTL]") and second.said("another server") and second.said(str(tmp_path))
    assert first.end() == 0


def test_a_port_in_use_is_one_clear_line(start):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = start("-p", str(port))
        assert server.process.wait(20) == 1
        assert server.said("[FTL] Error listening on port") and server.said("already in use")
        assert not server.said("Traceback")


def test_a_folder_that_cannot_be_used_is_one_clear_line(start, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    server = start("-js", "-sd", str(blocked))
    assert server.process.wait(20) == 1
    assert server.said("[FTL]") and not server.said("Traceback")


def test_users_from_a_configuration_file(start, tmp_path):
    config = Path(tmp_path / "a.conf")
    config.write_text(
        f'authorization {{ user: ann, password: pw }}\njetstream: {{ store_dir: "{tmp_path}" }}\n'
    )
    server = start("-c", str(config))
    client = socket.create_connection(("127.0.0.1", server.port))
    assert b'"auth_required":true' in client.recv(4096)
    client.sendall(b'CONNECT {"user":"ann","pass":"pw"}\r\n')
    assert client.recv(4096) == b"+OK\r\n"
    other = socket.create_connection(("127.0.0.1", server.port))
    other.recv(4096)
    other.sendall(b"PING\r\n")
    assert other.recv(4096) == b"-ERR 'Authorization Violation'\r\n"


RELOADED = """
accounts: {A: {users: [{user: a, password: x}%s]}}
%s
"""


def log_in(server: Process, user: str) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", server.port))
    assert client.recv(4096).startswith(b"INFO {")
    connect = {"user": user, "pass": "x", "verbose": False, "protocol": 1}
    client.sendall(b"CONNECT " + json.dumps(connect).encode() + b"\r\nPING\r\n")
    return client


def test_a_hangup_has_the_configuration_read_again(start, tmp_path):
    config = tmp_path / "server.conf"
    config.write_text(RELOADED % ("", ""))
    server = start("-c", str(config))
    log = server.process.stderr
    assert log is not None

    def hang_up(text: str, until: str) -> str:
        config.write_text(text)
        server.process.send_signal(signal.SIGHUP)
        for line in log:
            if until in line:
                return line
        raise AssertionError(until)

    assert b"-ERR 'Authorization Violation'" in log_in(server, "b").recv(4096)
    hang_up(RELOADED % (", {user: b, password: x}", ""), "Reloaded server configuration (sha256:")
    assert b"PONG" in log_in(server, "b").recv(4096)
    line = hang_up(RELOADED % ("", "max_subs: 5"), "Failed to reload")
    assert "config reload not supported for MaxSubs: old=0, new=5" in line
    assert 'unknown field "nope"' in hang_up(RELOADED % ("", "nope: 1"), "Failed to reload")
    assert b"PONG" in log_in(server, "b").recv(4096)


def test_without_a_file_there_is_nothing_to_read_again(start, tmp_path):
    server = start()
    server.process.send_signal(signal.SIGHUP)
    log = server.process.stderr
    assert log is not None
    assert "can only reload config when a file is provided" in next(
        line for line in log if "[ERR]" in line
    )


def test_a_lame_duck_moves_its_clients_on(start, tmp_path):
    config = tmp_path / "server.conf"
    config.write_text(RELOADED % ("", 'lame_duck_duration: "30s", lame_duck_grace_period: "0s"'))
    server = start("-c", str(config))
    client = log_in(server, "a")
    told = client.recv(4096)
    while b"connect_info" not in told:
        told += client.recv(4096)
    server.process.send_signal(signal.SIGUSR2)
    told = b""
    while data := client.recv(4096):
        told += data
    assert b'"ldm":true' in told
    assert server.process.wait(20) == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port))


def test_a_lame_duck_without_clients_ends_at_once(start):
    server = start()
    assert server.end(signal.SIGUSR2) == 0
    assert server.said("Entering lame duck mode, stop accepting new clients")
