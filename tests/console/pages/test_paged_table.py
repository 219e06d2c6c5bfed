"""A table in pages, as a browser asks for them."""

from __future__ import annotations

from contextlib import asynccontextmanager

from jetstream_console.pages.columns import column
from jetstream_console.pages.paged_table import PagedTable
from nicegui import ui
from nicegui.testing import user_simulation

COLUMNS = [column("name", "Name"), column("size", "Size", "size")]
CELLS = {"name": lambda row: row[0], "size": lambda row: row[1]}


@asynccontextmanager
async def shown(rows):
    """Show a table, and yield it, what asks for pages of it, and how often a cell was made."""
    made = []

    def size(row):
        made.append(row)
        return row[1]

    async with user_simulation(lambda: None) as user:
        tables = []

        @ui.page("/")
        def page() -> None:
            tables.append(PagedTable(COLUMNS, CELLS | {"size": size}))
            tables[0].element.mark("table")
            tables[0].fill(rows)

        await user.open("/")

        def ask(event: str = "request", **wanted) -> list[str]:
            told = {"pagination": wanted} if event == "request" else wanted
            user.find("table").trigger(event, told)
            return [row["name"] for row in tables[0].element.rows]

        yield tables[0], ask, made


def names(*numbers: int) -> list[str]:
    return [f"n{number:03}" for number in numbers]


def test_the_browser_gets_one_page_and_no_other_cell_is_made(run):
    async def work():
        rows = [(name, number) for number, name in enumerate(names(*range(101)))]
        async with shown(rows) as (table, ask, made):
            assert [row["size"] for row in table.element.rows] == [*range(25)]
            assert len(made) == 25 and table.element.pagination["rowsNumber"] == 101
            assert ask(page=4, rowsPerPage=25) == names(*range(75, 100))
            assert ask(page=5, rowsPerPage=25) == names(100)
            assert ask(page=2, rowsPerPage=100) == names(100)
            table.fill(rows[:100])
            assert [row["name"] for row in table.element.rows] == names(*range(100))
            table.fill([])
            assert table.element.rows == [] and table.element.pagination["page"] == 1

    run(work())


def test_what_a_browser_tells_of_its_pages_changes_none(run):
    """A browser says what it was given first once it is there, when more may have been found."""

    async def work():
        rows = [(name, 1) for name in names(*range(101))]
        async with shown(rows) as (table, tell, _):
            before = dict(table.element.pagination)
            tell("update:pagination", page=1, rowsPerPage=25, rowsNumber=0)
            assert table.element.pagination == before and before["rowsNumber"] == 101

    run(work())


def test_it_is_sorted_here_and_stays_sorted(run):
    async def work():
        rows = [("b", 2), ("A", None), ("c", 10), ("a", 2)]
        async with shown(rows) as (table, ask, _):
            assert ask(sortBy="size") == ["A", "b", "a", "c"]
            assert ask(sortBy="size", descending=True) == ["c", "b", "a", "A"]
            table.fill([*rows, ("d", 5)])
            assert [row["name"] for row in table.element.rows] == ["c", "d", "b", "a", "A"]
            assert ask(sortBy="name") == ["A", "a", "b", "c", "d"]
            assert ask(sortBy=None) == ["b", "A", "c", "a", "d"]

    run(work())


def test_whatever_a_browser_asks_for_it_gets_a_page(run):
    async def work():
        rows = [(name, 1) for name in names(*range(101))]
        async with shown(rows) as (_, ask, _):
            for page in (0, -1, None, "2", 1.5):
                assert ask(page=page) == names(*range(25))
            assert ask(page=10**30) == names(100)
            for length in (0, -1, None, 10**9, "25", [25]):
                assert len(ask(page=1, rowsPerPage=length)) == 25
            for by in ("nothing", ["name"], {"a": 1}, 5):
                assert ask(sortBy=by, page=1) == names(*range(25))

    run(work())
