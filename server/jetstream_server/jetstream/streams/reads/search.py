"""Messages that wait until very many subjects are looked at, some in each turn.

A message may expect the last sequence of all subjects that match a pattern. Finding out which these
are takes as long as there are subjects; the client that publishes it is not heard meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator

from jetstream_server.core.answers import Answers, Postponable
from jetstream_server.core.workload import Workload
from jetstream_server.jetstream.streams.reads.look_ahead import DECIDED_AT_ONCE, look_ahead
from jetstream_server.store.ports import MessageStore, SubjectFilter

COUNTED_WITH_MESSAGE = 1000  # subjects, in less than a millisecond
SLICE_UNITS = 30  # of what a turn takes on


def is_short(store: MessageStore, wanted: SubjectFilter | None) -> bool:
    """Look at some subjects; tell whether nothing is left to be found out."""
    return store.decide(wanted, DECIDED_AT_ONCE) and store.prepare_subjects(
        wanted, COUNTED_WITH_MESSAGE
    )


class Search:
    """Looks at subjects, before messages are received that ask about them. Postponable.

    Args:
        store: of the stream.
        wanted: the subjects; what is found out about them lasts as long as somebody holds it.
        rest: the messages.
        answers: of the client that has published them.
        workload: tells whether a turn has time for a slice.
        steps: look at them; at those that are wanted if there are none.
    """

    def __init__(
        self,
        store: MessageStore,
        wanted: SubjectFilter | None,
        rest: Postponable,
        answers: Answers,
        workload: Workload,
        steps: Iterator[None] | None = None,
    ) -> None:
        self._wanted = wanted
        self._steps = steps if steps is not None else look_ahead(store, wanted)
        self._rest = rest
        self._answers = answers
        self._workload = workload

    def postpone(self) -> None:
        """Go on in the next turn, before anything else that the client says."""
        self._answers.postpone(self)
        self._answers.look_again()

    def receive(self, now: int) -> None:
        """Look at some more subjects, or have the messages received."""
        if not self._workload.takes(SLICE_UNITS, self._answers):
            self._answers.postpone(self)
            self._workload.wait(self._answers.look_again, self._answers)
            return
        for _ in self._steps:
            self.postpone()
            return
        self._rest.receive(now)
