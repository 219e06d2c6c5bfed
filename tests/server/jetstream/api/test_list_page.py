"""Pages of lists hold as many entries as usual, or fewer if these are long."""

from __future__ import annotations

import pytest
from jetstream_server.jetstream.api.list_page import TEXTS_MAX, page_of

HALF = TEXTS_MAX // 2


@pytest.mark.parametrize(
    ("texts", "offset", "count"),
    [
        ([], 0, 0),
        ([0] * 10, 0, 4),
        ([0] * 10, 8, 2),
        ([0] * 10, 10, 0),
        ([HALF, HALF, 1], 0, 2),
        ([HALF, HALF + 1, 1], 0, 1),
        ([3 * TEXTS_MAX, 0, 0], 0, 1),
        ([0, 3 * TEXTS_MAX, 0, 0], 1, 1),
        ([0, 0, 3 * TEXTS_MAX], 0, 2),
    ],
)
def test_how_many_entries_a_page_holds(texts: list[int], offset: int, count: int) -> None:
    entries = list(enumerate(texts))
    page = page_of(entries, offset, 4, lambda entry: entry[1])
    assert page == entries[offset : offset + count]
