"""Who wants a subject, against asking everybody."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from jetstream_server.core.subject import matches
from jetstream_server.jetstream.streams import filter_index
from jetstream_server.jetstream.streams.filter_index import PARTS_OF_ASKED, FilterIndex

TOKENS = [b"a", b"b", b"cc"]


def pattern(random: Random) -> bytes:
    tokens = [random.choice([*TOKENS, b"*"]) for _ in range(random.randint(1, 4))]
    return b".".join([*tokens, b">"] if random.random() < 0.3 else tokens)


class Reader:
    def __init__(self, random: Random) -> None:
        self.patterns = [pattern(random) for _ in range(random.choice([0, 1, 1, 1, 2, 5]))]

    def wants(self, subject: bytes) -> bool:
        return not self.patterns or any(matches(each, subject) for each in self.patterns)


@pytest.mark.parametrize("noted_max", [1, filter_index.NOTED_MAX])
@pytest.mark.parametrize("seed", range(20))
def test_it_finds_those_who_would_say_so(
    seed: int, noted_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filter_index, "NOTED_MAX", noted_max)
    random = Random(seed)
    readers: list[Any] = [Reader(random) for _ in range(random.randint(0, 12))]
    index = FilterIndex(readers)
    for _ in range(200):
        if readers and random.random() < 0.2:
            index.remove(gone := readers.pop(random.randrange(len(readers))))
            gone.patterns = []  # whatever it wants by now
        elif random.random() < 0.2:
            readers.append(Reader(random))
            index.add(readers[-1])
        subject = b".".join(random.choice(TOKENS) for _ in range(random.randint(1, 5)))
        found = index.who_wants(subject)
        assert len(found) == len(set(found))
        assert set(found) == {each for each in readers if each.wants(subject)}
        assert index.is_wanted(subject) is bool(found)


def test_those_with_very_many_filters_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """To note 50,000 filters of each of twelve consumers took 700 ms."""
    monkeypatch.setattr(filter_index, "NOTED_MAX", 3)
    few: Any
    many: Any
    few, many = Reader(Random(0)), Reader(Random(0))
    few.patterns = [b"a", b"b", b"a"]
    many.patterns = [b"a", b"c", b"d", b"e"]
    index = FilterIndex([])
    assert [index.add(few), index.add(many)] == [2, 0]
    assert index.asked_as_parts == PARTS_OF_ASKED
    for subject, expected in ((b"a", [few, many]), (b"b", [few]), (b"c", [many]), (b"f", [])):
        assert index.who_wants(subject) == expected
        assert index.is_wanted(subject) is bool(expected)
    assert [index.remove(many), index.remove(few)] == [0, 2]
    assert not index.is_wanted(b"a") and not index.asked_as_parts
