"""Random permissions, with and without queues, mean the same to both servers.

The bundled server delivers less in one case: what no entry allows, although the subscription that
reaches it was let in (`>` is let in by `*`).
"""

from __future__ import annotations

import importlib
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from jetstream_server.core.subject import is_subset, matches

SEEDS = range(1, 3)
USERS = 100
_TOKENS = ("a", "a", "b", "*")
_QUEUES = ("", "", "q", "r", "q.a", "*", "q.*", ">")
_GROUPS = ("q", "q", "r", "*", ">", "q.*", "q.a", "q.>")
SUBJECTS = [".".join(each) for n in (1, 2, 3) for each in itertools.product("ab", repeat=n)]


@dataclass
class Case:
    """A user, and the one subscription that it tries."""

    permissions: dict[str, list[str]]
    subject: str
    queue: str
    fault: dict[str, str] = field(default_factory=dict)
    got: dict[str, list[str]] = field(default_factory=dict)

    def allows(self, subject: str) -> bool:
        """Tell whether any entry that is about this queue, or every one, allows a subject."""
        for entry in self.permissions.get("allow") or [">"]:
            pattern, _, group = entry.encode().partition(b" ")
            is_about = not group or (self.queue and is_subset(self.queue.encode(), group))
            if is_about and matches(pattern, subject.encode()):
                return True
        return False


def _pattern(random: Random) -> str:
    tokens = [random.choice(_TOKENS) for _ in range(random.randint(1, 3))]
    if random.random() < 0.3:
        tokens[-1] = ">"
    return ".".join(tokens)


def _entry(random: Random) -> str:
    group = f" {random.choice(_GROUPS)}" if random.random() < 0.45 else ""
    return _pattern(random) + group


def _case(random: Random) -> Case:
    permissions = {
        kind: [_entry(random) for _ in range(random.randint(1, 3))]
        for kind in ("allow", "deny")
        if random.random() < 0.6
    }
    return Case(permissions, _pattern(random), random.choice(_QUEUES))


def _config(cases: list[Case]) -> str:
    users = [{"user": "root", "password": "x", "permissions": {}}]
    for number, case in enumerate(cases):
        rules = {"subscribe": case.permissions} if case.permissions else {}
        users.append({"user": f"u{number}", "password": "x", "permissions": rules})
    return f"authorization {{ users: {json.dumps(users)} }}\n"


def _play(wire: Callable[..., Any], port: int, name: str, cases: list[Case]) -> None:
    connects = [
        json.dumps({"verbose": False, "user": user, "pass": "x"}).encode()
        for user in ("root", *(f"u{number}" for number in range(len(cases))))
    ]
    root = wire(port, connects[0])
    for case, connect in zip(cases, connects[1:], strict=True):
        client = wire(port, connect)
        client.write(f"SUB {case.subject} {case.queue} 1\r\nPING\r\n".encode())
        first = client.line(60).decode()
        case.fault[name] = "" if first == "PONG" else first
        if first != "PONG":
            client.line(60)
        root.write(b"".join(b"PUB %b 0\r\n\r\n" % subject.encode() for subject in SUBJECTS))
        root.settle()
        client.settle()
        case.got[name] = [message.subject for message in client.taken]
        client.close()
    root.close()


@pytest.mark.genuine
@pytest.mark.parametrize("seed", SEEDS)
def test_random_rules(player: Any, genuine_binary: str, seed: int) -> None:
    process = importlib.import_module("tests.parity.server_process")
    random = Random(seed)
    cases = [_case(random) for _ in range(USERS)]
    for name, command in (("ours", process.bundled_command()), ("theirs", [genuine_binary])):
        server = process.ServerProcess(command, _config(cases))
        try:
            server.start()
            _play(player.Wire, server.port, name, cases)
        finally:
            server.end()
    for case in cases:
        assert case.fault["ours"] == case.fault["theirs"], case
        kept = [subject for subject in case.got["theirs"] if case.allows(subject)]
        assert case.got["ours"] == kept, case
    assert any(case.fault["ours"] for case in cases) and any(case.got["ours"] for case in cases)
