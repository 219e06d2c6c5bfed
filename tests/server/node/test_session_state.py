"""The table of a session's states: complete, and each of them met by a session that runs."""

from __future__ import annotations

from typing import Any

import pytest
from jetstream_server.node.session_state import ALLOWED, NEXT, Event, Lifecycle, State


def at(state: State) -> Lifecycle:
    """Return a lifecycle of a session as far as a state, by the shortest way there is."""
    ways: dict[State, list[Event]] = {State.GREETED: []}
    for known in ways_on(ways):
        if known is state:
            break
    lifecycle = Lifecycle()
    for event in ways[state]:
        lifecycle.happened(event)
    return lifecycle


def ways_on(ways: dict[State, list[Event]]) -> Any:
    waiting = list(ways)
    while waiting:
        here = waiting.pop(0)
        yield here
        for event, there in NEXT[here].items():
            if there not in ways:
                ways[there] = [*ways[here], event]
                waiting.append(there)


@pytest.mark.parametrize("state", State)
def test_every_state_is_reached_and_says_what_it_allows(state: State) -> None:
    lifecycle = at(state)
    assert lifecycle.state is state and lifecycle.allowed is ALLOWED[state]


@pytest.mark.parametrize("state", State)
def test_what_is_over_stays_over_and_everything_else_can_end(state: State) -> None:
    is_over = state in (State.TURNED_AWAY, State.LEAVING)
    assert is_over == (not NEXT[state]) and at(state).takes(Event.ENDED) != is_over


@pytest.mark.parametrize("state", State)
def test_who_is_connected_stays_so_to_the_end(state: State) -> None:
    if ALLOWED[state].is_connected:
        assert all(ALLOWED[there].is_connected for there in NEXT[state].values())


def test_who_waits_is_not_heard() -> None:
    assert {state for state in State if not ALLOWED[state].hears} == {
        State.COMPARING,
        State.COMPARING_AGAIN,
        State.TURNED_AWAY,
        State.LEAVING,
    }


@pytest.mark.parametrize("state", State)
def test_what_cannot_happen_is_refused(state: State) -> None:
    for event in set(Event) - set(NEXT[state]):
        lifecycle = at(state)
        assert not lifecycle.takes(event)
        with pytest.raises(KeyError):
            lifecycle.happened(event)
        assert lifecycle.state is state


@pytest.mark.parametrize(
    ("state", "open_server", "anonymous", "users_only"),
    [
        (State.GREETED, False, True, True),
        (State.SPEAKING, False, False, True),
        (State.COMPARING, True, True, True),
        (State.CONNECTED, False, False, False),
        (State.COMPARING_AGAIN, True, True, True),
        (State.TURNED_AWAY, False, False, False),
        (State.LEAVING, False, False, False),
    ],
)
def test_whose_time_to_sign_in_runs(
    state: State, open_server: bool, anonymous: bool, users_only: bool
) -> None:
    lifecycle = at(state)
    assert lifecycle.must_sign_in(is_required=False, admits_anonymous=True) == open_server
    assert lifecycle.must_sign_in(is_required=True, admits_anonymous=True) == anonymous
    assert lifecycle.must_sign_in(is_required=True, admits_anonymous=False) == users_only
