"""Filters of memory stores: what they decide is the same however it is found out."""

from __future__ import annotations

from itertools import compress
from random import Random
from typing import ClassVar

import pytest
from jetstream_server.core.subject import matches
from jetstream_server.kernels import filters
from jetstream_server.store import pattern_filter
from jetstream_server.store.memory import MemoryStore
from jetstream_server.store.pattern_filter import PatternFilter

from tests.traced_lines import lines_of


def drawn(random: Random, tokens: list[bytes]) -> bytes:
    return b".".join(random.choices(tokens, k=random.randint(1, 4)))


@pytest.mark.parametrize("count", [1, 3, 30])
@pytest.mark.parametrize("seed", range(10))
def test_many_patterns_match_what_each_of_them_does(monkeypatch, seed, count):
    monkeypatch.setattr(pattern_filter, "_COMPARED_MAX", 8)
    random = Random(seed)
    patterns = tuple(drawn(random, [b"a", b"b", b"c", b"*"]) for _ in range(count))
    if count == 3:
        patterns += (b"a.>",)
    subjects = [drawn(random, [b"a", b"b", b"c"]) for _ in range(200)]
    expected = [each for each in subjects if any(matches(p, each) for p in patterns)]
    wanted = PatternFilter(patterns)
    assert [each for each in subjects if wanted.wants(each)] == expected
    if wanted.literals is None:
        assert list(compress(subjects, wanted.flags(subjects, 0))) == expected
    else:
        assert {*wanted.literals} >= {*expected}


@pytest.mark.parametrize("wildcards", [10, 1000])
def test_a_slice_looks_at_so_many_and_no_more(monkeypatch, wildcards):
    compared = []
    monkeypatch.setattr(
        filters, "mark", lambda names, start, stop, *rest: compared.append(stop - start)
    )
    wanted = PatternFilter(tuple(b"s.*.%d" % n for n in range(wildcards)))
    subjects = [b"s.%d.x" % n for n in range(5000)]
    slices = 1
    while not wanted.decide(subjects, 0, 12_800):
        slices += 1
    # Of the tree 100 patterns, or 100 subjects, at a time.
    assert slices == (4 if wildcards == 10 else 59)
    assert sum(compared) == (5000 if wildcards == 10 else 0)


def test_a_store_s_subjects_come_and_go():
    store = MemoryStore()
    wanted = store.filter([b"s.*", b"t"])
    assert store.filter([b"s.*", b"t"]) is wanted
    for number in range(5000):
        sequence = store.append(b"s.%d" % number, b"", b"x", number)
        while not store.decide(wanted, 100):
            continue
        if number % 10:
            store.delete([sequence])
    assert store.decide(wanted, 1 << 30)
    assert list(store.last_sequences(wanted)) == list(range(1, 5001, 10))
    store.append(b"s.1", b"", b"x", 5000)
    assert store.last_sequences(wanted)[-1] == 5001
    assert len(store._index.names) < 3 * 501 + 1024


def test_the_first_message_after_a_time_is_known_without_looking_at_all(monkeypatch):
    store = MemoryStore()
    for number in range(3000):
        store.append(b"s", b"", b"x", number // 2)
    store.delete(range(100, 200))
    store.delete([3000])
    looked: list[int] = []
    walk = store._walk
    monkeypatch.setattr(
        store, "_walk", lambda *given: (looked.append(m.sequence) or m for m in walk(*given))
    )
    asked = (0, 1000, 60, 1499, 1500)
    assert [store.sequence_at(time) for time in asked] == [1, 2001, 200, 2999, 3001]
    assert len(looked) <= len(asked)
    store.append(b"s", b"", b"x", 7)  # the clock was set back
    assert [store.sequence_at(time) for time in (1499, 1500)] == [2999, 3002]


def test_what_only_looks_like_a_wildcard_is_none():
    wanted = PatternFilter((b"a*.b", b"c>", b"d"))
    assert [each for each in (b"a*.b", b"ax.b", b"c>", b"c", b"d") if wanted.wants(each)] == [
        b"a*.b",
        b"c>",
        b"d",
    ]
    assert PatternFilter((b"b", b"a", b"b")).literals == {b"b": None, b"a": None}


def test_very_many_literals_are_told_apart_at_a_glance():
    patterns = tuple(b"s.%d" % n for n in range(1000))
    assert lines_of(lambda: PatternFilter(patterns)) < 100


@pytest.mark.parametrize("seed", range(10))
def test_many_subjects_are_decided_on_as_each_of_them(monkeypatch, seed):
    monkeypatch.setattr(pattern_filter, "_COMPARED_MAX", 8)
    random = Random(seed)
    for count in (1, 3, 30):
        for tokens in ([b"a", b"b", b"*"], [b"a", b"b"]):
            wanted = PatternFilter(tuple(drawn(random, tokens) for _ in range(count)))
            subjects = [drawn(random, [b"a", b"b", b"c"]) for _ in range(100)]
            assert list(wanted.chosen(subjects)) == [wanted.wants(each) for each in subjects]


class Looked(bytes):
    """A pattern that notes what somebody looks for in it."""

    looked_for: ClassVar[list[object]] = []

    def __contains__(self, item: object) -> bool:
        self.looked_for.append(item)
        return super().__contains__(item)


def test_very_many_wildcards_are_told_apart_soon():
    """50,000 took 25 ms."""
    plain = tuple(b"s.*.%d" % n for n in range(1000))
    assert lines_of(lambda: PatternFilter(plain)) < 1500
    Looked.looked_for.clear()
    patterns = tuple(map(Looked, plain))
    wanted = PatternFilter(patterns)
    assert wanted.wants(b"s.x.7") and not wanted.wants(b"s.*")
    assert {*map(type, Looked.looked_for)} == {int}
    mixed = PatternFilter((*patterns, b"t"))
    assert mixed.wants(b"t") and mixed.wants(b"s.x.7") and not mixed.wants(b"s.*.7.x")
