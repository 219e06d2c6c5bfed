"""Missing sequences are found in parts of bounded length, however they lie."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from random import Random

import pytest
from jetstream_server.store import gaps


@pytest.mark.parametrize("seed", range(30))
def test_what_is_missing_among_what_is_there(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(gaps, "LOOKED_AT_ONCE", 5)
    random = Random(seed)
    live: list[Sequence[int]] = []
    sequence = first = random.choice((1, 7))
    for _ in range(random.randrange(6)):
        sequence += random.choice((0, 0, 1, 3, 40))
        count = random.randrange(9)
        some: Sequence[int] = range(sequence, sequence + count)
        if random.random() < 0.6:
            some = [each for each in some if random.random() < 0.5]
        live += gaps.pieces(some)
        sequence += count
    last = sequence + random.choice((0, 2, 30))
    parts = list(gaps.missing_among(live, first, last))
    held = {each for some in live for each in some}
    assert list(chain.from_iterable(parts)) == [
        each for each in range(first, last + 1) if each not in held
    ]
    # Gaps of up to five between each of five messages.
    assert max(map(len, parts), default=0) <= 25
