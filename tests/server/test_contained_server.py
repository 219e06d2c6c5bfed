"""A server process in which exceptions are planted goes on; only what the table says is given up.

What trips is in `tests/planted_server.py`.
"""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CONFIG = """
accounts {{
  A {{ jetstream: enabled, users: [{{user: a, password: x}}],
       exports: [{{stream: "news.>"}}, {{stream: "other.>"}}, {{service: "help"}}] }}
  B {{ users: [{{user: b, password: x}}],
       imports: [{{stream: {{account: A, subject: "news.>"}}, prefix: "from"}},
                 {{service: {{account: A, subject: "help"}}}},
                 {{stream: {{account: A, subject: "other.>"}}, to: "poison.>"}}] }}
}}
jetstream {{ store_dir: "{folder}" }}
"""
# As soon as it is so, on however busy a machine; and it has an end.
LONGEST_SECONDS = 60


class Process:
    """The server, with exceptions planted."""

    def __init__(self, folder: Path) -> None:
        config = folder / "server.conf"
        config.write_text(CONFIG.format(folder=folder / "store"))
        command = [sys.executable, "-m", "tests.planted_server", "-a", "127.0.0.1", "-p", "-1"]
        command += ["-m", "-1", "-c", str(config)]
        self.process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.said = ""
        for line in self.process.stderr:
            self.said += line
            if "Server is ready" in line:
                break
        self.port = self._found(r"client connections on 127\.0\.0\.1:(\d+)")
        self.http = self._found(r"http monitor on 127\.0\.0\.1:(\d+)")

    def _found(self, pattern: str) -> int:
        found = re.search(pattern, self.said)
        assert found, self.said
        return int(found[1])

    def page(self, path: str) -> Any:
        url = f"http://127.0.0.1:{self.http}{path}"
        try:
            with urllib.request.urlopen(url) as page:
                text = page.read().decode()
        except urllib.error.HTTPError as error:
            text = error.read().decode()
        return json.loads(text) if text.startswith("{") else text

    def ailments(self) -> list[str]:
        """Return what healthz complains of."""
        return [each["error"] for each in self.page("/healthz?details=true").get("errors", [])]

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.stderr is not None
        with self.process.stderr as log:
            self.said += log.read()
        return self.process.wait(60)


class Client:
    """A connection; reads until what it waits for has come."""

    def __init__(self, server: Process, user: str = "a", name: str = "") -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.port), LONGEST_SECONDS)
        self.heard = b""
        self.served = 0
        options = {"user": user, "pass": "x", "name": name, "verbose": False, "headers": True}
        options |= {"no_responders": True}
        self.say(b"CONNECT %b\r\nSUB _I.> 1\r\n" % json.dumps(options).encode())
        self._number = 0

    def say(self, data: bytes) -> bytes:
        """Say something, and return what was heard until that was acted on."""
        before = len(self.heard)
        self.socket.sendall(data + b"PING\r\n")
        while b"PONG\r\n" not in self.heard[before:]:
            self._hear()
        return self.heard[before:]

    def _hear(self) -> None:
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError(self.heard[-200:].decode(errors="replace"))
        self.heard += data

    def until(self, text: bytes) -> bytes:
        before = len(self.heard)
        while text not in self.heard:
            self._hear()
        return self.heard[before:]

    def ask(self, subject: str, body: Any = b"") -> Any:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._number += 1
        inbox = b"_I.%d" % self._number
        self.socket.sendall(b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), inbox, len(data), data))
        pattern = re.compile(rb"(?<!H)MSG " + inbox + rb" 1 (?:\S+ )?(\d+)\r\n")
        while not (found := pattern.search(self.heard)):
            if b"HMSG " + inbox + b" " in self.heard:
                return None  # no responders
            self._hear()
        while len(self.heard) < found.end() + int(found[1]):
            self._hear()
        return json.loads(self.heard[found.end() : found.end() + int(found[1])])

    def api(self, subject: str, body: Any = b"") -> Any:
        return self.ask("$JS.API." + subject, body)


def once(condition: Any) -> Any:
    """Wait until something is so, and return it."""
    deadline = time.monotonic() + LONGEST_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.02)
    return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Process]:
    process = Process(tmp_path)
    yield process
    if process.process.poll() is None:
        process.process.kill()
        process.process.communicate()


