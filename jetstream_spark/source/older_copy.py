"""Whether a server was given an older copy of its files since a batch was planned.

Such a stream says that it is the same incarnation, and gives sequences a second time. Where it
ends before the query's position that is seen at once; but when enough was published meanwhile, its
end says nothing, and the query would pass over what has the sequences that it knows. So an offset
notes which message was the newest one (`Newest`), and that message is looked at again. The files of
a server can only be put back while it does not run, and it has another id after each start: once
for each id is enough.
"""

from __future__ import annotations

import contextlib
import logging

from jetstream_spark.client.control import Control, StreamState
from jetstream_spark.client.operation import Operation
from jetstream_spark.errors import PermissionDeniedError
from jetstream_spark.options.offsets import Newest, StreamOffset

_log = logging.getLogger("jetstream_spark")

# Times in a stream may go back by so much when the server's clock is set.
CLOCK_STEP_MAX_NS = 10 * 10**9


class OlderCopies:
    """What is known of the streams of one run.

    Args:
        control: which has asked for the states.
    """

    def __init__(self, control: Control) -> None:
        self._control = control
        self._checked: dict[str, str] = {}  # by stream: the id of the server that was asked
        # By stream: for which server and newest message that was found.
        self._begins: dict[str, tuple[str, Newest, int]] = {}

    def find(self, state: StreamState, at: StreamOffset) -> Operation[int | None]:
        """The first sequence that a stream gave a second time, None if it is not known to have.

        Args:
            at: where the query stands, with what the stream had then.
        """
        newest = at.newest
        if newest is None or state.created != at.created:
            return None
        if state.next <= newest.sequence:
            # A new leader may not have applied all of its log yet. If it is no such thing, that
            # shows when the stream is as far again.
            is_leader_late = state.is_replicated and state.next >= at.next
            return None if is_leader_late else (yield from self._begin(state, newest))
        if self._checked.get(state.name) == self._control.server_id:
            return None
        try:
            first = yield from self._given_again(state, newest)
        except PermissionDeniedError as error:
            _log.warning(
                "whether stream '%s' was restored from an older copy is not known: %s",
                state.name,
                error,
            )
            first = None
        if first is None:
            self._checked[state.name] = self._control.server_id
        return first

    def _begin(self, state: StreamState, newest: Newest) -> Operation[int]:
        """The first sequence that was given again, of a stream that is not as far as it was.

        It may have stored something since, which nobody has read.
        """
        since_ns = newest.time_ns + 1
        if not newest.time_ns or state.newest is None or state.newest.time_ns < since_ns:
            return state.next
        server, known, begin = self._begins.get(state.name, ("", newest, 0))
        if (server, known) == (self._control.server_id, newest):
            return begin
        begin = state.next
        with contextlib.suppress(PermissionDeniedError):
            since = yield from self._control.first_since(state, since_ns)
            first = yield from self._control.time_at(state.name, since)
            begin = min(begin, first[0]) if first is not None else begin
        self._begins[state.name] = self._control.server_id, newest, begin
        return begin

    def _begin_before(self, sequence: int, state: StreamState, newest: Newest) -> Operation[int]:
        """The first sequence that was given again, of which a later one is known.

        Files were put back: what is newer than all that there was came after that, and need not be
        so much newer that no clock could be the reason.
        """
        since = yield from self._control.first_since(state, newest.time_ns + 1)
        first = yield from self._control.time_at(state.name, since)
        return min(sequence, first[0]) if first is not None else sequence

    def accept(self, stream: str) -> None:
        """Go on with a stream as it is; what it has from now on is its own."""
        self._checked[stream] = self._control.server_id

    def _given_again(self, state: StreamState, newest: Newest) -> Operation[int | None]:
        if not newest.time_ns:
            return None
        found = yield from self._control.time_at(state.name, newest.sequence)
        is_there = found is not None and found[0] == newest.sequence
        if found is not None and is_there and found[1] == newest.time_ns:
            return None
        # If it was removed, only what is still there before it can tell.
        since_ns = newest.time_ns + (1 if is_there else CLOCK_STEP_MAX_NS)
        since = yield from self._control.first_since(state, since_ns)
        first = yield from self._control.time_at(state.name, since)  # between them may be nothing
        if first is not None and first[0] <= newest.sequence:
            return (
                first[0] if is_there else (yield from self._begin_before(first[0], state, newest))
            )
        # Another message in its place tells enough, even if the clock is behind what it was.
        return newest.sequence if is_there else None
