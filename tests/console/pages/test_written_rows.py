"""Pages of what was written, without a server."""

from __future__ import annotations

from typing import Any

from jetstream_console.asking.errors import RefusedError
from jetstream_console.asking.written import written_page
from jetstream_console.pages.columns import column
from jetstream_console.pages.written_rows import WrittenRows
from nicegui import ui
from nicegui.testing import user_simulation

from tests.console.conftest import until


class Row:
    def __init__(self, revision: int) -> None:
        self.revision = revision


class Written:
    """Seven rows, of which a page has three; notes what is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, str, bool]] = []
        self.words = ""

    async def end(self) -> int:
        """Return the revision after the last one."""
        return 8

    async def before(self, end: int, wanted: str, shows_gone: bool) -> Any:
        """Return what was written before a revision."""
        self.asked.append((end, wanted, shows_gone))
        if self.words:
            raise RefusedError(self.words)
        return written_page([Row(each) for each in range(end - 1, 0, -1)], 3, 1, False)


def test_pages_go_back_until_there_is_nothing_and_anew_from_the_end(run):
    async def work():
        async with user_simulation(lambda: None) as user:
            written = Written()

            @ui.page("/")
            def page() -> None:
                WrittenRows(
                    noun="row",
                    search=lambda: ui.input("Rows", value="a").mark("wanted"),
                    columns=[column("name", "Row")],
                    row=lambda row: {"name": f"r{row.revision}", "revision": row.revision},
                    end=written.end,
                    ask=written.before,
                )

            def names():
                try:
                    [table] = user.find(kind=ui.table, marker="row-table").elements
                except AssertionError:
                    return []
                return [row["name"] for row in table.rows]

            def said():
                [label] = user.find(kind=ui.label, marker="rows-said").elements
                return label.text

            await user.open("/")
            await until(lambda: names() == ["r7", "r6", "r5"])
            assert said() == "3 rows, there may be more"
            user.find("Older").click()
            await until(lambda: names() == ["r4", "r3", "r2"])
            user.find("Older").click()
            await until(lambda: names() == ["r1"])
            assert said() == "1 rows"
            user.find("Older").click()
            await until(lambda: said() == "There are none that were written before.")
            assert written.asked == [(8, "a", False), (5, "a", False), (2, "a", False)]
            user.find("shows-gone").click()
            user.find("wanted").clear().type("b").trigger("keydown.enter")
            await until(lambda: names() == ["r7", "r6", "r5"])
            assert written.asked[-1] == (8, "b", True)
            written.words = "That is no pattern."
            user.find("Show rows").click()
            await user.should_see("That is no pattern.", retries=50)
            assert names() == []

    run(work())
