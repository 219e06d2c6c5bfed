"""Subjects and patterns, by table and against a definition by enumeration."""

from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jetstream_server.core import subject

# Patterns of up to three tokens over a small alphabet, and every subject they could tell apart:
# "z" stands for any token that no pattern names, a fourth token for any greater length.
TOKENS = (b"a", b"b", b"*", b">", b"")
PATTERNS = [b".".join(p) for n in (1, 2, 3) for p in product(TOKENS, repeat=n)]
VALID_PATTERNS = [p for p in PATTERNS if subject.is_valid_subject(p)]
SUBJECTS = [b".".join(p) for n in (1, 2, 3, 4) for p in product((b"a", b"b", b"z"), repeat=n)]


@pytest.mark.parametrize(
    "valid",
    [
        b"a",
        b"a.b",
        b"*",
        b">",
        b"a.*.b",
        b"a.>",
        b"foo*",
        b"f>o.a",
        b"*a.>b",
        b"$SYS.a",
        b"\xff.\x00",
    ],
)
def test_valid(valid: bytes) -> None:
    assert subject.is_valid_subject(valid)


@pytest.mark.parametrize(
    "invalid",
    [b"", b".", b"a.", b".a", b"a..b", b">.a", b"a.>.b", b"a b", b"a.b\t", b"\r", b"a\n", b"\f.a"],
)
def test_invalid(invalid: bytes) -> None:
    assert not subject.is_valid_subject(invalid)


def test_wildcards_count_only_as_whole_tokens() -> None:
    assert subject.is_literal(b"foo*.b>r")
    assert subject.is_literal(b"a.b")
    for pattern in (b"*", b">", b"a.*", b"*.a", b"a.*.b", b"a.>"):
        assert not subject.is_literal(pattern)
    assert subject.is_valid_literal(b"foo*")
    assert not subject.is_valid_literal(b"foo.*")
    assert not subject.is_valid_literal(b"a..b")


def test_wildcards_in_a_published_subject_are_literals() -> None:
    assert subject.matches(b"a.*", b"a.*")
    assert subject.matches(b"a.*", b"a.>")
    assert not subject.matches(b"a.b", b"a.*")


@pytest.mark.parametrize("malformed", [b"", b".", b"a.", b".a", b"a..b"])
def test_malformed_subject_matches_nothing(malformed: bytes) -> None:
    assert not subject.matches(b">", malformed)
    assert not subject.matches(b"*", malformed)
    assert not subject.matches(b"*.*", malformed)


def test_matching_by_table() -> None:
    assert subject.matches(b"a.>", b"a.b.c")
    assert not subject.matches(b"a.>", b"a")
    assert subject.matches(b"*.b", b"a.b")
    assert not subject.matches(b"*", b"a.b")
    assert not subject.matches(b"a.b.c", b"a.b")
    assert subject.tokens(b"a..b") == [b"a", b"", b"b"]


def test_overlap_and_subset_follow_from_matching() -> None:
    reached = {p: {s for s in SUBJECTS if subject.matches(p, s)} for p in VALID_PATTERNS}
    for a, b in product(VALID_PATTERNS, repeat=2):
        assert subject.overlaps(a, b) == bool(reached[a] & reached[b]), (a, b)
        assert subject.is_subset(a, b) == (reached[a] <= reached[b]), (a, b)


@given(st.binary(max_size=20))
def test_any_bytes_give_an_answer(text: bytes) -> None:
    if subject.is_valid_subject(text):
        assert subject.matches(b">", text)
        assert subject.overlaps(text, text)
        assert subject.is_subset(text, text)
    subject.is_literal(text)


def test_a_subject_is_no_longer_than_64_kibibytes() -> None:
    longest = b".".join([b"a"] * 32_767) + b".b"
    assert subject.is_valid_subject(longest)
    assert subject.is_valid_subject(longest + b"c")
    assert not subject.is_valid_subject(longest[:-1] + b".")
    assert not subject.is_valid_subject(longest + b"cd")
    assert subject.are_valid_subjects([b"a", longest + b"c"])
    assert not subject.are_valid_subjects([b"a", longest + b"cd"])


def test_many_are_told_to_be_well_formed_only_if_each_is() -> None:
    broken = [p for p in PATTERNS if not subject.is_valid_subject(p)]
    broken += [b"", b".", b"a.", b".a", b"a..b", b"a b", b">.a", b"a.>.b", b"a\nb", b" ", b"a "]
    assert subject.are_valid_subjects([b"a", b"a.b", b"a.*", b"a.>", b"a*", b"*"])
    for each in broken:
        for many in ([each], [b"a", each], [each, b"a"], [b"a.b", each, b"c"]):
            assert not subject.are_valid_subjects(many), many
    for seed in range(200):
        many = Random(seed).choices(PATTERNS, k=3)
        if subject.are_valid_subjects(many):
            assert all(map(subject.is_valid_subject, many)), many


def test_many_are_encoded_as_each_is() -> None:
    for many in ([], [""], ["a", "b.c"], ["a\nb", "c"], ["\n"], ["é", "", "ü.>"]):
        assert subject.encoded(many) == [each.encode() for each in many]


@pytest.mark.parametrize("searched", [32, 1])
def test_lines_that_overlap_are_found_at_once(
    monkeypatch: pytest.MonkeyPatch, searched: int
) -> None:
    monkeypatch.setattr(subject, "_TOKENS_SEARCHED", searched)
    valid = [each for each in PATTERNS if subject.is_valid_subject(each)]
    for pattern in valid:
        search = subject.line_search(pattern)
        for other in valid:
            found = search.search(f"(\n{other.decode()}\n$y.z") is not None
            if searched == 32 or not found:
                theirs = (b"(", other, b"$y.z")
                assert found == any(subject.overlaps(pattern, each) for each in theirs)
