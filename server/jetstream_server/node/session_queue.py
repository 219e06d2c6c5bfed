"""Who is heard in a turn, of those who have said something.

A thousand clients may say much at once, and whoever says little meanwhile is not to wait for all of
it. So everybody is heard in small shares where there are many, and those who have more wait again,
behind the others. Whoever says something new is heard before those who wait, who have half of each
turn; and of those who do, whoever says little before who says much, as a thousand who say much at
once are not heard in one turn. One operation may count for so many that nothing is left for those
who wait; then they come earlier in the next turn, or who always says something new would be heard
alone. Time counts as well: when a turn has taken long by the clock, nobody else is heard in it, but
some of each kind. Only those for whose messages there was no time are heard before everybody, or
others would always be quicker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from operator import attrgetter

from jetstream_server.core.deliveries import Deliveries
from jetstream_server.node.session import Session

# The largest and the smallest share; to come to a session takes as long as an operation.
OPS_OF_SESSION_MAX = 500
OPS_OF_SESSION_MIN = 4
# By the clock: so long all may take for each operation of a turn, of which most take a tenth of
# that; and so long each of the groups into which they fall has in any case, and once more those who
# say little and were not put off, as whoever was put off may take all of it.
OP_NS = 20_000
GROUP_NS = 2_500_000
LITTLE_BYTES = 1024  # it is little for who has said no more

_UNHEARD_BYTES = attrgetter("unheard_bytes")

Hear = Callable[[Session, int, int], int]


class SessionQueue:
    """Sessions with input that is yet to be acted on.

    Args:
        ops_max: what a turn takes on, of all together.
        clock: tells the nanoseconds since any moment; one that stands still counts nothing.

    Attributes:
        is_any: somebody has something to act on.
    """

    def __init__(self, ops_max: int, clock: Callable[[], int] = lambda: 0) -> None:
        self._ops_max = ops_max
        self._clock = clock
        self._late: dict[Session, None] = {}  # there was no time for their messages
        self._fresh: dict[Session, None] = {}  # noted since the last turn
        self._waiting: dict[Session, None] = {}  # the longest first
        self._passed_over = 0  # turns in a row in which none of those was heard
        self.is_any = False

    @property
    def has_fresh(self) -> bool:
        """Return whether somebody has something new to say, and was not put off before that."""
        return any(not session.is_put_off for session in self._fresh)

    def note(self, session: Session) -> None:
        """Note that a session has something to act on."""
        if not self.is_any:  # as nearly always
            self._fresh[session] = None
            self.is_any = True
        elif session not in self._waiting and session not in self._late:
            self._fresh[session] = None

    def take_fresh(self) -> Iterable[Session]:
        """Return those who were noted since the last turn, and hear them no more unless they are
        noted again."""
        fresh, self._fresh = self._fresh, {}
        self._look()
        return fresh

    def _look(self) -> None:
        self.is_any = bool(self._fresh or self._waiting or self._late)

    def forget(self, session: Session) -> None:
        """A session is over."""
        for sessions in (self._late, self._fresh, self._waiting):
            sessions.pop(session, None)
        self._look()

    def take_turn(
        self,
        hear: Hear,
        deliveries: Deliveries,
        now: int,
        *,
        is_short: bool = False,
        is_late: bool = False,
    ) -> None:
        """Have sessions heard, as many as there is time for.

        Args:
            hear: has one act on no more of what it has than that, and returns on how much.
            deliveries: tell whether there is no time for the messages of whoever is heard next.
            is_short: there is time only for those who say something new.
            is_late: there is no time left for messages.
        """
        fresh = self._fresh
        if self._waiting or self._late:
            self._take_crowded_turn(hear, deliveries, now, is_short=is_short)
        elif len(fresh) > 1:
            if is_short or max(map(_UNHEARD_BYTES, fresh)) > LITTLE_BYTES:
                self._take_crowded_turn(hear, deliveries, now, is_short=is_short)
            else:
                self._take_quiet_turn(hear, deliveries, now)
        elif fresh:  # as nearly always
            session, _ = fresh.popitem()
            self.is_any = False  # until it is noted again
            hear(session, OPS_OF_SESSION_MAX, now)
            if fresh:  # it has more
                self._fresh = {}
                self._waiting = fresh
                if is_late and session in fresh:
                    del fresh[session]
                    self._late[session] = None

    def _take_quiet_turn(self, hear: Hear, deliveries: Deliveries, now: int) -> None:
        """Have sessions heard all of which have said little, while nobody waits."""
        fresh, self._fresh = self._fresh, {}
        left, clock = self._ops_max, self._clock
        over_at = clock() + left * OP_NS
        heard_late: list[Session] = []
        most = min(max(left // len(fresh), OPS_OF_SESSION_MIN), OPS_OF_SESSION_MAX)
        unheard, is_over, passed_over = iter(fresh), False, list[Session]()
        for session in unheard:
            if is_over and session.is_put_off:
                passed_over.append(session)
                continue
            if deliveries.are_spent:
                heard_late.append(session)
            left -= hear(session, min(most, left), now)
            if left <= 0:
                break
            if clock() >= over_at:
                if is_over:
                    break
                is_over, over_at = True, clock() + GROUP_NS
        self._passed_over = 0
        unheard_sessions = (*passed_over, *unheard)
        if not unheard_sessions and not self._fresh:  # all were heard, and nobody has more
            self.is_any = False
        else:
            self._note_more(heard_late, (), unheard_sessions)

    def _take_crowded_turn(
        self, hear: Hear, deliveries: Deliveries, now: int, *, is_short: bool
    ) -> None:
        fresh, self._fresh = self._fresh, {}
        late: dict[Session, None] = {}
        waiting: dict[Session, None] = {}
        if is_short:
            self._fresh = {session: None for session in fresh if session.is_put_off}
            fresh = {session: None for session in fresh if not session.is_put_off}
        else:
            (late, self._late), (waiting, self._waiting) = (
                (self._late, late),
                (self._waiting, waiting),
            )
        little = {each: None for each in fresh if each.unheard_bytes <= LITTLE_BYTES}
        much = {each: None for each in fresh if each not in little} if little else fresh
        late_left, waiting_left = iter(late), iter(waiting)
        little_left, much_left = iter(little), iter(much)
        groups = [(late, late_left), (little, little_left), (much, much_left)]
        place = max(len(groups) - self._passed_over, 1)
        groups.insert(place, (waiting, waiting_left))
        left, reserve, clock = self._ops_max, 0, self._clock
        over_at = clock() + left * OP_NS
        heard_late: list[Session] = []
        passed_over: list[Session] = []
        is_passed_over = bool(waiting)
        for number, (sessions, unheard) in enumerate(groups):
            if not sessions:
                continue
            # The others have half of it; who says much, what those who say little leave.
            if sessions is late:
                reserve = left // 2
            elif sessions is waiting:
                reserve = left // 2 if any(others for others, _ in groups[place + 1 :]) else 0
            elif not waiting or number > place:
                reserve = 0
            elif sessions is little or not little:
                reserve = left // 2
            share = max((left - reserve) // len(sessions), OPS_OF_SESSION_MIN)
            most = min(share, OPS_OF_SESSION_MAX)
            until = max(over_at - reserve * OP_NS, clock() + GROUP_NS)
            is_over = False
            while left > reserve and (session := next(unheard, None)) is not None:
                if is_over and session.is_put_off:
                    passed_over.append(session)
                    continue
                is_passed_over &= sessions is not waiting
                if deliveries.are_spent:
                    heard_late.append(session)
                left -= hear(session, min(most, left - reserve), now)
                if clock() >= until:
                    if is_over or sessions is not little:
                        break
                    is_over, until = True, clock() + GROUP_NS
        if not is_short:
            self._passed_over = self._passed_over + 1 if is_passed_over else 0
        left_over = chain(passed_over, waiting_left, much_left, little_left)
        self._note_more(heard_late, late_left, left_over)

    def _note_more(
        self, heard_late: list[Session], late_left: Iterable[Session], left: Iterable[Session]
    ) -> None:
        """Note who waits: those who were not heard, and those who have more, which were noted
        meanwhile.

        Args:
            heard_late: those for whose messages there was no time.
            late_left: those who were late before, and were not heard.
            left: all others who were not heard.
        """
        more, self._fresh = self._fresh, {}
        self._late |= dict.fromkeys([*late_left, *(each for each in heard_late if each in more)])
        for session in (*left, *more):
            if session not in self._late:
                self._waiting[session] = None
        self._look()
