"""Starting a server beside a notebook: any program that speaks like the server will do."""

from __future__ import annotations

import os
import sys
import textwrap

import pytest

from jetstream_spark.embedded import JetStreamServer
from jetstream_spark.errors import ServerNotStartedError


@pytest.fixture
def program(tmp_path):
    """Write a small stand-in for the server and return the command that runs it."""

    def write(body: str) -> list[str]:
        file = tmp_path / "server.py"
        file.write_text("import signal, sys, time\nlog = sys.stderr\n" + textwrap.dedent(body))
        return [sys.executable, "-u", str(file)]

    return write


READY = """
    print("[1] [INF] Listening for client connections on 127.0.0.1:4567", file=log)
    print("[1] [INF] Server is ready", file=log, flush=True)
"""


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_it_runs_inside_the_block_only(program, tmp_path):
    command = program(
        READY + "    open(sys.argv[-1] + '/args', 'w').write(repr(sys.argv[1:]))\n"
        "    time.sleep(60)\n"
    )
    with JetStreamServer(tmp_path, command=command) as server:
        assert server.url == "nats://127.0.0.1:4567"
        pid = server.pid
        assert pid is not None and is_alive(pid)
    assert not is_alive(pid)
    assert server.url == "" and server.pid is None
    server.stop()


def test_it_says_what_to_install_where_there_is_no_server(monkeypatch):
    monkeypatch.setattr("jetstream_spark.embedded.find_spec", lambda name: None)
    with pytest.raises(ServerNotStartedError, match=r"pip install 'jetstream-spark\[server\]'"):
        JetStreamServer().start()


def test_a_server_that_ends_at_once_is_quoted(program):
    command = program('    print("port is taken", file=log); sys.exit(3)\n')
    with pytest.raises(ServerNotStartedError, match="ended with code 3") as raised:
        JetStreamServer(command=command).start()
    assert "port is taken" in str(raised.value)


def test_a_server_that_is_never_ready_is_stopped(program):
    command = program('    print("thinking", file=log, flush=True); time.sleep(60)\n')
    server = JetStreamServer(command=command, ready_timeout_s=0.5)
    with pytest.raises(ServerNotStartedError, match=r"within 0\.5 s"):
        server.start()
    assert server.pid is None


def test_a_program_that_is_not_there():
    with pytest.raises(ServerNotStartedError, match="cannot be run"):
        JetStreamServer(command=["/nonexistent/server"]).start()


def test_one_that_ignores_the_signal_is_killed(program):
    command = program(
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + READY + "    time.sleep(60)\n"
    )
    server = JetStreamServer(command=command).start()
    pid = server.pid
    server.stop(timeout_s=0.2)
    assert pid is not None and not is_alive(pid)


def test_much_log_does_not_block_the_server(program, tmp_path):
    command = program(
        READY
        + f"""
    for _ in range(20000): print("x" * 100, file=log)
    open({str(tmp_path / "done")!r}, "w").close()
    time.sleep(60)
    """
    )
    with JetStreamServer(command=command):
        while not (tmp_path / "done").exists():
            pass


@pytest.mark.genuine
def test_the_genuine_server_speaks_the_same_way(genuine, tmp_path):
    command = genuine.process.args[:1]
    with JetStreamServer(tmp_path, command=command) as server:
        assert server.url.startswith("nats://127.0.0.1:")
