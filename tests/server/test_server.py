"""The whole process: start, readiness, files, signals, folders in use."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import urllib.request
from pathlib import Path

import pytest
from jetstream_server.config.options import ServerOptions
from jetstream_server.server import Server


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(start_server, tmp_path, number):
    server = start_server("-js", "-sd", str(tmp_path))
    assert server.port
    client = socket.create_connection(("127.0.0.1", server.port))
    assert client.recv(4096).startswith(b"INFO {")
    assert server.end(number) == 0
    assert "Initiating Shutdown..." in server.said and "Server Exiting.." in server.said
    assert client.recv(4096) == b""


def test_log_lines_come_in_the_order_that_tools_expect(start_server, tmp_path):
    server = start_server("-js", "-sd", str(tmp_path), "-m", "-1", "--name", "here")
    places = [
        server.said.index(part)
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
    port = server.listening("http monitor")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=60) as answer:
        assert json.loads(answer.read()) == {"status": "ok"}


def test_pid_and_ports_files(start_server, tmp_path):
    pid = tmp_path / "pid"
    server = start_server("-P", str(pid), "--ports_file_dir", str(tmp_path))
    assert int(pid.read_text()) == server.process.pid
    ports = tmp_path / f"nats-server_{server.process.pid}.ports"
    assert json.loads(ports.read_text()) == {"nats": [f"nats://127.0.0.1:{server.port}"]}
    server.end()
    assert not ports.exists()


def test_a_second_server_on_one_folder_is_refused(start_server, tmp_path):
    first = start_server("-js", "-sd", str(tmp_path))
    second = start_server("-js", "-sd", str(tmp_path))
    assert second.process.wait(60) == 1
    for word in ("[FTL]", "another server", str(tmp_path)):
        assert word in second.said
    assert first.end() == 0


def test_a_port_in_use_is_one_clear_line(start_server):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = start_server("-p", str(port))
        assert server.process.wait(60) == 1
        assert "[FTL] Error listening on port" in server.said and "already in use" in server.said
        assert "Traceback" not in server.said


def test_a_folder_that_cannot_be_used_is_one_clear_line(start_server, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    server = start_server("-js", "-sd", str(blocked))
    assert server.process.wait(60) == 1
    assert "[FTL]" in server.said and "Traceback" not in server.said


def test_users_from_a_configuration_file(start_server, tmp_path):
    config = Path(tmp_path / "a.conf")
    config.write_text(
        "authorization { user: ann, password: pw, timeout: 60 }\n"
        f'jetstream: {{ store_dir: "{tmp_path}" }}\n'
    )
    server = start_server("-c", str(config))
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


def log_in(server, user: str) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", server.port))
    assert client.recv(4096).startswith(b"INFO {")
    connect = {"user": user, "pass": "x", "verbose": False, "protocol": 1}
    client.sendall(b"CONNECT " + json.dumps(connect).encode() + b"\r\nPING\r\n")
    return client


def test_a_hangup_has_the_configuration_read_again(start_server, tmp_path):
    config = tmp_path / "server.conf"
    config.write_text(RELOADED % ("", ""))
    server = start_server("-c", str(config))
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


def test_an_operator_has_changed_accounts_followed(start_server, tmp_path, credentials):
    """In steps, as there may be thousands of links; who asked is told when they are followed."""
    config = tmp_path / "a.conf"
    operator = credentials.OPERATOR
    signed = credentials.token("operator", operator, operator.public, "operator", {})

    def write(count, name="here"):
        exports = [{"type": "stream", "subject": f"x.{n}"} for n in range(count)]
        source = credentials.account_key("E").public
        imports = [each | {"account": source} for each in exports]
        tokens = {
            "SYS": credentials.account("SYS", {}),
            "E": credentials.account("E", {}, exports=exports),
            "I": credentials.account("I", {}, imports=imports),
        }
        preloaded = "\n".join(
            f"{credentials.account_key(each).public}: {token}" for each, token in tokens.items()
        )
        config.write_text(
            f"server_name: {name}\noperator: {signed}\nresolver: MEMORY\n"
            f"system_account: {credentials.account_key('SYS').public}\n"
            f"resolver_preload {{ {preloaded} }}\n"
        )

    def connected(account):
        token = credentials.user(account, account, bearer_token=True)
        client = socket.create_connection(("127.0.0.1", server.port), 60)
        options = json.dumps({"jwt": token, "verbose": False})
        client.sendall(f"CONNECT {options}\r\nSUB > 1\r\nPING\r\n".encode())
        lines = client.makefile("rb")
        return client, lines, list(iter(lines.readline, b"PONG\r\n"))

    def heard(subject):
        client.sendall(b"PUB %b 2\r\nhi\r\nPING\r\n" % subject)
        list(iter(lines.readline, b"PONG\r\n"))
        listener.sendall(b"PING\r\n")
        return [line for line in iter(listening.readline, b"PONG\r\n") if line[:3] == b"MSG"]

    def reload():
        where = json.loads(said[0].partition(b" ")[2])["server_id"]
        system.sendall(f"SUB r 2\r\nPUB $SYS.REQ.SERVER.{where}.RELOAD r 0\r\n\r\n".encode())
        while not answers.readline().startswith(b"MSG r 2 "):
            pass
        return json.loads(answers.readline())

    write(3)
    server = start_server("-c", str(config))
    client, lines, _ = connected("E")
    listener, listening, _ = connected("I")
    system, answers, said = connected("SYS")
    assert heard(b"x.2") and not heard(b"x.600")
    write(700)
    assert "error" not in reload()
    assert heard(b"x.600") == [b"MSG x.600 1 2\r\n"]
    write(2, name="elsewhere")
    assert "error" in reload() and heard(b"x.600"), "what cannot be followed changes nothing"
    write(2)
    assert "error" not in reload()
    assert heard(b"x.1") and not heard(b"x.600")
    assert server.end() == 0


def test_without_a_file_there_is_nothing_to_read_again(start_server, tmp_path):
    server = start_server()
    server.process.send_signal(signal.SIGHUP)
    log = server.process.stderr
    assert log is not None
    assert "can only reload config when a file is provided" in next(
        line for line in log if "[ERR]" in line
    )


def test_a_lame_duck_moves_its_clients_on(start_server, tmp_path):
    config = tmp_path / "server.conf"
    config.write_text(RELOADED % ("", 'lame_duck_duration: "30s", lame_duck_grace_period: "0s"'))
    server = start_server("-c", str(config))
    client = log_in(server, "a")
    told = client.recv(4096)
    while b"connect_info" not in told:
        told += client.recv(4096)
    server.process.send_signal(signal.SIGUSR2)
    told = b""
    while data := client.recv(4096):
        told += data
    assert b'"ldm":true' in told
    assert server.process.wait(60) == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port))


def test_a_lame_duck_without_clients_ends_at_once(start_server):
    server = start_server()
    assert server.end(signal.SIGUSR2) == 0
    assert "Entering lame duck mode, stop accepting new clients" in server.said


def test_every_listener_of_every_address_takes_both_families(start_server, tmp_path):
    """For many clients `localhost` is `::1` first."""
    config = tmp_path / "server.conf"
    config.write_text('websocket { listen: "0.0.0.0:-1", no_tls: true }\n')
    server = start_server("-a", "0.0.0.0", "-m", "-1", "-c", str(config))
    found = re.findall(r"(client|websocket|http)[^\n]* on \S*0\.0\.0\.0:(\d+)", server.said)
    ports = {kind: int(port) for kind, port in found}
    assert ports.keys() == {"client", "websocket", "http"}
    families = ["127.0.0.1"] + (["::1"] if socket.has_dualstack_ipv6() else [])
    for address in families:
        for kind, port in ports.items():
            with socket.create_connection((address, port), 60) as client:
                if kind != "client":
                    client.sendall(b"GET /varz HTTP/1.1\r\nHost: h\r\n\r\n")
                assert client.recv(4096).startswith(b"INFO {" if kind == "client" else b"HTTP/1.1")


def test_clients_have_turns_while_a_long_reload_is_followed():
    """A thousand accounts that import from each other took 40 ms in one piece."""
    server, heard, told = Server(ServerOptions(), None), [], []

    def steps():
        for number in range(3):
            heard.append(number)
            yield
        return "wrong"

    async def main():
        loop = asyncio.get_running_loop()
        server._go_on_reloading(steps(), told.append)
        for _ in range(3):
            loop.call_soon(heard.append, "a client")
            await asyncio.sleep(0)
        assert heard == [0, 1, "a client", 2, "a client", "a client"] and told == ["wrong"]
        server._go_on_reloading(steps(), told.append)
        server._ended.set()
        await asyncio.sleep(0)
        assert heard[6:] == [0] and told[1:] == ["the server is shutting down"]

    asyncio.run(main())
