"""A process and everything it started, from `/proc` (Linux only)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
# Fields of /proc/<pid>/stat, counted after the command in parentheses.
_PARENT = 1
_UTIME, _CSTIME = 11, 14  # user and system, its own and of children that have ended


@dataclass(frozen=True, slots=True)
class Relative:
    """A process that another one started, itself or by those that it started."""

    pid: int
    command: str


def descendants_of(root: int) -> list[Relative]:
    """The processes under one, without it."""
    found = []
    for pid in _tree(root):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
            found.append(Relative(pid, words.decode("utf-8", "replace").strip()))
    return [one for one in found if one.pid != root]


def cpu_s_of_tree(root: int) -> float:
    """Seconds that a process and its descendants have used, those that have ended included."""
    return sum(_tree(root).values()) / _TICKS


def _tree(root: int) -> dict[int, int]:
    """The processor time of each process, in ticks, by its number."""
    parents, ticks = {}, {}
    for pid, fields in _all():
        parents[pid] = int(fields[_PARENT])
        ticks[pid] = sum(map(int, fields[_UTIME : _CSTIME + 1]))
    return {pid: ticks[pid] for pid in ticks if _is_under(pid, root, parents)}


def _all() -> Iterator[tuple[int, list[str]]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                yield int(folder.name), fields


def _is_under(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid and pid != root:
        pid = parents.get(pid, 0)
    return pid == root
