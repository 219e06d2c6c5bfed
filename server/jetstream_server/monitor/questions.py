"""Questions to the system are answered in steps: what a turn has time for at once, the rest later.

A client's questions are answered one after the other, and those of several clients in turn, so that
whoever asks for much waits, and nobody else does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from jetstream_server.base.errors import ApiError
from jetstream_server.core.steps import InSteps
from jetstream_server.core.subscription import Sender
from jetstream_server.jetstream.slices import Outcome, Slices
from jetstream_server.jetstream.wire.go_json import encode
from jetstream_server.node.accounts.account import Account
from jetstream_server.node.node import Node
from jetstream_server.node.session import Session

CLIENTS_MAX = 1000  # that wait at a time, as many as `Slices` takes
WAITING_MAX = 1000  # questions of one client
WAITING_BYTES_MAX = 1 << 20
_ANSWER = "answer"
_TOO_MANY = "too many requests are waiting for their answers"


@dataclass(slots=True, eq=False)
class Question:
    """What is asked.

    Attributes:
        reply: where to; nothing goes there if the answer is empty.
        answer: the steps in which the answer is made.
        size: of the request.
        units: what its first step is worth.
    """

    reply: bytes
    answer: InSteps[bytes]
    size: int
    units: int


@dataclass(slots=True)
class _Asked:
    """Of one client: the first is being answered."""

    questions: deque[Question] = field(default_factory=deque)
    size: int = 0


class Questions:
    """The questions that are asked in one account.

    Args:
        node: tells what a turn has time for, and who is still there.
        account: where they are answered.
    """

    def __init__(self, node: Node, account: Account) -> None:
        self._node = node
        self._account = account
        self._slices = Slices(account.timers, node.workload)
        self._queues: dict[Session | None, _Asked] = {}

    def take(self, question: Question, sender: Sender | None) -> None:
        """Answer a question at once if that takes one step and the turn has time for it, else
        later."""
        client = sender if isinstance(sender, Session) else None
        queue = self._queues.get(client)
        if queue is None:
            if self._node.workload.takes(question.units):
                try:
                    next(question.answer)
                except StopIteration as end:
                    self._send(question, end.value)
                    return
            if len(self._queues) >= CLIENTS_MAX:
                self._send(question, _refusal(_TOO_MANY))
                return
            queue = self._queues[client] = _Asked()
        elif len(queue.questions) >= WAITING_MAX or queue.size + question.size > WAITING_BYTES_MAX:
            self._send(question, _refusal(_TOO_MANY))
            return
        queue.questions.append(question)
        queue.size += question.size
        if len(queue.questions) == 1:
            self._begin(client, queue)

    def _begin(self, client: Session | None, queue: _Asked) -> None:
        question = queue.questions[0]

        def finished(outcome: Outcome) -> None:
            if isinstance(outcome, ApiError):
                self._send(question, _refusal(outcome.description))
            else:
                self._send(question, outcome[_ANSWER])
            queue.questions.popleft()
            queue.size -= question.size
            if queue.questions and (client is None or client.cid in self._node.sessions):
                self._begin(client, queue)
            else:
                del self._queues[client]

        self._slices.add(lambda: _outcomes(question.answer), finished)
        self._account.stir()

    def _send(self, question: Question, answer: bytes) -> None:
        if answer:
            self._account.output.publish(question.reply, answer)


def _outcomes(answer: InSteps[bytes]) -> Iterator[Outcome | None]:
    made = yield from answer
    yield {_ANSWER: made}


def _refusal(description: str) -> bytes:
    return encode({"error": {"code": 500, "description": description}})
