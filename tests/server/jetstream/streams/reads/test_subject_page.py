"""A page of very many subjects: what is on it, and how much is done at a time."""

from __future__ import annotations

from array import array
from itertools import pairwise
from random import Random

import pytest
from jetstream_server.jetstream.streams.reads import subject_page
from jetstream_server.jetstream.streams.reads.subject_page import SubjectPage
from jetstream_server.store.ports import Census


@pytest.mark.parametrize("seed", range(30))
def test_it_holds_what_comes_behind_the_offset_in_order(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    random = Random(seed)
    monkeypatch.setattr(subject_page, "SLICE_NAMES", random.choice((1, 3, 100)))
    names = [b"%c.%d" % (random.choice(b"ab"), number) for number in range(random.randrange(40))]
    random.shuffle(names)
    counts = array("Q", [random.choice((0, 1, 5)) for _ in names])
    offset, limit = random.randrange(30), random.randrange(1, 30)
    page = SubjectPage(Census(names, counts), b"a.*", offset, limit)
    for _ in page.slices():
        if random.random() < 0.2:
            names.append(b"a.later%d" % len(names))
    present = {n: c for n, c in zip(names, counts, strict=False) if c and n.startswith(b"a.")}
    expected = sorted(present)[offset : offset + limit]
    assert list(page.counts.items()) == [(name.decode(), present[name]) for name in expected]
    assert page.total == len(present)


def test_a_slice_is_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject_page, "SLICE_NAMES", 10)
    names = [b"a.%d" % number for number in range(200)]
    page = SubjectPage(Census(names, array("Q", [1]) * 200), b">", 50, 100)
    sizes = [0]
    for _ in page.slices():
        sizes.append(len(page.counts))
    assert len(sizes) == 1 + 200 // 10 + 150 // 10
    assert max(after - before for before, after in pairwise(sizes)) == 10
