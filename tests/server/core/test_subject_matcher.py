"""Patterns that are asked for together match what they match one by one."""

from __future__ import annotations

from random import Random

import pytest
from jetstream_server.core import pattern_tree, subject_matcher
from jetstream_server.core.subject import matches
from jetstream_server.core.subject_matcher import COMPARED_MAX, SubjectMatcher


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("ways_max", [2, 1000])
def test_what_each_matches(seed: int, ways_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern_tree, "_WAYS_MAX", ways_max)
    random = Random(seed)
    tokens = [b"a", b"b", b"c", b"*"]
    patterns = [
        b".".join(random.choices(tokens, k=random.randint(1, 4))) + random.choice([b"", b"", b".>"])
        for _ in range(random.choice([0, 1, COMPARED_MAX, 3 * COMPARED_MAX]))
    ]
    matcher = SubjectMatcher(patterns)
    for _ in range(50):
        subject = b".".join(random.choices(tokens[:3], k=random.randint(1, 5)))
        expected = any(matches(pattern, subject) for pattern in patterns)
        assert matcher.matches(subject) is expected


def test_many_are_not_compared_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    monkeypatch.setattr(subject_matcher, "matches", lambda *given: compared.append(given))
    matcher = SubjectMatcher([b"a.%d.*" % number for number in range(5000)] + [b"b", b"c"])
    assert matcher.matches(b"a.4999.x") and matcher.matches(b"b") and not matcher.matches(b"d")
    assert not compared
