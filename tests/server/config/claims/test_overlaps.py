from itertools import product
from random import Random

import pytest
from jetstream_server.config.claims.overlaps import ImportOverlaps, export_overlaps, is_contained


def contains(outer: str, inner: str) -> bool:
    """Tell the same token by token."""
    theirs, ours = outer.split("."), inner.split(".")
    for at, token in enumerate(theirs):
        if at >= len(ours):
            return False
        if token == ">" and at == len(theirs) - 1:
            return True
        if token not in (ours[at], "*"):
            return False
    return len(ours) == len(theirs)


def told(kind: str, subjects: list[str]) -> list[str]:
    return [each for each in export_overlaps(kind, subjects) if each]


@pytest.mark.parametrize(
    ("outer", "inner"),
    [("a", "a"), ("a.*", "a.b"), ("a.>", "a.b.c"), ("a.*", "a.>"), (">", "*"), ("a.>", "a.>.b")],
)
def test_one_subject_contains_another(outer, inner):
    assert is_contained(inner, outer)
    assert not is_contained("x." + inner, outer) or outer == ">"
    assert told("stream", [inner, outer])


def test_exports_of_one_kind_do_not_contain_each_other():
    assert not told("stream", ["a.*", "*.b", "a.b.c", "b"])
    assert told("service", ["a.b", "x", "x", "a.*"]) == [
        'service export subject "a.*" already exports "a.b"',
        'service export subject "x" already exports "x"',
    ]


def test_imported_services_of_one_account_do_not_overlap():
    overlaps = ImportOverlaps()
    assert not [*overlaps.add("A", "a.b")]
    assert not [*overlaps.add("B", "a.b")]
    assert [*overlaps.add("A", "a.*")] == [
        'overlapping subject namespace for "a.*" and "a.b" in same account "A"'
    ]
    assert [*overlaps.add("B", "a.b")] == [
        'overlapping subject namespace for "a.b" and "a.b" in same account "B"',
        'overlapping subject namespace for "a.b" in account "B"',
    ]


@pytest.mark.parametrize("seed", range(5))
def test_as_a_comparison_of_each_with_each_finds(seed):
    random = Random(seed)
    every = [".".join(tokens) for size in (1, 2, 3) for tokens in product("ab*>", repeat=size)]
    chosen = [random.choice(every) for _ in range(20)]
    outer = {
        b for i, a in enumerate(chosen) for j, b in enumerate(chosen) if i != j and contains(b, a)
    }
    found = told("stream", chosen)
    assert {each.split('"')[1] for each in found} == outer
    overlaps, seen = ImportOverlaps(), []
    for subject in chosen:
        found = {each.split('"')[3] for each in overlaps.add("x", subject) if " and " in each}
        assert found == {b for b in seen if contains(b, subject) or contains(subject, b)}
        assert all(is_contained(subject, b) == contains(b, subject) for b in seen)
        seen.append(subject)


def test_subjects_that_cannot_be_told_apart_in_time_are_refused():
    many = [".".join(tokens) for tokens in product("a*", repeat=12)]
    assert told("stream", many)[0].endswith("than can be compared")
    overlaps = ImportOverlaps()
    assert any("than can be compared" in text for each in many for text in overlaps.add("x", each))
    assert not told("stream", ["a." * 40_000 + str(n) for n in range(9)])
