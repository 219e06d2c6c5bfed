"""What a copy is to do, decided once: then it can be cut off anywhere and go on.

A plan names the end of the source, so that what arrives later belongs to another copy, and cuts
everything before it into chunks, which are copied in order. The target knows which of them are
done.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from jetstream_spark.errors import ConnectorError

VERSION = 1


class CopyError(ConnectorError):
    """A copy cannot be made, cannot go on, or is not what it should be."""

    condition = "COPY"


class CopySource(Protocol):
    """Where rows come from."""

    def plan(self) -> dict[str, Any]:
        """What there is now, as JSON: `chunks`, `rows` (None if they are not known), and whatever
        else `read` needs to find it again.

        Raises:
            CopyError: there is nothing that can be copied.
        """

    def read(self, plan: Mapping[str, Any], chunk: int) -> Iterator[pa.RecordBatch]:
        """The rows of a chunk, the same each time.

        Args:
            plan: what `plan` returned.
            chunk: its number, from 0.

        Raises:
            CopyError: the source is not what it was.
        """


class CopyTarget(Protocol):
    """Where rows go to, and what is known of those that are there."""

    def kept_plan(self) -> str | None:
        """The plan of a copy that was begun; None if there is none."""

    def check(self, begun: Mapping[str, Any]) -> None:
        """Make sure that the target is still the one that a copy was begun into.

        Raises:
            CopyError: what was copied is gone with it.
        """

    def begin(self) -> dict[str, Any]:
        """The state of the target before the first row, as JSON.

        Raises:
            CopyError: nothing can be copied into it.
        """

    def keep_plan(self, text: str) -> None:
        """Remember a plan; on the disk when it returns.

        Raises:
            CopyError: somebody else has begun a copy meanwhile.
        """

    def done(self) -> int:
        """How many chunks are done, from the first on."""

    def write(self, chunk: int, batches: Iterable[pa.RecordBatch]) -> int:
        """Write a chunk, as a whole or not at all; return its rows."""

    def count(self, begun: Mapping[str, Any]) -> int | None:
        """How many rows of all chunks the target holds; None if that is unknown."""


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """A plan.

    Attributes:
        source: as `CopySource.plan` says.
        begun: as `CopyTarget.begin` says.
    """

    source: Mapping[str, Any]
    begun: Mapping[str, Any]

    @property
    def chunks(self) -> int:
        """Into how many chunks the source is cut."""
        return int(self.source["chunks"])

    @property
    def rows(self) -> int | None:
        """How many rows there are to copy; None if that is not known beforehand."""
        rows = self.source.get("rows")
        return None if rows is None else int(rows)

    def text(self) -> str:
        """Return it as it is kept."""
        return json.dumps({"v": VERSION, "source": self.source, "begun": self.begun})

    @classmethod
    def parse(cls, text: str) -> CopyPlan:
        """Read what `text` gave.

        Raises:
            CopyError: it is something else.
        """
        try:
            told = json.loads(text)
            if told["v"] != VERSION:
                raise ValueError
            plan = cls(dict(told["source"]), dict(told["begun"]))
            if plan.chunks < 0 or not plan.source["name"]:
                raise ValueError
        except (ValueError, TypeError, KeyError, RecursionError):
            raise CopyError(
                f"what is kept of the copy is no plan of this version: {text[:80]!r}.",
                "Copy into another folder, or under another --name.",
            ) from None
        return plan


def plan_of(source: CopySource, target: CopyTarget, name: str) -> CopyPlan:
    """The plan of a copy that was begun, or else a new one, which is kept.

    Args:
        name: of the source, as a person gave it.

    Raises:
        CopyError: what was begun is a copy of something else.
    """
    kept = target.kept_plan()
    if kept is None:
        plan = CopyPlan({**source.plan(), "name": name}, target.begin())
        target.keep_plan(plan.text())
        return plan
    plan = CopyPlan.parse(kept)
    if plan.source["name"] != name:
        raise CopyError(
            f"a copy of '{plan.source['name']}' was begun there, not of '{name}'.",
            "Copy into another folder, or under another --name.",
        )
    target.check(plan.begun)
    return plan
