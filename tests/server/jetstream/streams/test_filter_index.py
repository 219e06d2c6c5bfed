"""Who wants a subject, against asking everybody."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from jetstream_server.core.subject import matches
from jetstream_server.jetstream.streams.filter_index import FilterIndex

TOKENS = [b"a", b"b", b"cc"]


def pattern(random: Random) -> bytes:
    tokens = [random.choice([*TOKENS, b"*"]) for _ in range(random.randint(1, 4))]
    return b".".join([*tokens, b">"] if random.random() < 0.3 else tokens)


class Reader:
    def __init__(self, random: Random) -> None:
        self.patterns = [pattern(random) for _ in range(random.choice([0, 1, 1, 1, 2, 5]))]

    def wants(self, subject: bytes) -> bool:
        return not self.patterns or any(matches(each, subject) for each in self.patterns)


@pytest.mark.parametrize("seed", range(20))
def test_it_finds_those_who_would_say_so(seed: int) -> None:
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
