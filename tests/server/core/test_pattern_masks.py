"""Patterns compared at once answer as they do one by one."""

from __future__ import annotations

from random import Random

import pytest
from jetstream_server.core import pattern_masks
from jetstream_server.core.pattern_masks import BITS, PatternMasks
from jetstream_server.core.subject import is_subset, is_well_formed, matches, overlaps

TOKENS = [b"a", b"b", b"*", b"*", b">", b"", b"a*"]


def masks_of(patterns: list[bytes]) -> PatternMasks:
    masks = PatternMasks()
    for each in patterns:
        masks.add(each)
    return masks


@pytest.mark.parametrize("seed", range(30))
def test_every_answer_is_that_of_all(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr(pattern_masks, "BITS", random.choice([1, 2, 64]))
    for _ in range(100):
        patterns = [
            b".".join(random.choices(TOKENS, k=random.randint(1, 4)))
            for _ in range(random.randrange(6))
        ]
        masks = masks_of(patterns)
        asked = b".".join(random.choices(TOKENS[:4], k=random.randint(1, 6)))
        if random.random() < 0.3:
            asked += b".>"
        assert is_well_formed(asked)
        seen = patterns, asked
        assert masks.match(asked) is any(matches(each, asked) for each in patterns), seen
        assert masks.overlap(asked) is any(overlaps(each, asked) for each in patterns), seen
        assert masks.include(asked) is any(is_subset(asked, each) for each in patterns), seen


def test_what_is_looked_at_is_counted() -> None:
    masks = masks_of([b"a.%d.*" % n for n in range(50)] + [b"b.>"])
    for ask, pattern, answer, places in (
        (masks.match, b"a.7.x", True, 3),
        (masks.match, b"a.x.y", False, 2),
        (masks.match, b"c.7.x", False, 1),
        (masks.include, b"a.7.*", True, 3),
        (masks.include, b"a.7.>", False, 3),
        (masks.include, b"b.>", True, 2),
        (masks.include, b">", False, 1),
        (masks.overlap, b"a.7.>", True, 3),
        (masks.overlap, b"*.*", True, 2),
        (masks.overlap, b"a.*", False, 2),
        (masks.overlap, b"b", False, 1),
    ):
        looked_at = masks.looked_at
        assert ask(pattern) is answer, (ask, pattern)
        assert masks.looked_at - looked_at == places, (ask, pattern)


def test_one_of_very_many_is_found() -> None:
    masks = masks_of([b"a.*.%d" % number for number in range(3 * BITS)])
    for number in (0, BITS - 1, BITS, 3 * BITS - 1):
        assert masks.match(b"a.b.%d" % number)
    assert not masks.match(b"a.b.%d" % (3 * BITS))
