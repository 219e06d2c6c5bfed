"""Identifiers: 22 digits of base 62, never the same twice, repeatable from a seed."""

from __future__ import annotations

from random import Random

from jetstream_server.base.nuid import DIGITS, Nuid


def test_identifiers_are_22_characters_and_differ():
    nuid = Nuid(Random(1))
    made = [nuid.next() for _ in range(10_000)]
    assert len(set(made)) == len(made)
    assert {len(each) for each in made} == {22}
    assert set("".join(made)) <= set(DIGITS)


def test_the_same_seed_makes_the_same_identifiers():
    assert Nuid(Random(3)).next() == Nuid(Random(3)).next()
    assert Nuid(Random(3)).next() != Nuid(Random(4)).next()


def test_a_full_counter_begins_a_new_prefix():
    nuid = Nuid(Random(5))
    before = nuid.next()
    nuid._counter = len(DIGITS) ** 10 - 1
    after = nuid.next()
    assert after[:12] != before[:12]
    assert len(after) == 22


def test_short_names():
    assert len(Nuid(Random(1)).short()) == 8
    assert len(Nuid(Random(1)).short(4)) == 4
