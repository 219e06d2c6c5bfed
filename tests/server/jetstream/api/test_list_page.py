"""Pages of lists hold as many entries as usual, or fewer if these are long."""

from __future__ import annotations

from typing import Any

import pytest
from jetstream_server.jetstream.api import list_page
from jetstream_server.jetstream.api.list_page import TEXTS_MAX, PageEntries, page_of
from jetstream_server.jetstream.wire.go_json import encode

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


@pytest.mark.parametrize(
    ("sizes", "taken"),
    [
        ([1, 1, 1], 3),
        ([6, 6, 1], 2),
        ([50, 1], 1),  # the first one is in it however long it is
        ([1, 50], 1),
    ],
)
def test_entries_are_taken_until_the_page_is_long(
    monkeypatch: pytest.MonkeyPatch, sizes: list[int], taken: int
) -> None:
    monkeypatch.setattr(list_page, "PAGE_BYTES_MAX", 100)
    entries = PageEntries()
    given: list[dict[str, Any]] = [{"name": "<" * size} for size in sizes]
    assert [entries.add(each) for each in given] == [n < taken for n in range(len(sizes))]
    assert entries.count == taken
    assert encode(entries.fields("streams")) == encode({"streams": given[:taken]})


def test_how_long_an_entry_was_is_known_even_if_there_was_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(list_page, "PAGE_BYTES_MAX", 30)
    entries = PageEntries()
    assert entries.add({"name": "a"}) and entries.last_bytes == 12
    assert not entries.add({"name": "<" * 5}) and entries.last_bytes == 41


def test_what_does_not_serve_is_told_and_counted() -> None:
    entries = PageEntries()
    entries.add({"name": "a"})
    entries.stopped["b"] = "damaged"
    assert entries.count == 2
    assert encode(entries.fields("streams")) == (
        b'{"streams":[{"name":"a"}],"missing":["b"],"offline":{"b":"damaged"}}'
    )
