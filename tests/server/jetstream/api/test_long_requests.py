"""Long requests take several turns: what happens in between, and who waits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jetstream_server.core.answers import Answers
from jetstream_server.core.subscription import Stretch
from jetstream_server.jetstream import slices
from jetstream_server.jetstream.api import long_requests
from jetstream_server.jetstream.streams import audience, interest
from jetstream_server.protocol.ops import PubRun

SUBJECTS = [f"s.{number}" for number in range(7)]
MAKE = {"name": "S", "subjects": SUBJECTS}


class Sender:
    """A client that can be made to wait."""

    echo = True
    is_server = False
    backlog_bytes = 0

    def __init__(self, exchange: Any) -> None:
        self.exchange = exchange
        self.answers = Answers(self, lambda: self.answers.resume(exchange.now))

    def client_info(self, now: int) -> dict[str, Any]:
        return {"id": 7, "acc": "$G", "kind": "Client"}

    def unanswered(self, run: PubRun, start: int, stop: int) -> int:
        raise AssertionError("nobody goes away here")

    def send(self, inbox: bytes, *requests: tuple[str, Any]) -> None:
        """Ask, all in one run."""
        messages = [
            (
                f"$JS.API.{verb}".encode(),
                inbox,
                b"",
                b"" if body is None else json.dumps(body).encode(),
            )
            for verb, body in requests
        ]
        run, sublist = PubRun.of(messages), self.exchange.context.sublist
        (subscription,) = sublist.match(b"$JS.API.STREAM.CREATE.S").plain
        subscription.receiver.receive(
            Stretch(run, 0, run.count, subscription, self, self.exchange.now)
        )


@pytest.fixture
def told(exchange: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[bytes, dict[str, Any]]]:
    """Have even short requests answered in steps; collect answers."""
    monkeypatch.setattr(long_requests, "BODY_AT_ONCE_MAX", 0)
    monkeypatch.setattr(interest, "AT_ONCE", 2)
    return []


def turn(exchange: Any, told: list[tuple[bytes, dict[str, Any]]]) -> None:
    """Have a turn, a millisecond later."""
    exchange.now += 1_000_000
    exchange.catalog.run(exchange.now)
    told += [(name, json.loads(data)) for name, data in exchange.sent() if name[:1] == b"r"]
    exchange.output.sends_after_flush.clear()


def turns(exchange: Any, told: list[tuple[bytes, dict[str, Any]]]) -> int:
    """Have turns until all is quiet; return how many."""
    count = 0
    while exchange.catalog.next_deadline() is not None:
        count += 1
        assert count < 100
        turn(exchange, told)
    return count


def test_what_a_client_asks_for_next_finds_what_this_makes(exchange: Any, told: Any) -> None:
    client, other = Sender(exchange), Sender(exchange)
    client.send(b"r1", ("STREAM.CREATE.S", MAKE), ("STREAM.NAMES", None))
    other.send(b"r2", ("STREAM.NAMES", None))
    assert turns(exchange, told) > 6
    assert [name for name, _ in told] == [b"r2", b"r1", b"r1"], "nobody else waits"
    assert told[0][1]["streams"] is None
    assert told[1][1]["config"]["subjects"] == SUBJECTS
    assert told[2][1]["streams"] == ["S"]
    assert not client.answers.postponed


def test_it_is_answered_when_all_is_listened_to(exchange: Any, told: Any) -> None:
    client = Sender(exchange)
    client.send(b"r", ("STREAM.CREATE.S", MAKE))
    counts = []
    while not told:
        counts.append(sum(exchange.context.sublist.has_interest(s.encode()) for s in SUBJECTS))
        turn(exchange, told)
    assert sorted({*counts}) == [0, 2, 4, 6]
    assert all(exchange.context.sublist.has_interest(s.encode()) for s in SUBJECTS)
    told.clear()
    client.send(b"r", ("STREAM.UPDATE.S", MAKE | {"subjects": ["t", *SUBJECTS[:2]]}))
    turns(exchange, told)
    assert told[0][1]["config"]["subjects"] == ["t", *SUBJECTS[:2]]
    heard = [s for s in [*SUBJECTS, "t"] if exchange.context.sublist.has_interest(s.encode())]
    assert heard == ["s.0", "s.1", "t"]


@pytest.mark.parametrize("verb", ["DELETE", "UPDATE", "CREATE"])
@pytest.mark.parametrize("before", range(9))
def test_another_client_changes_it_meanwhile(
    exchange: Any, told: Any, verb: str, before: int
) -> None:
    client, other = Sender(exchange), Sender(exchange)
    client.send(b"r1", ("STREAM.CREATE.S", MAKE))
    for _ in range(before):
        turn(exchange, told)
    was_there = "S" in exchange.catalog.streams
    body = {"DELETE": None, "UPDATE": MAKE | {"subjects": ["t"]}, "CREATE": MAKE}[verb]
    other.send(b"r2", (f"STREAM.{verb}.S", body))
    turns(exchange, told)
    answers = dict(told)
    heard = [s for s in [*SUBJECTS, "t"] if exchange.context.sublist.has_interest(s.encode())]
    is_refused = {name: "error" in answer for name, answer in answers.items()}
    if verb == "CREATE":
        assert (heard, is_refused) == (SUBJECTS, {b"r1": False, b"r2": False})
    elif verb == "UPDATE" and not is_refused[b"r2"]:
        assert (heard, is_refused[b"r1"]) == (["t"], False)
    elif verb == "DELETE" and was_there:
        assert heard == [] and not is_refused[b"r2"]
    else:
        assert (heard, is_refused) == (SUBJECTS, {b"r1": False, b"r2": True})
    exchange.catalog.note_captured()
    assert exchange.ask("STREAM.NAMES")["streams"] == (["S"] if heard else None)


def test_who_goes_away_leaves_nothing_half_done(exchange: Any, told: Any) -> None:
    client = Sender(exchange)
    client.send(b"r", ("STREAM.CREATE.S", MAKE), ("STREAM.DELETE.S", None))
    turn(exchange, told)
    client.answers.forget()
    turns(exchange, told)
    assert all(exchange.context.sublist.has_interest(s.encode()) for s in SUBJECTS)
    assert [name for name, _ in told] == [b"r"]


def test_a_refusal_comes_in_its_turn_as_well(exchange: Any, told: Any) -> None:
    client = Sender(exchange)
    client.send(b"r", ("STREAM.CREATE.S", {"name": "S", "no": 1}), ("STREAM.NAMES", None))
    turns(exchange, told)
    assert told[0][1]["error"]["description"] == 'invalid JSON: json: unknown field "no"'
    assert told[1][1]["streams"] is None
    told.clear()
    exchange.context.is_strict = False
    client.send(b"r", ("STREAM.CREATE.S", {"name": "S", "no": 1}))
    turns(exchange, told)
    assert told[0][1]["config"]["name"] == "S"


@pytest.mark.parametrize(
    ("verb", "config", "outcome"),
    [
        ("CREATE.S.C", {"name": "C", "filter_subjects": SUBJECTS}, SUBJECTS),
        ("CREATE.S.C.s.1", {"name": "C", "filter_subject": "s.1"}, "s.1"),
        ("CREATE.S.C.s.1", {"name": "C", "filter_subject": "s.2"}, 10131),
        ("CREATE.S", {"filter_subjects": SUBJECTS[:1]}, SUBJECTS[:1]),
        ("CREATE.S", {"durable_name": "C"}, 10020),
        ("DURABLE.CREATE.S.C", {"durable_name": "C", "filter_subject": "s.1"}, "s.1"),
        ("DURABLE.CREATE.S.C", {"durable_name": "D"}, 10017),
        ("DURABLE.CREATE.S.C", {"x": 1}, 10025),
    ],
)
def test_consumers_are_made_in_steps_as_at_once(
    exchange: Any, told: Any, verb: str, config: Any, outcome: Any
) -> None:
    client = Sender(exchange)
    client.send(b"r0", ("STREAM.CREATE.S", MAKE))
    turns(exchange, told)
    told.clear()
    client.send(b"r", (f"CONSUMER.{verb}", {"stream_name": "S", "config": config}))
    client.send(b"r", ("CONSUMER.NAMES.S", None))
    assert not told
    for _ in range(20):
        turn(exchange, told)
    made, names = [answer for _, answer in told]
    if isinstance(outcome, int):
        assert made["error"]["err_code"] == outcome
        assert names["total"] == 0
        return
    assert outcome in (made["config"].get("filter_subject"), made["config"].get("filter_subjects"))
    assert names["consumers"] == [made["name"]]


def test_a_stream_that_goes_while_its_consumer_is_made(exchange: Any, told: Any) -> None:
    client, other = Sender(exchange), Sender(exchange)
    client.send(b"r", ("STREAM.CREATE.S", MAKE | {"retention": "workqueue"}))
    turns(exchange, told)
    told.clear()
    config = {"name": "C", "ack_policy": "explicit", "filter_subjects": SUBJECTS}
    client.send(b"r1", ("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config}))
    turn(exchange, told)
    other.send(b"r2", ("STREAM.DELETE.S", None))
    turns(exchange, told)
    assert [(name, "error" in answer) for name, answer in told] == [(b"r2", False), (b"r1", True)]
    assert told[1][1]["error"]["err_code"] == 10059


def test_what_has_begun_to_change_something_goes_on_however_many_wait(
    exchange: Any, told: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream that was half deleted, or listened to half of its subjects, stayed so: who had asked
    was refused for lack of resources."""
    monkeypatch.setattr(long_requests, "BODY_AT_ONCE_MAX", 8192)
    monkeypatch.setattr(interest, "AT_ONCE", 1)
    monkeypatch.setattr(audience, "TOLD_MUCH_AT_ONCE", 2)
    monkeypatch.setattr(slices, "WAITING_MAX", 0)
    client = Sender(exchange)
    client.send(b"r1", ("STREAM.CREATE.S", MAKE))
    assert turns(exchange, told) > 1 and "error" not in told.pop()[1]
    assert all(exchange.context.sublist.has_interest(s.encode()) for s in SUBJECTS)
    for number in range(5):
        name = f"C{number}"
        made = {"stream_name": "S", "config": {"durable_name": name}}
        assert "error" not in exchange.ask(f"CONSUMER.DURABLE.CREATE.S.{name}", made)
    exchange.publish("s.1")
    client.send(b"r2", ("STREAM.DELETE.S", None))
    assert turns(exchange, told) > 1 and told.pop()[1]["success"]
    assert exchange.vault.folders() == []
    other = MAKE | {"subjects": ["s.1"]}
    assert exchange.ask("STREAM.CREATE.S", other)["state"]["messages"] == 0
