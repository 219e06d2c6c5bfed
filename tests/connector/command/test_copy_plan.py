"""A plan is kept, and taken up again."""

from __future__ import annotations

import pytest

from jetstream_spark.command.copy_plan import CopyError, CopyPlan, plan_of


class Ends:
    """A source and a target that remember."""

    def __init__(self) -> None:
        self.kept: str | None = None
        self.rows = 7

    def plan(self) -> dict:
        return {"chunks": 2, "rows": self.rows}

    def begin(self) -> dict:
        return {"next": 5}

    def check(self, begun: dict) -> None:
        assert begun == {"next": 5}

    def kept_plan(self) -> str | None:
        return self.kept

    def keep_plan(self, text: str) -> None:
        self.kept = text


def test_what_was_begun_is_what_goes_on():
    ends = Ends()
    first = plan_of(ends, ends, "stream:A")
    ends.rows = 99
    assert plan_of(ends, ends, "stream:A") == first
    assert (first.chunks, first.rows, first.begun["next"]) == (2, 7, 5)
    with pytest.raises(CopyError, match="a copy of 'stream:A' was begun there, not of 'stream:B'"):
        plan_of(ends, ends, "stream:B")


@pytest.mark.parametrize(
    "text", ["", "[]", '{"v": 2}', "[" * 100_000, '{"v": 1, "source": {"chunks": -1}, "begun": {}}']
)
def test_what_is_no_plan(text):
    with pytest.raises(CopyError, match="is no plan"):
        CopyPlan.parse(text)
