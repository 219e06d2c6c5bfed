"""Patterns beside each other, against brute force over short subjects."""

from __future__ import annotations

import itertools

from jetstream_spark.subjects import covers, overlaps

TOKENS = ["a", "b", "*", ">"]
PATTERNS = [
    ".".join(tokens)
    for length in (1, 2, 3)
    for tokens in itertools.product(TOKENS, repeat=length)
    if ">" not in tokens[:-1]
]
SUBJECTS = [tokens for length in (1, 2, 3, 4) for tokens in itertools.product("abc", repeat=length)]


def matches(pattern: str, subject: tuple[str, ...]) -> bool:
    tokens = pattern.split(".")
    if tokens[-1] == ">":
        if len(subject) < len(tokens):
            return False
        tokens, subject = tokens[:-1], subject[: len(tokens) - 1]
    return len(tokens) == len(subject) and all(
        token in ("*", word) for token, word in zip(tokens, subject, strict=True)
    )


MATCHED = {
    pattern: {subject for subject in SUBJECTS if matches(pattern, subject)} for pattern in PATTERNS
}


def test_overlap_is_a_common_subject():
    for one, other in itertools.product(PATTERNS, repeat=2):
        assert overlaps(one, other) == bool(MATCHED[one] & MATCHED[other]), (one, other)


def test_what_is_covered_is_a_part():
    for one, other in itertools.product(PATTERNS, repeat=2):
        assert covers(one, other) == (MATCHED[other] <= MATCHED[one]), (one, other)
