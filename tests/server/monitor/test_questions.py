"""Whoever asks the system for much waits for it, and nobody else does."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from jetstream_server.core.containment import Containment
from jetstream_server.monitor import connz, jsz, questions, subsz
from jetstream_server.monitor.questions import WAITING_MAX
from jetstream_server.node.node import Node

ALL = '{"subscriptions_detail":true,"subscriptions":true,"streams":true,"consumers":true}'


@pytest.fixture
def slow_node(node: Node, monkeypatch: pytest.MonkeyPatch) -> Node:
    """The node, whose steps are small."""
    for module, name in ((connz, "LOOKED_AT_ONCE"), (subsz, "LOOKED_AT_ONCE")):
        monkeypatch.setattr(module, name, 3)
    monkeypatch.setattr(jsz, "SHOWN_AT_ONCE", 1)
    return node


@pytest.fixture
def join(connect: Callable[..., Any]) -> Callable[..., Any]:
    """Return what connects clients that hear answers by their numbers."""

    def joined(user: str, port: int = 5000) -> Any:
        client = connect(user, port)
        client.say(b"SUB _R.* 2\r\n")
        return client

    return joined


def ask(client: Any, subject: str, reply: str, body: str = "") -> None:
    """Have a question heard, without a turn."""
    client.session.feed(f"PUB {subject} {reply} {len(body)}\r\n{body}\r\n".encode())


def turn(client: Any, now: int) -> list[tuple[str, Any]]:
    """Let a turn pass; return the answers that come with it."""
    data, found = client.say(b"", now), []
    while data:
        line, _, data = data.partition(b"\r\n")
        words = line.split(b" ")
        if words[0] != b"MSG":
            continue
        size = int(words[-1])
        found.append((words[1].decode(), json.loads(data[:size])))
        data = data[size + 2 :]
    return found


@pytest.fixture
def answers(now: int) -> Callable[..., dict[str, Any]]:
    """Return what lets turns pass until so many answers have come."""

    def until(client: Any, count: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for number in range(5000):
            found |= dict(turn(client, now + number * 10_000_000))
            if len(found) >= count:
                return found
        raise AssertionError(f"{len(found)} answers of {count}")

    return until


def test_a_short_answer_comes_at_once(join, now):
    client = join("g")
    ask(client, "$SYS.REQ.SERVER.PING.CONNZ", "_R.1")
    ((reply, answer),) = turn(client, now)
    assert reply == "_R.1" and answer["data"]["num_connections"] == 1


def test_a_long_one_comes_after_others_were_heard(slow_node, join, answers, now):
    client, other = join("g"), join("g", 5001)
    client.say(b"".join(b"SUB x.%d %d\r\n" % (n, n + 100) for n in range(50)))
    ask(client, "$SYS.REQ.SERVER.PING.CONNZ", "_R.1", ALL)
    assert turn(client, now) == []
    assert b"PONG" in other.say(b"PING\r\n")
    found = answers(client, 1)["_R.1"]["data"]["connections"]
    assert len(found[0]["subscriptions_list_detail"]) == found[0]["subscriptions"] > 50


def test_many_take_turns_and_each_is_answered_in_its_order(
    slow_node, join, answers, now, monkeypatch
):
    steps: list[int] = []
    encode_in_steps = questions.Questions._send

    def noted(self: Any, question: Any, answer: bytes) -> None:
        steps.append(int(question.reply.split(b".")[1]))
        encode_in_steps(self, question, answer)

    monkeypatch.setattr(questions.Questions, "_send", noted)
    client = join("g")
    for number in range(40):
        ask(client, "$SYS.REQ.SERVER.PING.CONNZ", f"_R.{number}", ALL)
    assert len(turn(client, now)) < 10
    answers(client, 40 - len(steps))
    assert steps == list(range(40))


def test_who_asks_for_little_is_not_behind_who_asks_for_much(slow_node, join, answers, now):
    much, little = join("g"), join("g", 5001)
    for number in range(200):
        ask(much, "$SYS.REQ.SERVER.PING.CONNZ", f"_R.{number}", ALL)
    turn(much, now)
    ask(little, "$SYS.REQ.SERVER.PING.CONNZ", "_R.x", ALL)
    heard = [reply for reply, _ in turn(little, now)]
    for number in range(60):
        turn(much, now + (number + 1) * 10_000_000)
        heard += [reply for reply, _ in turn(little, now + (number + 1) * 10_000_000)]
    assert heard.index("_R.x") <= 3  # both hear all answers


def test_only_so_many_wait(slow_node, join, answers, now):
    client = join("g")
    for number in range(WAITING_MAX + 100):
        ask(client, "$SYS.REQ.SERVER.PING.CONNZ", f"_R.{number}", ALL)
    refused = [
        answer["error"]["description"]
        for _ in range(20)
        for _, answer in turn(client, now)
        if "error" in answer
    ]
    assert refused and set(refused) == {"too many requests are waiting for their answers"}
    assert not client.session.closing


def test_only_so_many_clients_wait(slow_node, join, answers, now, monkeypatch):
    monkeypatch.setattr(questions, "CLIENTS_MAX", 1)
    first, second = join("g"), join("g", 5001)
    for number in range(9):
        ask(first, "$SYS.REQ.SERVER.PING.CONNZ", f"_R.a{number}", ALL)
    turn(first, now)
    for number in range(9):
        ask(second, "$SYS.REQ.SERVER.PING.CONNZ", f"_R.b{number}", ALL)
    found = answers(second, 18)
    refused = {reply for reply, answer in found.items() if "error" in answer}
    assert refused and all(reply.startswith("_R.b") for reply in refused)


def test_nobody_works_for_a_client_that_is_gone(slow_node, join, now, monkeypatch):
    client, other = join("g"), join("g", 5001)
    for number in range(100):
        ask(client, "$SYS.REQ.SERVER.PING.CONNZ", f"_R.{number}", ALL)
    turn(client, now)
    slow_node.close_session(client.session, "")
    for number in range(300):
        other.say(b"", now + number * 10_000_000)
    assert len(slow_node.accounts["$G"].timers) == 0


def test_what_fails_is_told_and_the_next_one_is_answered(
    slow_node, join, answers, now, monkeypatch
):
    def tripping(*given: Any) -> Any:
        yield
        raise RuntimeError("planted")

    containment = Containment(lambda level, text: None)
    for each in (slow_node, *slow_node.accounts.values()):
        monkeypatch.setattr(each, "containment", containment)
    client = join("g")
    monkeypatch.setattr("jetstream_server.monitor.system_services.connz_in_steps", tripping)
    ask(client, "$SYS.REQ.SERVER.PING.CONNZ", "_R.1")
    ask(client, "$SYS.REQ.USER.INFO", "_R.2")
    found = answers(client, 2)
    assert "internal server error" in found["_R.1"]["error"]["description"]
    assert found["_R.2"]["data"]["account"] == "$G"
