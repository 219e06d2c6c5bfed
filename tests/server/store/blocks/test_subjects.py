"""Subject ids, counters and compiled filters."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jetstream_server.core import pattern_tree
from jetstream_server.core.subject import is_valid_subject, matches
from jetstream_server.kernels import interned
from jetstream_server.kernels.columns import NOWHERE
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
    assert table.prepare_to_renumber(3)
    table.renumber()
    assert table.names == [b"a", b"c"]
    assert ([table.ids[name] for name in table.names], len(table.ids)) == ([0, 1], 2)
    assert (table.count_of(b"b"), table.count_of(b"c"), table.lasts[1]) == (0, 1, 9)
    assert list(chosen.flags()) == [0, 1]
    assert list(chosen.matching()) == [1]


def with_messages(table, names):
    """Have each of these names one more message, as if a run had been stored."""
    last = max(table.lasts, default=0)
    for sequence, number in enumerate(table.add(names), last + 1):
        table.present += not table.counts[number]
        table.firsts[number] = table.firsts[number] if table.counts[number] else sequence
        table.counts[number] += 1
        table.lasts[number] = sequence


def without_messages(table, names):
    """Have all messages of these names gone."""
    for name in names:
        table.counts[table.ids[name]] = 0
        table.present -= 1


def known(table):
    """Return what a table knows of each name with messages, and check that it is consistent."""
    assert [table.ids[name] for name in table.names] == list(range(len(table.names)))
    assert len(table.counts) == len(table.firsts) == len(table.lasts) == len(table.names)
    assert table.present == sum(map(bool, table.counts))
    columns = zip(table.names, table.counts, table.firsts, table.lasts, strict=True)
    return {name: rest for name, *rest in columns if rest[0]}


def test_names_that_are_many_are_in_parts_none_of_which_has_much_to_copy():
    table = SubjectTable()
    names = [b"s.%d" % number for number in range(3 * interned.ALONE_MAX)]
    for start in range(0, len(names), 1000):
        table.add(names[start : start + 1000])
    assert max(map(len, table.ids.parts)) < interned.ALONE_MAX / 5
    assert list(table.add(names)) == list(range(len(names)))
    assert table.names == names


def test_subjects_are_forgotten_as_others_come():
    table = SubjectTable()
    names = [b"s.%d" % number for number in range(100)]
    with_messages(table, names)
    without_messages(table, names[:60])
    assert not table.prepare_to_renumber(10)
    assert table.is_renumbering
    with_messages(table, names[2:5])  # which have been left out
    without_messages(table, names[70:80])
    before = known(table)
    for number in range(27):
        with_messages(table, [b"new.%d" % number])
        assert table.generation == 0
    assert table.prepare_to_renumber(10)
    with_messages(table, [b"s.0", b"last"])
    before = known(table)
    assert table.prepare_to_renumber(10)
    moved = table.renumber()
    assert [moved[number] for number in (0, 1, 2, 5)] == [
        table.ids[b"s.0"],
        NOWHERE,
        table.ids[b"s.2"],
        NOWHERE,
    ]
    assert (known(table), table.generation, table.is_renumbering) == (before, 1, False)
    assert {*table.names} == {*before}


def test_very_many_that_come_back_are_not_left_for_the_end():
    table = SubjectTable()
    names = [b"s.%d" % number for number in range(40)]
    with_messages(table, names)
    without_messages(table, names[:30])
    assert table.prepare_to_renumber(40)
    with_messages(table, names[:25])
    assert [table.prepare_to_renumber(10) for _ in range(3)] == [False, False, True]
    before = known(table)
    moved = table.renumber()
    assert known(table) == before
    assert list(moved).count(NOWHERE) == 5


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
    assert table.prepare_to_renumber(10)
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
