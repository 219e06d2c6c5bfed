"""Which sockets have something to read, so many of them in a look.

An event loop tells of every socket that has something before anybody acts on it. Ten thousand
connections that are reset in one moment are closed by it in one go, which takes 10 microseconds for
each, and while that lasts others are reset: everybody else waited for 40 to 90 ms. So sockets are
watched in a set of their own, of which the loop sees no more than whether it has anything. Some are
read from, a turn acts on that, and then comes the next look. The system puts whoever it has told of
behind the others; those of them for whom there was no time come first in the next look.

Where a look finds as many as it may, whoever has ended waits for those who go on: ten thousand that
are reset come faster than they can be read from, and everybody else stood in line behind them. A
few of them are read from in each look, so that they have their turn as well, and the others as soon
as there is time.

A look costs some microseconds more than the loop's own way, so as long as clients are few the loop
reads from them itself (`watched_socket.py`), as it does where the system has no such sets.
"""

from __future__ import annotations

import asyncio
import itertools
import select
import sys
from collections.abc import Sized
from typing import Protocol

from jetstream_server.base.clock import Clock

SOCKETS_OF_LOOK_MAX = 512
# By the clock as well, as what some of them have sent may be much, or take long to be taken apart.
LOOK_NS = 20_000_000
_SOCKETS_OF_CLOCK = 16  # read from before it is looked at
# Of those that have ended: while looks find as many as they may, and else.
ENDED_OF_BUSY_LOOK = 16
ENDED_OF_LOOK = 128
_HAS_ENDED = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR if sys.platform == "linux" else 0
READ_BY_LOOP_MAX = 256  # with fewer clients, those who come are read from by the loop


class Readable(Protocol):
    """A socket that is watched."""

    def read(self) -> None:
        """Read from it once: it has something, or it has ended."""
        ...


class Readiness:
    """Has sockets read from that have something.

    Args:
        loop: the one that serves all of them.
        clock: tells when a look is over.
        clients: who is connected, whoever reads from them.

    Attributes:
        is_available: the system has such sets.
        is_behind: the look before this turn found as many as it may, or had no time for all.
        may_put_off: whoever has ended may wait, as there are descriptors enough for others.
    """

    is_available = sys.platform == "linux"

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, clients: Sized) -> None:
        self._loop = loop
        self._clock = clock
        self._clients = clients
        self._watched: dict[int, Readable] = {}
        self._epoll: select.epoll | None = None
        self._left: list[tuple[int, int]] = []  # found, and not read from yet
        self._ended: dict[int, Readable] = {}  # and are not read from yet, in their order
        self._is_coming_back = False
        self._was_behind = False  # the last look; `is_behind` is for others
        self._is_over = False
        self.is_behind = False
        self.may_put_off = True

    @property
    def are_few(self) -> bool:
        """Return whether so few clients are there that the loop may read from one more."""
        return len(self._clients) < READ_BY_LOOP_MAX

    def watch(self, descriptor: int, readable: Readable) -> None:
        """Have a socket read from whenever there is something, from now on.

        Raises:
            OSError: the system watches no more of them.
        """
        if self._is_over:
            return
        if self._epoll is None:
            self._epoll = select.epoll()
            self._loop.add_reader(self._epoll.fileno(), self._look)
        self._epoll.register(descriptor, select.EPOLLIN | select.EPOLLRDHUP)
        self._watched[descriptor] = readable

    def forget(self, descriptor: int) -> None:
        """Watch a socket no more, as long as it is still open."""
        if self._ended.pop(descriptor, None) is not None:
            return
        if self._watched.pop(descriptor, None) is not None and self._epoll is not None:
            self._epoll.unregister(descriptor)

    def close(self) -> None:
        """Watch nothing any more."""
        self._is_over = True
        self._watched.clear()
        self._ended.clear()
        if self._epoll is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None

    def _look(self) -> None:
        assert self._epoll is not None
        over_at = self._clock.now() + LOOK_NS
        found = self._left or self._epoll.poll(0, SOCKETS_OF_LOOK_MAX)
        self._left = []
        is_full = len(found) == SOCKETS_OF_LOOK_MAX
        if is_full and self.may_put_off:
            found = self._put_off(found)
        self._left = self._read(found, self._watched, over_at)
        self.is_behind = self._was_behind = bool(self._left) or is_full

    def _read(
        self, found: list[tuple[int, int]], among: dict[int, Readable], over_at: int
    ) -> list[tuple[int, int]]:
        """Read from sockets, as long as there is time; return those that are left."""
        for begin in range(0, len(found), _SOCKETS_OF_CLOCK):
            end = begin + _SOCKETS_OF_CLOCK
            for descriptor, _ in found[begin:end]:
                readable = among.get(descriptor)
                if readable is not None:  # what was read before may have ended it
                    readable.read()
            if self._clock.now() >= over_at:
                return found[end:]
        return []

    def _put_off(self, found: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Have those wait that have ended; return the others."""
        assert self._epoll is not None
        others = []
        for each in found:
            descriptor, events = each
            if not events & _HAS_ENDED:
                others.append(each)
            elif (readable := self._watched.pop(descriptor, None)) is not None:
                self._epoll.unregister(descriptor)  # else every look would find it
                self._ended[descriptor] = readable
        self._come_back()
        return others

    def _come_back(self) -> None:
        """Have some of those read from that wait, in the next turn."""
        if self._ended and not self._is_coming_back:
            self._is_coming_back = True
            self._loop.call_soon(self._read_ended)

    def _read_ended(self) -> None:
        self._is_coming_back = False
        self._come_back()  # whatever comes of those that are read from now
        most = ENDED_OF_BUSY_LOOK if self._was_behind else ENDED_OF_LOOK
        self._was_behind = False  # until the next look
        ended = self._ended
        first = list(itertools.islice(ended, most))
        for descriptor in first:  # who has sent more than is read at once lines up anew
            ended[descriptor] = ended.pop(descriptor)
        self._read([(each, 0) for each in first], ended, self._clock.now() + LOOK_NS)
