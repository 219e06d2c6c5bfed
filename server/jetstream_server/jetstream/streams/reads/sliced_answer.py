"""A direct get that takes more than a turn has time for: one slice of its answer in each turn.

Meanwhile it is a request that was put off: its client is not heard, so answers keep their order, no
client has more than one of these, and none is left when the client goes.
"""

from __future__ import annotations

from dataclasses import dataclass

from jetstream_server.base.errors import StoreError
from jetstream_server.core.answers import Answers
from jetstream_server.core.workload import Workload
from jetstream_server.jetstream.streams.reads.direct_replies import DirectReplies
from jetstream_server.jetstream.streams.reads.direct_search import Steps

SLICE_UNITS = 10  # of what a turn takes on


@dataclass(slots=True, eq=False)
class SlicedAnswer:
    """The answer to one request, as far as it has come. Postponable.

    Args:
        replies: takes it.
        reply: where a refusal goes.
        steps: make it.
        answers: what is under way to the client that asked; None where nobody counts, and where
            nobody can be made to wait: then it is all made at once.
        workload: tells whether a turn has time for a slice.
    """

    _replies: DirectReplies
    _reply: bytes
    _steps: Steps
    _answers: Answers | None
    _workload: Workload

    def go_on(self) -> bool:
        """Make the next slice of the answer; tell whether it was the last one."""
        try:
            next(self._steps)
            while self._answers is None:
                next(self._steps)
        except StopIteration as end:
            refusal: bytes = end.value
        except StoreError as error:  # the store is offline now, and its stream says why
            refusal = b"500 " + error.reason.encode()
        else:
            return False
        self._replies.refuse(self._reply, refusal)
        return True

    def postpone(self) -> None:
        """Go on in the next turn, before anything else that the client asks for."""
        assert self._answers is not None, "else it was made at once"
        self._answers.postpone(self)
        self._answers.look_again()

    def receive(self, now: int) -> None:
        """Send the next slice, unless nobody listens for it any more."""
        if not self._replies.is_wanted:
            return
        answers = self._answers
        if answers is not None and not self._workload.takes(SLICE_UNITS, answers):
            answers.postpone(self)
            self._workload.wait(answers.look_again, answers)
        else:
            is_done = self.go_on()
            self._replies.send()
            if not is_done:
                self.postpone()
