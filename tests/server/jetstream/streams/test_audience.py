"""Which consumers hear of what was stored."""

from __future__ import annotations

from typing import Any

import pytest
from jetstream_server.core.sublist import Sublist
from jetstream_server.jetstream.streams import audience, filter_index
from jetstream_server.jetstream.streams.audience import Audience
from jetstream_server.protocol.ops import PubRun


class Hearing:
    """A consumer that notes what it is told."""

    def __init__(self, pattern: bytes) -> None:
        self.name = pattern.decode()
        self.patterns = [pattern] if pattern else []
        self.told: list[tuple[int, int]] = []
        self.internal = False

    def wants(self, subject: bytes) -> bool:
        raise AssertionError("of many, nobody is asked")

    def stored(self, first: int, last: int, now: int) -> None:
        self.told.append((first, last))


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(audience, "_FEW_CONSUMERS", 2)
    consumers: Any = Audience()
    for name in ("s.1", "s.2", "s.*", "t.>"):
        consumers[name] = Hearing(name.encode())
    return consumers


def hearing(consumers: Any) -> list[str]:
    """Return who was told something since the last time."""
    names = [name for name, consumer in consumers.items() if consumer.told]
    for consumer in consumers.values():
        consumer.told.clear()
    return names


def run_of(*subjects: bytes) -> PubRun:
    return PubRun.of((subject, b"", b"", b"") for subject in subjects)


def test_only_those_concerned_are_told(many: Any) -> None:
    run = run_of(b"s.1", b"t.x", b"s.1")
    subjects = many.subjects(run, 0, 3)
    assert subjects == {b"s.1", b"t.x"}
    many.stored(7, 9, 0, subjects)
    assert many["s.1"].told == [(7, 9)], "once"
    assert hearing(many) == ["s.1", "s.*", "t.>"]
    many.stored(10, 10, 0, (b"none",))
    assert hearing(many) == []


def test_who_comes_goes_and_changes_its_filter_is_known(many: Any) -> None:
    many.stored(1, 1, 0, (b"s.1",))
    assert hearing(many) == ["s.1", "s.*"]
    many["new"] = Hearing(b"s.1")
    many["all"] = Hearing(b"")
    del many["s.1"]
    many.stored(2, 2, 0, (b"s.1",))
    assert hearing(many) == ["s.*", "new", "all"]
    many["s.2"].patterns = [b"s.1", b"s.3"]
    many.refilter(many["s.2"])
    many.stored(3, 3, 0, (b"s.1", b"s.3"))
    assert hearing(many) == ["s.2", "s.*", "new", "all"] and len(many) == 5
    many["all"] = Hearing(b"u")  # in its place
    many.stored(4, 4, 0, (b"s.2",))
    assert hearing(many) == ["s.*"]
    assert many.is_wanted(b"u") and not many.is_wanted(b"s") and not many.is_wanted(b"v.x")


def test_who_copies_is_looked_for_once_until_one_comes_or_goes() -> None:
    audience, asked = Audience(), []

    def copies(consumer: Any) -> bool:
        asked.append(consumer)
        return consumer.name == "mirror"

    reader: Any
    mirror: Any
    reader, mirror = Hearing(b"reader"), Hearing(b"mirror")
    audience["a"], audience["b"] = reader, mirror
    assert audience.copiers(copies) == audience.copiers(copies) == [mirror]
    assert len(asked) == 2
    del audience["b"]
    assert audience.copiers(copies) == []


