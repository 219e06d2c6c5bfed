"""Accounts on both servers: what a configuration gets wrong, what the system account is told.

What crosses between accounts is played by the scenarios of `imports.txt`.
"""

from __future__ import annotations

import json
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests import nursery

pytestmark = pytest.mark.genuine

CONFIG = """
jetstream: {max_mem: 64MB, max_file: 64MB}
no_auth_user: open
system_account: SYS
lame_duck_duration: "30s", lame_duck_grace_period: "0s"
accounts: {
  OPEN: {users: [{user: open, password: x}]}
  A: {jetstream: enabled, users: [{user: a, password: x}%s]}
  SYS: {users: [{user: sys, password: x}]}
}
%s
"""

# Each is one account's exports and imports, beside an account X that exports.
EXPORTER = """X {
  exports: [{stream: s}, {service: v}, {stream: 'w.*'}, {service: p, accounts: [Y]}]
}
"""
WRONG = [
    "exports: 5",
    "exports: [{stream: 5 }]",
    'exports: [{stream: "a"\n service: "b"}]',
    'exports: [{stream: "a"\n response: single}]',
    'exports: [{service: "a"\n response: nope}]',
    'exports: [{service: "a"\n threshold: "5x"}]',
    'exports: [{service: "a"\n latency: {sampling: 500, subject: l}}]',
    'exports: [{service: "a"\n accounts: [ZZ]}]',
    'exports: [{service: "a.*"\n account_token_position: 5 }]',
    'exports: [{service: "a", nope: 1 }]',
    "imports: [{stream: {account: X}}]",
    "imports: [{service: {account: 5 , subject: X}}]",
    "imports: [{service: {account: ZZ, subject: X}}]",
    "imports: [{service: {account: X, subject: p}}]",
    "imports: [{stream: {account: X, subject: nope}}]",
    'imports: [{stream: {account: X, subject: s}, prefix: "p.*"}]',
    'imports: [{stream: {account: X, subject: "w.*"}, to: p}]',
    'imports: [{stream: {account: X, subject: "w.*"}, to: "p.$2"}]',
    "imports: [{service: {account: X, subject: v}, allow_trace: true}]",
    "imports: [{service: {account: X, subject: v}}, {service: {account: X, subject: v}}]",
    "imports: [{stream: {account: X, subject: s}}, {stream: {account: X, subject: s}}]",
]
_MASKS = [
    (re.compile(r'"server":\{[^{}]*(\{[^{}]*\})?[^{}]*\}'), '"server":{}'),
    (re.compile(r'"(bytes|rtt|id|num_subscriptions)":\d+'), r'"\1":0'),
    (re.compile(r'"(start|stop|timestamp|time)":"[^"]+"'), r'"\1":""'),
    (re.compile(r'"id":"\w{22}"'), '"id":""'),
    (re.compile(r"N[A-Z2-7]{55}"), "<id>"),
]
# The genuine server looks at the keys of a map in any order, and complains of the second.
_EITHER = re.compile(r':\d+:\d+: Detected (service "b" but .* stream|stream "a" but .* service)$')


@pytest.fixture
def both(player, genuine_binary):
    """Return what calls something for either server and checks that the results are the same."""

    def both(act):
        with ThreadPoolExecutor(2) as pool:
            ours, theirs = pool.map(act, (player.bundled_command(), [genuine_binary]))
        assert ours == theirs
        return ours

    return both


@pytest.mark.parametrize("text", WRONG)
def test_mistakes(both, tmp_path, text):
    config = tmp_path / "server.conf"
    config.write_text("accounts {\nB {\n " + text + "\n}\n" + EXPORTER + "Y {}\n}\n")

    def check(command):
        run = nursery.start([*command, "-c", str(config), "-t"])
        with run.stderr as log:
            lines = [_EITHER.sub(": stream and service", line) for line in log.read().split("\n")]
        return run.wait(60), sorted(lines)

    code, lines = both(check)
    assert code == 1 and any(str(config) in line for line in lines)


