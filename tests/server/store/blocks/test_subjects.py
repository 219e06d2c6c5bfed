"""Subject ids, counters and compiled filters."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jetstream_server.core import pattern_tree
from jetstream_server.core.subject import is_valid_subject, matches
from jetstream_server.store.blocks import subjects as sets
from jetstream_server.store.blocks.subjects import SubjectTable

tokens = st.sampled_from([b"a", b"b", b"*", b">", b"a*", b"+"])
subjects = st.lists(tokens, min_size=1, max_size=4).map(b".".join)


@settings(max_examples=200)
@given(patterns=st.lists(subjects, min_size=1, max_size=3), names=st.lists(subjects, unique=True))
def test_flags_are_those_of_matching(patterns, names):
    patterns = [pattern for pattern in patterns if is_valid_subject(pattern)]
    table = SubjectTable()
    chosen = table.choose(patterns)
    half = len(names) // 2
    table.add(names[:half])
    chosen.flags()
    table.add(names)
    expected = [any(matches(pattern, name) for pattern in patterns) for name in names]
    assert list(chosen.flags()) == expected


def test_renumber_keeps_those_with_messages():
    table = SubjectTable()
    table.add([b"a", b"b", b"c"])
    chosen = table.choose([b"c"])
    assert list(chosen.flags()) == [0, 0, 1]
    table.counts[0] = 3
    table.counts[2] = 1
    table.firsts[2] = table.lasts[2] = 9
    table.present = 2
    assert table.absent == 1
    table.renumber()
    assert table.names == [b"a", b"c"]
    assert (table.ids, table.count_of(b"c"), table.lasts[1]) == ({b"a": 0, b"c": 1}, 1, 9)
    assert list(chosen.flags()) == [0, 1]
    assert list(chosen.matching()) == [1]


def test_wildcards_are_decided_about_in_slices():
    table = SubjectTable()
    table.add([b"a.%d" % number for number in range(10)])
    chosen = table.choose([b"a.*", b"*.7", b"a.3"])
    assert [chosen.decide(8) for _ in range(3)] == [False, False, True]  # four, for two wildcards
    assert chosen is table.choose([b"a.*", b"*.7", b"a.3"])
    table.add([b"b.7"])
    assert chosen.decide(0)  # at least one
    assert list(chosen.flags()) == [1] * 11
    assert table.choose([b"a.3"]).decide(0)  # without a wildcard there is nothing to look at


def test_forgotten_names_are_let_go_some_at_a_time():
    table = SubjectTable()
    numbers = table.add([b"s.%d" % number for number in range(10)])
    table.counts[numbers[3]] = 1
    table.renumber()
    assert table.names == [b"s.3"]
    assert [table.let_go(4) for _ in range(4)] == [True, True, True, False]


@pytest.mark.parametrize("seed", range(10))
def test_very_many_wildcards_are_a_tree_that_says_the_same(seed, monkeypatch):
    random = Random(seed)
    tokens = [b"a", b"b", b"c", b"d"]
    patterns = list(
        dict.fromkeys(
            b".".join([random.choice([*tokens, b"*"]) for _ in range(random.randrange(1, 4))])
            + random.choice([b"", b".>"])
            for _ in range(40)
        )
    )
    names = list(
        dict.fromkeys(
            b".".join(random.choices(tokens, k=random.randrange(1, 6))) for _ in range(60)
        )
    )
    table = SubjectTable()
    monkeypatch.setattr(sets, "_COMPARED_MAX", 3)
    monkeypatch.setattr(pattern_tree, "_WAYS_MAX", random.choice([2, 1000]))
    chosen = table.choose(patterns)
    wild = sum(b"*" in each or b">" in each for each in patterns)
    table.add(names[:30])
    turns = 1
    while not chosen.decide(21):
        turns += 1
    assert turns == -(-wild // 7) + 4  # the patterns, and the names from the last turn of these on
    table.add(names)
    assert not chosen.decide(1)
    expected = [any(matches(pattern, name) for pattern in patterns) for name in names]
    assert list(chosen.flags()) == expected


@pytest.mark.parametrize("wild", [(), (b"a.*",)])
def test_among_very_many_literals_each_name_is_looked_for(wild, monkeypatch):
    monkeypatch.setattr(sets, "_LITERALS_LOOKED_FOR", 3)
    table = SubjectTable()
    patterns = [b"s.%d" % number for number in range(5, 40, 2)]
    chosen = table.choose([*patterns, *wild])
    table.add([b"s.%d" % number for number in range(20)])
    for number in range(0, 20, 3):
        table.counts[number], table.firsts[number], table.lasts[number] = 1, number, number + 2
    found = [(chosen.matching, (8, 12)), (chosen.begun, (12,))]
    before = [[*ask(*given)] for ask, given in found]
    assert before == [[9], [9]]
    slices = 1
    while not chosen.decide(6):
        slices += 1
    assert slices == (1 if wild else 4)  # with a wildcard it was decided to answer the questions
    assert [number for number, flag in enumerate(chosen.flags()) if flag] == [*range(5, 20, 2)]
    assert [[*ask(*given)] for ask, given in found] == before
    table.add([b"s.21", b"s.22", b"a.x"])  # what came since is found as well
    table.counts[20], table.lasts[20] = 1, 9
    assert [*chosen.matching(8, 12)] == [9, 20]
    assert [*chosen.flags()][20:] == [1, 0, bool(wild)]
