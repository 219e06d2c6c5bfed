"""How much work that takes long, which is API requests, is taken on in one turn.

Five hundred streams can be asked for in one write, or by five hundred clients at once, and
everybody else would have to wait for all of them. So a turn takes on requests worth a number of
units; the others are put off, together with whatever their clients say after them
(`core/answers.py`), and come in the next turns: first those of clients for whom nothing was taken
on, then those who have more to ask for. So whoever asks for little is not behind who asks for much.
Those who were put off come before those who say something new, and leave them a third of the turn.

Whoever says something in a turn that takes long has waited for its end already, and is not to wait
for the end of a second one. So after a turn that had no time left the next one is short, if
somebody says something new: it hears only them, and does little of what is due by itself. Those who
were put off go on in the turn after that one, never later.

What a request is worth beyond its body shows when it is answered: who has made a long answer, or
has searched for it, spends units then, and whoever asks next in that turn waits.

While the disk is behind, requests that make files wait for it as well, because the answers to
others are held for the same flush.

Units are numbers that were measured once, on one machine, and another one may take twice as long,
or this one for some minutes. So what a turn has taken by the clock counts as well, as units of
`UNIT_NS`, if whoever drives the server gives it a clock: then a turn takes on no more when its time
is over, however much it was worth.

What takes longer than a turn is done in slices. A turn does one, whoever it is for, and none if it
has heard clients: their answers leave at its end. A slice that was put off for that once is not put
off again, or a server that always hears somebody would never come to it. Of several that are put
off the one that has waited longest comes first, whoever asks first.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from jetstream_server.core.handing_over import HandingOver
from jetstream_server.core.promises import Promises

UNITS_OF_TURN = 60  # of about 0.1 ms
UNIT_NS = 150_000  # that count as one in any case, whatever was done
_TURN_NS = UNITS_OF_TURN * UNIT_NS
PART_OF_FRESH = 3  # one part in this many is for those who say something new; a short turn is that
UNITS_OF_TIMERS = 60  # for what an account's timers do, and as much for its consumers
REQUEST_UNITS = 1.5  # of one that only looks
FILE_UNITS = 10  # of a request that makes, changes or removes files
UNIT_BYTES = 4096  # of a request's body
ANSWER_UNIT_BYTES = 1024  # of an answer in JSON
SUBJECTS_OF_UNIT = 10_000  # that an answer has looked at all together

Waiting = tuple[Callable[[], None], object]  # what has somebody go on, and who that is


def units_of(size: int, *, is_costly: bool) -> float:
    """Return what a request with a body of this many bytes is worth."""
    return (FILE_UNITS if is_costly else REQUEST_UNITS) + size // UNIT_BYTES


class Workload:
    """What the turns of one node take on.

    Args:
        units_max: of a turn; a single request may be worth more.
        clock: tells the nanoseconds since any moment; one that stands still counts nothing.

    Attributes:
        is_held: the disk is behind.
        is_flooded: so many bytes wait for it that the server itself does not add to them.
        is_laden: so much is to be sent after a flush that no more is delivered before that.
        used: what this turn has taken on.
        was_long: the last turn had no time left for more, and was no short one.
        is_short: this turn is for those who say something new.
        timer_units: what this turn takes on for the timers of each account, and for its consumers.
        waiting: those who want something taken on; whoever got nothing in this turn comes first, in
            the order in which they asked.
        may_be_due: somebody is put off, and waits perhaps just for another turn.
        turn: its number.
        handing: of messages from consumers to others within the server.
        promises: of what reaches very many, or is stored again.
    """

    def __init__(self, units_max: int = sys.maxsize, clock: Callable[[], int] = lambda: 0) -> None:
        self._clock = clock
        self._began_at, self._over_at = 0, _TURN_NS  # this turn, by the clock
        self.is_held = False
        self.is_flooded = False
        self.is_laden = False
        self._units_max = units_max
        self.used = 0.0
        self.was_long = False
        self.is_short = False
        self.timer_units = float(UNITS_OF_TIMERS)
        self.waiting: list[Waiting] = []
        self.may_be_due = False
        self._unserved = 0  # of them, how many got nothing in this turn
        self._held_up: list[Waiting] = []  # until the disk is not behind any more
        self._put_off: set[object] = set()  # clients that go on in this turn, having waited
        self._part_of_fresh = units_max / PART_OF_FRESH
        self._long = units_max - self._part_of_fresh  # what makes a turn a long one
        self._most = float(units_max)  # that this turn takes on
        self._most_of_put_off = self._most
        self._is_cut = False  # its times are not those of a turn
        self._served: set[object] = set()  # the clients that got something
        self.turn = 0
        self.handing = HandingOver()
        self.promises = Promises()
        # Who waits until what they asked for has arrived, and for whom.
        self._promised: list[Waiting] = []
        self._arrivals = 0  # when it was looked last who of them has to wait still
        self._hears = False
        self._slices_left = sys.maxsize  # until there are turns
        # The first turn in which one was put off that is to be done still, 0 if there is none; and
        # the same of those that this turn puts off.
        self._waited_since = 0
        self._waits_since = 0

    def begin(self, *, hears: bool = False, has_fresh: bool = False) -> None:
        """A turn begins: those who were put off go on, if it is not a short one.

        Args:
            hears: it has something to do that clients have sent.
            has_fresh: some of them were not put off; it matters after a long turn, and if somebody
                was put off.
        """
        self.turn += 1
        self._began_at = self._clock()
        self._over_at = self._began_at + _TURN_NS
        self._hears = hears
        self._slices_left = 1
        if self.was_long or self.is_short or self._is_cut:
            self._shorten(is_short=has_fresh and self.was_long)
            self._is_cut = False
        if self._waits_since or self._waited_since:
            self._waited_since, self._waits_since = self._waits_since, 0
        if self.used or self._served:
            self.used = 0.0
            self._served.clear()
        if self._put_off:
            self._put_off.clear()
        if not self.may_be_due or self.is_short:
            return
        if self._held_up and not self.is_held:
            self.waiting = self._held_up + self.waiting
            self._held_up = []
        if self._promised and self._arrivals != self.promises.arrivals:
            self._arrivals = self.promises.arrivals
            promised, self._promised = self._promised, []
            for waiting in promised:
                if self.promises.holds_up(waiting[1]):
                    self._promised.append(waiting)
                else:
                    self.waiting.append(waiting)
        if self.waiting:
            self._most_of_put_off = self._long if has_fresh else self._most
            self._go_on()
        self.may_be_due = bool(self.waiting or self._held_up or self._promised)

    def begin_after_flush(self) -> None:
        """Something goes on between two turns, as a flush is over: it is to be short, as a turn
        comes before it and another one behind it."""
        self._began_at = self._clock()
        self._over_at = self._began_at + _TURN_NS
        self.used = 0.0
        self.timer_units = UNITS_OF_TIMERS / PART_OF_FRESH
        self._is_cut = True

    def _shorten(self, *, is_short: bool) -> None:
        self.is_short = is_short
        self._slices_left = 0 if is_short else 1
        self._most = self._part_of_fresh if is_short else self._units_max
        self.timer_units = UNITS_OF_TIMERS / PART_OF_FRESH if is_short else UNITS_OF_TIMERS

    def end(self, *, is_long: bool = False) -> None:
        """The turn is over: what it has to say leaves now.

        Args:
            is_long: it has taken as long as a turn may, whatever it was for.
        """
        if self.is_short:
            self.was_long = False
        else:
            self.was_long = is_long or self._slices_left <= 0 or self.used >= self._long
        self._slices_left = 0

    def takes_slice(self, waits_since: int) -> bool:
        """Take on a slice of something long, or say that it has to wait for another turn.

        Args:
            waits_since: the turn in which it was asked for first, perhaps this one; 0 if this turn
                has done a slice of the same already.
        """
        is_new = waits_since in (0, self.turn)
        is_first = not self._waited_since or 0 < waits_since <= self._waited_since
        if self._slices_left and is_first and not (self._hears and is_new):
            self._slices_left -= 1
            return True
        if waits_since:
            self._waits_since = min(waits_since, self._waits_since or waits_since)
        return False

    def _go_on(self) -> None:
        """Let those that wait go on, in their order."""
        waiting, self.waiting, self._unserved = self.waiting, [], 0
        for go_on, client in waiting:
            if client is not None:
                self._put_off.add(client)
            go_on()

    def look_at_clock(self) -> None:
        """Count the time that this turn has taken, if that is more than it seemed."""
        by_clock = (self._clock() - self._began_at) / UNIT_NS
        if by_clock > self.used:
            self.used = by_clock

    @property
    def is_over(self) -> bool:
        """Return whether this turn has taken as long as a turn should, by the clock."""
        return self._clock() >= self._over_at

    def takes(self, units: float, client: object = None) -> bool:
        """Take on a request, or say that it has to wait.

        Args:
            client: who asks, None for nobody in particular.
        """
        if self.is_held and units >= FILE_UNITS:
            return False
        if self._served:  # who comes first does not wait for what is no request
            self.look_at_clock()
        if self.is_spent_for(client):
            return False
        if self.used and self.used + units > self._most:
            return False
        self.used += units
        if client is not None:
            self._served.add(client)
        return True

    def spend(self, units: float, client: object = None) -> None:
        """Note that what was taken on was worth more than it seemed.

        Args:
            client: whose it was, None for nobody in particular.
        """
        self.used += units
        if client is not None:
            self._served.add(client)

    def promise(self, units: float, account: object) -> None:
        """Note that what was taken on reaches very many, once the disk has it."""
        self.used += units
        self.promises.make(units, account)

    def is_spent_for(self, client: object) -> bool:
        """Return whether this turn has taken on as much as it has time for, or a client has to wait
        for what it asked for, or is one of those who were put off, and they have had their share.
        """
        enough = self._most_of_put_off if client in self._put_off else self._most
        return self.used >= enough or self.promises.holds_up(client)

    @property
    def is_spent(self) -> bool:
        """Return whether this turn has taken on as much as it has time for."""
        return self.used >= self._most

    def is_too_short_for(self, units: float) -> bool:
        """Tell whether this is a short turn, and work would take longer than all of it."""
        return self.is_short and units > self._most

    def wait(
        self, go_on: Callable[[], None], client: object = None, *, makes_files: bool = False
    ) -> None:
        """Have `go_on` called when a turn begins that may take on something.

        Args:
            client: as `takes` was told.
            makes_files: what waits does, so it waits for the disk as well.
        """
        waiting = (go_on, client)
        self.may_be_due = True
        if makes_files and self.is_held:
            self._held_up.append(waiting)
        elif self.promises.holds_up(client):
            self._promised.append(waiting)
        elif client in self._served:
            self.waiting.append(waiting)
        else:
            self.waiting.insert(self._unserved, waiting)
            self._unserved += 1

    @property
    def is_due(self) -> bool:
        """Return whether somebody waits just for another turn."""
        if self.waiting or (self._held_up and not self.is_held):
            return True
        if not self._promised or self._arrivals == self.promises.arrivals:
            return False
        return any(not self.promises.holds_up(client) for _, client in self._promised)
