"""The states of a client's session: what leads from one to another, and what each allows.

A session is greeted, speaks, and is connected once its CONNECT is accepted; while its password is
compared it waits. CONNECT may come again, and may have to wait again: the client goes on as who it
was until then. In the end it is turned away, or leaves as somebody who was connected.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class State(Enum):
    """Where a session is."""

    GREETED = auto()  # it was sent INFO and has said nothing
    SPEAKING = auto()  # it has said something, and nobody has signed in
    COMPARING = auto()  # the password of its first CONNECT is compared
    CONNECTED = auto()
    COMPARING_AGAIN = auto()  # the password of a later CONNECT is compared
    TURNED_AWAY = auto()  # it ends, and nobody has signed in
    LEAVING = auto()  # it ends, and was connected


class Event(Enum):
    """What moves a session on."""

    SPOKE = auto()
    ASKED = auto()  # its password takes time to compare
    ANSWERED = auto()  # and is compared
    ACCEPTED = auto()  # CONNECT says who may connect
    ENDED = auto()


class SignInClock(Enum):
    """Whether the time allowed for signing in runs out."""

    RUNS = auto()
    RUNS_WHERE_REQUIRED = auto()  # even somebody who need not sign in has to say something
    RUNS_WHERE_NOBODY_IS_ANONYMOUS = auto()
    STANDS = auto()


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a state allows.

    Attributes:
        hears: what the client says is acted on; otherwise it waits, or is dropped at the end.
        is_connected: somebody has signed in.
        clock: of signing in.
    """

    hears: bool
    is_connected: bool
    clock: SignInClock


ALLOWED = {
    #                       hears, is_connected
    State.GREETED: Allowed(True, False, SignInClock.RUNS_WHERE_REQUIRED),
    State.SPEAKING: Allowed(True, False, SignInClock.RUNS_WHERE_NOBODY_IS_ANONYMOUS),
    State.COMPARING: Allowed(False, False, SignInClock.RUNS),
    State.CONNECTED: Allowed(True, True, SignInClock.STANDS),
    State.COMPARING_AGAIN: Allowed(False, True, SignInClock.RUNS),
    State.TURNED_AWAY: Allowed(False, False, SignInClock.STANDS),
    State.LEAVING: Allowed(False, True, SignInClock.STANDS),
}

NEXT = {
    State.GREETED: {
        Event.SPOKE: State.SPEAKING,
        Event.ENDED: State.TURNED_AWAY,
    },
    State.SPEAKING: {
        Event.ASKED: State.COMPARING,
        Event.ACCEPTED: State.CONNECTED,
        Event.ENDED: State.TURNED_AWAY,
    },
    State.COMPARING: {
        Event.ANSWERED: State.SPEAKING,
        Event.ENDED: State.TURNED_AWAY,
    },
    State.CONNECTED: {
        Event.ASKED: State.COMPARING_AGAIN,
        Event.ACCEPTED: State.CONNECTED,
        Event.ENDED: State.LEAVING,
    },
    State.COMPARING_AGAIN: {
        Event.ANSWERED: State.CONNECTED,
        Event.ENDED: State.LEAVING,
    },
    State.TURNED_AWAY: {},
    State.LEAVING: {},
}


class Lifecycle:
    """Where one session is between greeting and farewell.

    Attributes:
        state: where it is.
        allowed: what that allows.
    """

    __slots__ = ("allowed", "state")

    def __init__(self) -> None:
        self.state = State.GREETED
        self.allowed = ALLOWED[State.GREETED]

    def takes(self, event: Event) -> bool:
        """Tell whether something can happen in this state."""
        return event in NEXT[self.state]

    def happened(self, event: Event) -> None:
        """Go on to the next state.

        Raises:
            KeyError: this cannot happen here.
        """
        self.state = NEXT[self.state][event]
        self.allowed = ALLOWED[self.state]

    def must_sign_in(self, *, is_required: bool, admits_anonymous: bool) -> bool:
        """Tell whether the time allowed for signing in runs.

        Args:
            is_required: not everybody may connect.
            admits_anonymous: those who do not sign in count as a user.
        """
        match self.allowed.clock:
            case SignInClock.RUNS:
                return True
            case SignInClock.RUNS_WHERE_REQUIRED:
                return is_required
            case SignInClock.RUNS_WHERE_NOBODY_IS_ANONYMOUS:
                return is_required and not admits_anonymous
            case SignInClock.STANDS:
                return False