def test_all_are_told_where_it_does_not_pay_to_look(
    many: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    many.stored(1, 1, 0, None)
    assert hearing(many) == ["s.1", "s.2", "s.*", "t.>"]
    monkeypatch.setattr(audience, "_FEW_MESSAGES", 2)
    assert many.subjects(run_of(b"a", b"b", b"c"), 0, 3) is None
    monkeypatch.setattr(audience, "_FEW_CONSUMERS", 4)
    assert many.subjects(run_of(b"a"), 0, 1) is None
    many.stored(1, 1, 0, (b"s.1",))
    assert hearing(many) == ["s.1", "s.2", "s.*", "t.>"]


def test_a_changed_filter_is_seen(account: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audience, "_FEW_CONSUMERS", 0)
    stream = account.stream()
    account.subscribe(b"_INBOX.p")
    consumer = account.create(stream, durable_name="c", ack_policy="explicit", filter_subject="s.a")
    account.pull(consumer, b"10")
    account.publish(b"s.b", b"no")
    account.publish(b"s.a", b"one")
    assert [each.payload for each in account.client.take()] == [b"one"]
    account.create(stream, durable_name="c", ack_policy="explicit", filter_subject="s.b")
    account.publish(b"s.b", b"two")
    assert [each.payload for each in account.client.take()] == [b"two"]


def test_what_many_cost_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand told of each message took half a second of one client's write."""
    monkeypatch.setattr(audience, "_FEW_CONSUMERS", 2)
    spent: list[float] = []
    consumers: Any = Audience(spend=spent.append)
    for name in ("s.1", "s.2"):
        consumers[name] = Hearing(name.encode())
    consumers.stored(1, 1, 0, None)
    consumers.tell(lambda each: None, 0)
    assert not spent, "few cost nothing"
    for name in ("s.3", "s.*", ">"):
        consumers[name] = Hearing(name.encode())
    consumers.stored(1, 1, 0, None)
    consumers.tell(lambda each: None, 0)
    assert spent == [5 / audience.TOLD_OF_UNIT, 5 / audience._TOLD_MUCH_OF_UNIT]
    spent.clear()
    consumers.stored(1, 1, 0, (b"s.3",))
    looked, told = spent
    assert looked == (1 + 1) / audience._LOOKED_AT_OF_UNIT
    assert told == 3 / audience.TOLD_OF_UNIT


def test_looking_for_those_concerned_ends_where_it_does_not_pay(
    many: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audience, "_LOOKED_AT_MAX", 3)
    many.stored(1, 2, 0, (b"t.x",))
    assert hearing(many) == ["t.>"]
    many.stored(3, 6, 0, (b"s.7", b"s.8", b"s.9"))
    assert hearing(many) == ["s.1", "s.2", "s.*", "t.>"]


def test_those_that_are_shown_are_counted(many: Any) -> None:
    assert many.shown == 4
    hidden = Hearing(b"s.2")
    hidden.internal = True
    many["s.2"] = hidden
    assert many.shown == 3
    del many["s.2"]
    del many["s.1"]
    assert many.shown == 2
    many["s.*"] = Hearing(b"s.*")
    assert many.shown == 2, "one in place of another"


def test_filters_are_noted_when_they_come_and_not_by_a_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noted: list[int] = []
    insert_all = Sublist.insert_all

    def counted(sublist: Sublist, subs: Any) -> None:
        noted.append(len(subs))
        insert_all(sublist, subs)

    monkeypatch.setattr(Sublist, "insert_all", counted)
    monkeypatch.setattr(audience, "_FEW_CONSUMERS", 4)
    spent: list[float] = []
    consumers: Any = Audience(spend=spent.append)
    for number in range(3):
        consumers[f"few{number}"] = Hearing(b"x.%d" % number)
    assert not noted, "few are asked"
    many = Hearing(b"many")
    many.patterns = [b"m.%d" % number for number in range(400)]
    consumers["many"] = many
    assert noted == [1, 1, 1, 400], "not together with those of others that have many"
    assert spent == [400 / audience._FILTERS_OF_UNIT]
    consumers["fifth"], consumers["sixth"] = Hearing(b"x.1"), Hearing(b"y")
    noted.clear()
    consumers.stored(1, 1, 0, (b"x.1",))
    assert hearing(consumers) == ["few1", "fifth"]
    consumers.stored(1, 1, 0, (b"m.399",))
    assert hearing(consumers) == ["many"]
    assert not noted
    spent.clear()
    del consumers["many"]
    assert spent == [400 / audience._FILTERS_OF_UNIT]
    consumers.stored(1, 1, 0, (b"m.399",))
    assert hearing(consumers) == []


def test_asking_those_with_very_many_filters_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_index, "NOTED_MAX", 0)
    monkeypatch.setattr(audience, "_FEW_CONSUMERS", 2)
    monkeypatch.setattr(Hearing, "wants", lambda self, subject: subject in self.patterns)
    spent: list[float] = []
    consumers: Any = Audience(spend=spent.append)
    for name in (b"a", b"b", b"c"):
        consumers[name.decode()] = Hearing(name)
    assert consumers.is_wanted(b"b") and not consumers.is_wanted(b"d")
    parts = 1 + 3 * filter_index.PARTS_OF_ASKED
    assert spent == [parts / audience._LOOKED_AT_OF_UNIT] * 2


def test_very_many_are_told_some_at_a_time_and_who_comes_meanwhile_in_the_end(
    many: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audience, "TOLD_MUCH_AT_ONCE", 3)
    told: list[str] = []
    steps = many.tell_in_steps(lambda consumer: told.append(consumer.name), 0)
    next(steps)
    assert told == ["s.1", "s.2", "s.*"]
    many["new"] = Hearing(b"new")
    assert list(steps) == []
    assert told == ["s.1", "s.2", "s.*", "t.>", "new"]
    told.clear()
    monkeypatch.setattr(audience, "TOLD_MUCH_AT_ONCE", 5)
    assert list(many.tell_in_steps(lambda consumer: told.append(consumer.name), 0)) == []
    assert len(told) == 5


def test_of_very_many_some_are_forgotten_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audience, "LET_GO_AT_ONCE", 4)
    consumers: Any = Audience()
    much = Hearing(b"much")
    much.patterns = [b"m.%d" % number for number in range(3 * audience._FILTERS_OF_UNIT)]
    for each in (much, *(Hearing(b"s.%d" % number) for number in range(10))):
        consumers[each.name] = each
    left = [len(consumers) for _ in consumers.let_go_in_steps()]
    assert left == [10, 6, 2], "whoever has many filters counts as several"
    assert not consumers and consumers.shown == 0
    assert list(consumers.let_go_in_steps()) == []
