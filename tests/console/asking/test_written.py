"""Pages of what was written, the last first."""

from __future__ import annotations

from dataclasses import dataclass

from jetstream_console.asking.written import WrittenPage, written_page


@dataclass(frozen=True)
class Row:
    revision: int


ROWS = (Row(9), Row(7), Row(4))


def test_what_is_beyond_the_page_is_where_the_next_one_begins():
    assert written_page(ROWS, 2, 3, False) == WrittenPage(ROWS[:2], 7, True)
    assert written_page(ROWS, 1, 3, True) == WrittenPage(ROWS[:1], 9, True)


def test_what_fits_is_a_page_that_ends_where_the_search_did():
    for has_more in (False, True):
        assert written_page(ROWS, 3, 2, has_more) == WrittenPage(ROWS, 2, has_more)
        assert written_page([], 3, 2, has_more) == WrittenPage((), 2, has_more)