@pytest.fixture
def witness(server: Process) -> Client:
    """Somebody with a stream and a consumer of their own, whom nothing must touch."""
    client = Client(server)
    client.api("STREAM.CREATE.W", {"name": "W", "subjects": ["w.>"]})
    config = {"durable_name": "C", "ack_policy": "explicit"}
    client.api("CONSUMER.CREATE.W.C", {"stream_name": "W", "config": config})
    return client


def is_served(witness: Client) -> bool:
    """Tell whether the witness is: what it publishes is stored, delivered and acknowledged."""
    witness.served += 1
    assert witness.ask("w.a", b"%d" % witness.served)["seq"] == witness.served
    witness.say(b"PUB $JS.API.CONSUMER.MSG.NEXT.W.C _I.pull 0\r\n\r\n")
    mark = b" $JS.ACK.W.C.1.%d.%d." % (witness.served, witness.served)
    witness.until(mark)
    start = witness.heard.index(mark) + 1
    witness.say(b"PUB %b 0\r\n\r\n" % witness.heard[start : witness.heard.index(b" ", start)])
    return True


def test_a_frame(server, witness):
    poisoned = Client(server, name="poison")
    with pytest.raises(ConnectionError, match="-ERR 'Internal Server Error'"):
        poisoned.say(b"SUB a 7\r\nUNSUB 7\r\n")
    assert is_served(witness) and server.ailments() == []
    assert server.page("/varz")["contained_incidents"]["connection"] == 1
    counted = r'gnatsd_varz_contained_incidents\w*\{domain="connection",server_id="\w+"\} (\S+)\n'
    assert [float(each) for each in re.findall(counted, server.page("/metrics"))] == [1]
    for _ in range(5):
        with pytest.raises(ConnectionError):
            Client(server, name="poison").say(b"SUB a 7\r\nUNSUB 7\r\n")
    assert server.page("/varz")["contained_incidents"]["connection"] == 6
    assert is_served(witness) and server.end() == 0
    assert server.said.count("contained, connection given up") == 1  # a cause is logged once
    assert "in _on_unsub" in server.said


def test_a_request(server, witness):
    error = witness.api("STREAM.INFO.POISON")["error"]
    assert (error["code"], error["err_code"]) == (500, 10051)
    assert re.fullmatch(
        r"internal server error \(incident 1 in the server's log\)", error["description"]
    )
    assert is_served(witness) and server.ailments() == []
    assert server.page("/varz")["contained_incidents"]["request"] == 1
    assert server.end() == 0


def test_a_consumer(server, witness):
    config = {"durable_name": "poison", "ack_policy": "explicit"}
    witness.api("CONSUMER.CREATE.W.poison", {"stream_name": "W", "config": config})
    error = once(lambda: witness.api("CONSUMER.INFO.W.poison").get("error"))
    assert error["err_code"] == 10195 and "incident" in error["description"]
    (ailment,) = server.ailments()
    assert ailment.startswith("JetStream consumer 'A > W > poison' is stopped: internal server")
    assert is_served(witness)
    # It trips once more when it is restarted, and the time after that it does not.
    once(lambda: "error" not in witness.api("CONSUMER.INFO.W.poison"))
    assert server.page("/varz")["contained_incidents"]["consumer"] == 2
    assert server.ailments() == [] and is_served(witness)
    witness.say(b"PUB $JS.API.CONSUMER.MSG.NEXT.W.poison _I.late 0\r\n\r\n")
    witness.until(b" $JS.ACK.W.poison.1.1.")
    assert server.end() == 0 and "consumer poison of stream W was restarted" in server.said


def test_a_stream(server, witness):
    witness.api(
        "STREAM.CREATE.S",
        {"name": "S", "subjects": ["s.>"], "republish": {"src": "none.>", "dest": "gone.>"}},
    )
    assert [witness.ask("s.a", b"%d" % n)["seq"] for n in range(3)] == [1, 2, 3]
    witness.say(b"PUB s.a 6\r\npoison\r\n")
    error = witness.api("STREAM.INFO.S")["error"]
    assert error["err_code"] == 10194 and "incident 1 in the server's log" in error["description"]
    assert [each for each in server.ailments() if "'A > S' is offline" in each]
    assert witness.ask("s.a", b"x") is None and is_served(witness)
    state = once(lambda: witness.api("STREAM.INFO.S").get("state"))  # it is brought back
    assert state["messages"] >= 3 and server.ailments() == []
    assert witness.ask("s.a", b"x")["seq"] == state["last_seq"] + 1
    witness.say(b"PUB s.a 6\r\npoison\r\n")
    error = witness.api("STREAM.INFO.S")["error"]
    assert error["description"].endswith("for the same input as before, so it stays offline")
    assert is_served(witness) and len(server.ailments()) == 1
    assert server.page("/varz")["contained_incidents"]["stream"] == 2
    assert server.end() == 0


