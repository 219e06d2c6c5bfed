"""Who is written to in a turn, where more clients have output than there is time for.

A message may reach ten thousand clients, and to write to each of them takes 10 to 25 microseconds.
Whoever has said something since waits for an answer, and is not to wait for all of them: most of a
turn is for those, the rest for those who have waited longest.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import Protocol, TypeVar

_PART_OF_SILENT = 4  # one part in so many of a turn is for those who have said nothing


class WritableSession(Protocol):
    """A client's session, as far as this is concerned."""

    @property
    def has_spoken(self) -> bool:
        """Return whether it has said something since it was written to."""
        ...


WritableT = TypeVar("WritableT", bound=WritableSession)


def share_out(
    sessions: Collection[WritableT], count_max: int
) -> tuple[Collection[WritableT], dict[WritableT, None]]:
    """Return those who are written to now, and those who wait for the next turn.

    Args:
        sessions: all that have output, whoever waits longest first; both answers keep that order.
    """
    if len(sessions) <= count_max:  # as nearly always
        return sessions, {}
    spoken = [each for each in sessions if each.has_spoken]
    silent = len(sessions) - len(spoken)
    most = count_max - min(silent, count_max // _PART_OF_SILENT)
    now = spoken[:most]
    others = (each for each in sessions if not each.has_spoken)
    now += islice(others, count_max - len(now))
    late = dict.fromkeys(sessions)
    for each in now:
        del late[each]
    return now, late