def masked(text: str) -> str:
    for pattern, to in _MASKS:
        text = pattern.sub(to, text)
    return text


class Watch:
    """A server with a configuration of its own, watched by the system account."""

    def __init__(self, player, command, folder):
        self.player = player
        self.config = folder / f"{len(command)}.conf"  # one for each server
        self.configure()
        self.server = player.ServerProcess([*command, "-c", str(self.config)])
        self.server.start()
        self.wire = self.log_in("sys", "watch")
        self.sid = self.wire.subscribe("$SYS.ACCOUNT.>")
        self.wire.settle()  # before others come, who are handled at its side
        self.wires = [self.wire]

    def configure(self, users: str = "", more: str = "") -> None:
        self.config.write_text(CONFIG % (users, more))

    def log_in(self, user, name, password="x"):
        connect = {**json.loads(self.player.CONNECT), "user": user, "pass": password}
        connect |= {"name": name, "protocol": 1}
        return self.player.Wire(self.server.port, json.dumps(connect).encode())

    def told(self, count):
        lines = []
        while len(lines) < count and (message := self.wire.message(self.sid, 30)) is not None:
            text = message.payload.decode()
            # Their own account's connections are told at times of each server's choosing.
            if '"acc":"SYS"' not in text:
                lines.append(masked(f"{message.subject} {text}"))
        return lines

    def request(self, subject, body=b""):
        return masked(self.request_raw(subject, body))

    def request_raw(self, subject, body=b""):
        inbox = f"_INBOX.{time.monotonic_ns()}"
        sid = self.wire.subscribe(inbox)
        self.wire.publish(subject, body, inbox)
        message = self.wire.message(sid, 30)
        return message.payload.decode() if message is not None else "silence"

    def end(self):
        for wire in self.wires:
            wire.close()
        self.server.end()


def test_system_events_and_commands(both, player, tmp_path):
    def act(command):
        watch = Watch(player, command, tmp_path)
        try:
            client = watch.log_in("a", "one")
            lines = sorted(watch.told(2))
            client.close()
            lines += sorted(watch.told(2))
            with pytest.raises(ConnectionError):
                watch.log_in("a", "bad", "wrong")
            lines += watch.told(1)
            watch.wire.unsubscribe(watch.sid)
            server = json.loads(watch.request_raw("$SYS.REQ.SERVER.PING.IDZ"))
            base = f"$SYS.REQ.SERVER.{server['id']}"
            for verb, body in (("KICK", b'{"cid":99}'), ("LDM", b'{"cid":99}'), ("RELOAD", b"")):
                lines.append(watch.request(f"{base}.{verb}", body))
            watch.configure(more="max_subs: 5")
            lines.append(watch.request(f"{base}.RELOAD"))
            watch.configure(users=", {user: late, password: x}")
            lines.append(watch.request(f"{base}.RELOAD"))
            late = watch.log_in("late", "late")
            watch.configure()
            lines.append(watch.request(f"{base}.RELOAD"))
            lines += late.ending(30)[-1:]
            return lines
        finally:
            watch.end()

    lines = both(act)
    assert [line.split(" ")[0] for line in lines[:5]] == [
        "$SYS.ACCOUNT.A.CONNECT",
        "$SYS.ACCOUNT.A.SERVER.CONNS",
        "$SYS.ACCOUNT.A.DISCONNECT",
        "$SYS.ACCOUNT.A.SERVER.CONNS",
        "$SYS.ACCOUNT.$G.DISCONNECT",
    ]
    assert "not supported for MaxSubs" in lines[8]


def test_lame_duck(both, player, tmp_path):
    def act(command):
        watch = Watch(player, command, tmp_path)
        try:
            client = watch.log_in("a", "one")
            watch.server.process.send_signal(signal.SIGUSR2)
            infos = [line for line in client.ending(60) if line.startswith("INFO")]
            last = json.loads(infos[-1][5:])
            return last["ldm"], last.get("connect_info"), watch.server.process.wait(60)
        finally:
            watch.end()

    assert both(act) == (True, None, 0)
