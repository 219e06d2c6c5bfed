"""One attempt's hold on its partition: of several attempts only the last one's rows can arrive.

Spark may start a task again while an attempt at it is still running: for speculation, because its
executor was not heard from, or from another driver. What such an attempt still sends, or has under
way over a stalled link, may arrive at any time. So attempts take over from each other:

1. Each has an inbox, named in its ledger entry. It listens there on every connection that it sends
   rows over, and sends none before the server knows that it listens *and* the entry is still its
   own; the entry is read over the same connection, after the subscription.
2. The next attempt replaces that entry with its own. From now on the earlier attempt cannot send
   over any further connection.
3. It writes to the earlier inbox. That tells whoever listens there to stop and close the
   connection; if that process is halted or cut off, the server closes the connection. When nobody
   listens there any more, nothing of that attempt can arrive (`late_frames.py`).
4. Only then does it look up which rows are stored.

If the earlier attempt reads the entry before step 2, it had subscribed before step 2, and step 3
finds it; if it reads the entry later, it finds that of another attempt. Whether it is halted in
between does not matter.
"""

from __future__ import annotations

from jetstream_spark.client import pool
from jetstream_spark.client.control import Control
from jetstream_spark.client.flow import Flow, Message
from jetstream_spark.client.operation import Operation
from jetstream_spark.client.patience import PASSING, Patience
from jetstream_spark.errors import RequestTimeoutError
from jetstream_spark.sink.late_frames import pass_queue, until_gone
from jetstream_spark.sink.ledger import Attempt, Ledger


class Claim:
    """The hold of one attempt.

    Args:
        control: where requests go.
        ledger: where its entry is.
        attempt: as it was begun there.
    """

    def __init__(self, control: Control, ledger: Ledger, attempt: Attempt) -> None:
        self._control = control
        self._ledger = ledger
        self._attempt = attempt
        self._inbox = attempt.inbox.encode()
        self._sid = b""

    def outlive(self, subject: str) -> Operation[None]:
        """Return once nothing of earlier attempts can arrive any more.

        Args:
            subject: of one of the rows.

        Raises:
            UnavailableError: a connection of theirs stays open at the server for longer than
                `outageTimeout`.
            AttemptSupersededError: another attempt began meanwhile.
            StreamNotFoundError: the stream was deleted.
        """
        if not self._attempt.before:
            return
        control = self._control
        host, options, role = control.host, control.options, control.role
        inboxes = [inbox.encode() for inbox in self._attempt.before]
        patience = Patience(host, control.patience_s)
        whose = "a connection of an earlier attempt at this partition"
        while True:
            try:
                flow = yield from pool.take(host, options, role)
                with pool.keeping(host, options, role, flow):
                    yield from until_gone(control, flow, inboxes, patience, whose)
                break
            except TimeoutError:
                seconds = options.request_timeout_s
                text = f"a server said nothing for {seconds:g} s when it was asked for {whose}."
                yield from patience.wait(RequestTimeoutError(text, "Look into its state."))
            except PASSING as error:
                yield from patience.wait(error)
        stream = self._attempt.stream
        assert stream is not None, "what was committed is not claimed"
        yield from pass_queue(control, stream.name, subject)
        yield from self._ledger.note_alone(self._attempt)

    def listen(self, flow: Flow) -> Operation[None]:
        """Listen on a connection, so that rows may be sent over it.

        Raises:
            AttemptSupersededError: another attempt has begun.
            RetryableError: the server does not answer.
        """
        self._sid = flow.subscribe(self._inbox)
        yield from self._ledger.check_held(self._attempt, flow)

    def check(self, message: Message) -> None:
        """Stop if a message says so.

        Raises:
            AttemptSupersededError: it does.
        """
        if message.subject == self._inbox:
            raise self._ledger.superseded(self._attempt)

    def let_go(self, flow: Flow) -> None:
        """Stop listening, with the next transfer; nothing is under way."""
        flow.unsubscribe(self._sid)
