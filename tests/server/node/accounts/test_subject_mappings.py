"""Subjects that are replaced on publish."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.options import MappingDestination, SubjectMapping
from jetstream_server.node.accounts.subject_mappings import SubjectMappings


def mappings(*, refuse=None, **sources):
    """Make mappings of sources and their destinations: subject, weight, cluster."""
    return SubjectMappings(
        [
            SubjectMapping(source, tuple(MappingDestination(*each) for each in destinations))
            for source, destinations in sources.items()
        ],
        Random(1),
        refuse,
    )


def test_replaced_by_position():
    made = mappings(**{"a.*.*": [("b.$2.$1",)], "lit": [("other",)], "t.>": [("u.>",)]})
    assert made.apply(b"a.1.2") == b"b.2.1"
    assert made.apply(b"lit") == b"other"
    assert made.apply(b"t.x.y") == b"u.x.y"
    assert made.apply(b"a.1") == b"a.1"


def test_a_literal_wins_then_the_first():
    made = mappings(**{"a.*": [("star.$1",)], "a.>": [("tail.>",)], "a.b": [("literal",)]})
    assert made.apply(b"a.b") == b"literal"
    assert made.apply(b"a.c") == b"star.c"
    assert made.apply(b"a.c.d") == b"tail.c.d"


def test_weights_and_what_is_left():
    made = mappings(part=[("x", 30), ("y", 20)])
    counts = Counter(made.apply(b"part") for _ in range(10_000))
    assert set(counts) == {b"x", b"y", b"part"}
    assert abs(counts[b"x"] - 3000) < 200 and abs(counts[b"part"] - 5000) < 200


@pytest.mark.parametrize("source", ["loss", "loss.>"])
def test_a_subject_mapped_to_itself_is_lost_in_part(source):
    made = mappings(**{source: [(source, 30)]})
    subject = b"loss" if source == "loss" else b"loss.a"
    counts = Counter(made.apply(subject) for _ in range(10_000))
    assert set(counts) == {subject, b""}
    assert abs(counts[subject] - 3000) < 200


@pytest.mark.parametrize(
    ("source", "destination", "weight"),
    [
        ("a.*", "a.*", 100),
        ("*.a", "*.a", 30),
        ("a.{{x()}}", "a.{{x()}}", 100),
        ("a.{{x()}}", "b", 50),
        ("a.$1", "b", 50),
    ],
)
def test_what_cannot_be_left_as_it_is_is_refused(source, destination, weight):
    """The last three ended a start, as what is left of the hundred had no boundary around it."""
    refused = []
    given = {source: [(destination, weight)], "c": [("d",)]}
    made = mappings(**given, refuse=lambda source, error: refused.append(source))
    assert refused == [source] and made.apply(b"c") == b"d"
    with pytest.raises(ConfigError, match="Error adding mapping for"):
        mappings(**given)


def test_made_in_steps():
    given = [SubjectMapping(f"a.{n}", (MappingDestination("b" * n),)) for n in range(1, 60)]
    making = SubjectMappings.in_steps(given, Random(1))
    taken = []
    while True:
        try:
            taken.append(next(making))
        except StopIteration as end:
            made = end.value
            break
    assert len(taken) == len(given) and taken[-1] > taken[0] > 0
    assert made.configured is given and made.apply(b"a.7") == b"b" * 7


def test_what_is_impossible_can_be_left_out():
    refused = []
    made = mappings(
        **{"a.*": [("b.$7",)], "b.*": [("c.$1", 50), ("d.$2", 50)], "c": [("d",)]},
        refuse=lambda source, error: refused.append((source, str(error))),
    )
    assert [source for source, _ in refused] == ["a.*", "b.*"]
    assert all("out of range" in text for _, text in refused)
    assert [made.apply(subject) for subject in (b"a.x", b"b.x", b"c")] == [b"a.x", b"b.x", b"d"]
    assert not made.covers(b"a.x") and made.covers(b"c")


def test_destinations_of_clusters_are_not_for_a_server_alone():
    made = mappings(a=[("b", 100, "east"), ("c", 100)])
    assert made.apply(b"a") == b"c"


def test_what_does_not_fit_is_refused():
    with pytest.raises(ConfigError, match=r'Error adding mapping for "a\.\*" to "b\.\$2" : '):
        mappings(**{"a.*": [("b.$2",)]})
