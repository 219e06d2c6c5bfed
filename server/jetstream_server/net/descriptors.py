"""File descriptors: as many as the system gives, some of them kept back for the disk.

A server without a free descriptor cannot open a file, and a stream whose file cannot be opened is
as good as broken. So clients are turned away while a few are still free. Where the system allows it
there are many more descriptors than clients: the soft limit, often 1024, is raised to the hard one
at the start, as in every program written in Go.

The system keeps a table of them for each process, which is small at first and grows twofold. In a
process with threads Linux waits for all processors then until nobody reads the old one: 10 to 20 ms
each time, for whoever accepts a connection, and longer where much else runs. So it is large from
the start on.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource

RESERVED_MAX = 128
# As many clients as may connect if nothing else is said; a table for them takes 0.5 MB.
_TABLE_MAX = 1 << 16


class Descriptors:
    """How many there are, and whether a client may have one.

    Attributes:
        limit: of the process.
        reserved: kept back from clients.
    """

    def __init__(self) -> None:
        self.limit = _raised()
        self.reserved = min(RESERVED_MAX, self.limit // 2)

    def make_room(self, handle: int) -> None:
        """Have the table of descriptors be as large as it will have to be.

        Args:
            handle: any that is open.
        """
        last = min(self.limit, _TABLE_MAX) - 1
        with contextlib.suppress(OSError):
            os.close(fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, last))

    def are_for_clients(self, number: int) -> bool:
        """Tell whether a client may have this one.

        Numbers are given out lowest first, so a number tells how many are taken.
        """
        return number < self.limit - self.reserved

    def are_plenty(self, number: int) -> bool:
        """Tell whether this one may go to what could do without, as a second descriptor of a
        listening socket: that takes an eighth of all at most."""
        return number < self.limit // 8

    def next_number(self, handle: int) -> int:
        """Return the number that a client would have now, the limit if there is none left.

        Args:
            handle: any that is open.
        """
        try:
            next_one = os.dup(handle)
        except OSError:
            return self.limit
        os.close(next_one)
        return next_one

    def are_scarce(self, number: int) -> bool:
        """Tell whether, with this one given out, most of those for clients are."""
        return number > (self.limit - self.reserved) * 3 // 4


def _raised() -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (ValueError, OSError):  # some systems have limits that they do not disclose
            pass
    return soft if soft != resource.RLIM_INFINITY else 1 << 30