def test_a_source(server, witness):
    witness.api("STREAM.CREATE.POISONED", {"name": "POISONED", "subjects": ["p.>"]})
    config = {"name": "T", "subjects": ["t.>"], "sources": [{"name": "W"}, {"name": "POISONED"}]}
    witness.api("STREAM.CREATE.T", config)
    assert witness.ask("p.a", b"x")["seq"] == 1
    (ailment,) = once(server.ailments)
    assert "JetStream stream 'A > T' copies nothing from 'POISONED'" in ailment
    assert is_served(witness)
    # The other source and what is published to the stream go on meanwhile, this one in the end.
    assert witness.ask("t.a", b"x")["seq"]
    once(lambda: witness.api("STREAM.INFO.T")["state"]["messages"] == 3)
    assert once(lambda: not server.ailments())
    assert server.page("/varz")["contained_incidents"]["source"] == 2
    assert witness.api("STREAM.INFO.T")["state"]["messages"] == 3
    assert server.end() == 0


def test_an_import(server, witness):
    other = Client(server, "b")
    other.say(b"SUB from.news.> 2\r\nSUB poison.> 3\r\n")
    once(lambda: len(server.ailments()) >= 1)
    assert all("import of 'poison.>' by 'B' from 'A' is closed" in e for e in server.ailments())
    witness.say(b"SUB help 9\r\nPUB news.x 5\r\nhello\r\n")
    other.until(b"MSG from.news.x 2 5\r\nhello\r\n")  # the other import goes on
    other.socket.sendall(b"PUB help _I.h 0\r\n\r\n")
    witness.until(b"MSG help 9 _R_.")  # and so do services
    assert is_served(witness) and b"PONG" in other.say(b"")
    assert server.page("/varz")["contained_incidents"]["link"] >= 1
    assert server.end() == 0


def test_a_reload(server, witness, tmp_path):
    config = tmp_path / "server.conf"
    text = config.read_text()
    config.write_text(text.replace("accounts {", "accounts { POISON { users: [{user: p}] }"))
    server.process.send_signal(signal.SIGHUP)
    once(lambda: "the configuration was followed in part" in "".join(server.ailments()))
    assert is_served(witness)
    config.write_text(text)
    server.process.send_signal(signal.SIGHUP)
    once(lambda: not server.ailments())
    assert is_served(witness) and server.end() == 0
    assert "Failed to reload server configuration: internal server error" in server.said


def test_the_queue_to_the_disk_ends_the_process(server, witness):
    assert is_served(witness)
    with pytest.raises(ConnectionError):
        witness.api("STREAM.CREATE.DISK", {"name": "DISK", "subjects": ["d.>"]})
        witness.ask("d.a", b"x")
    server.said += server.process.stderr.read()
    assert server.process.wait(60) == 2 and "[FTL] internal error: PlantedError" in server.said


@pytest.mark.parametrize("error", ["PlantedError", "MemoryError"])
def test_the_pump_and_a_lack_of_memory_end_the_process(server, witness, tmp_path, error):
    assert is_served(witness)
    with contextlib.suppress(ConnectionError):  # what it asks for may be answered before
        if error == "MemoryError":
            witness.api("STREAM.INFO.HUGE")
        else:
            Client(server, name="pump")
    server.said += server.process.stderr.read()
    assert server.process.wait(60) == 2 and f"[FTL] internal error: {error}" in server.said
    again = Process(tmp_path)
    try:
        assert Client(again).api("STREAM.INFO.W")["state"]["messages"] == witness.served
    finally:
        again.end()


def test_it_starts_again_with_all_that_was_acknowledged(server, witness, tmp_path):
    test_a_stream(server, witness)
    again = Process(tmp_path)
    try:
        client = Client(again)
        assert client.api("STREAM.INFO.S")["state"]["messages"] >= 4
        assert client.api("STREAM.INFO.W")["state"]["messages"] == witness.served
        assert again.ailments() == []
    finally:
        assert again.end() == 0
