"""What became of rows whose acks did not come; this is found out before any of them is sent again.

The server's memory of ids is short (`duplicate_window`, 2 minutes unless set), and nobody knows how
long a frame stays in the buffers of a stalled link. So rows are not sent again in the hope that the
window is still open. A row is in one place at a time - stored, or on its way over the one open
connection, or not sent - and within one attempt an inquiry makes sure of that:

1. The connection that was given up is gone *at the server*. Each connection has an inbox of its
   own. While the server still reads the old one, that inbox has a subscriber; when it has read the
   last of its bytes and closed it, a message to the inbox finds nobody, and the server says so at
   once. From then on no frame of it can arrive.
2. What it brought has passed the stream's queue. A message that the stream must refuse (it expects
   a stream of another name) goes the same way, in order; its refusal says that everything before
   it has passed.
3. What the stream holds is read, from before the first of these rows was sent. What is not there
   was not stored and never will be: it may be sent again.

The argument rests on the order of 1, 2 and 3; the time that each takes does not matter. A
connection that breaks while the rows are sent again is given up in turn and inquired about in the
same way.

Where that cannot be done:

- Work queues and streams with interest retention may have handed on what they stored, and without
  the option `stream` nobody knows where to look. There is only the duplicate window: rows are sent
  again only while it is open, with `ackTimeout` to spare for the way; afterwards the write fails.
  If rows took longer all the same, the log says how many.
- Whether the old connection is gone cannot be told if somebody subscribes to everything, or if the
  user may not publish to `_INBOX.>`. Then frames that come late are left to the window, and the log
  says so.
- Without a ledger, nobody remembers the connection of an earlier attempt at the same partition, so
  what it has under way is not inquired about. With a ledger, `claim.py` does that.
- In a cluster, step 2 passes the leader's queue. What the leader has proposed and not yet applied
  is left to the window; so is what lies between two of the servers, when the connections were to
  different ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from jetstream_spark.client.control import Control, StreamState
from jetstream_spark.client.flow import Flow
from jetstream_spark.client.operation import Operation
from jetstream_spark.client.patience import Patience
from jetstream_spark.errors import (
    NotAcknowledgedError,
    StreamRecreatedError,
)
from jetstream_spark.sink.late_frames import pass_queue, until_gone
from jetstream_spark.sink.stored_ids import StoredIds, read_stored_ids

# How far the clocks of server and executors may differ where message times are compared.
CLOCKS_S = 600


class Inquiry:
    """How one write finds out what is stored of what it sent.

    Args:
        control: where requests go; its `patience_s` bounds each step.
        stream: the stream as the write began, None when the option `stream` is not set.
        window_s: for how long ids are remembered; the time promised by the user where `stream` is
            None.
        id_prefix: what all ids of this write begin with.
        subject: the only subject that this write stores, "" when there are more.
    """

    def __init__(
        self,
        control: Control,
        stream: StreamState | None,
        window_s: float,
        id_prefix: bytes = b"",
        subject: str = "",
    ) -> None:
        self.window_s = window_s
        self._control = control
        self._stream = stream
        self._id_prefix = id_prefix
        self._subject = subject

    @property
    def can_look(self) -> bool:
        """Whether a stream keeps what it stored for as long as the write may ask."""
        return self._stream is not None and self._stream.retention == "limits"

    @property
    def keeps_last(self) -> bool:
        """Whether the stream removes messages for later ones of their subject."""
        return self._stream is not None and self._stream.keeps_last

    @property
    def can_go_back(self) -> bool:
        """Whether a subject could go back to an earlier row of this write, which is then prevented.

        Where messages are added up, or those beyond the allowed number are refused, none replaces
        another; and a row of a queue that was handed on must not be handed on again. With ids of
        the user's own a duplicate need not be a row of this partition: it may be an old change of
        the key that came twice, and belongs behind.
        """
        config = self._stream.config if self._stream is not None else {}
        if config.get("allow_msg_counter") or config.get("discard_new_per_subject"):
            return False
        return self.can_look and self.keeps_last and bool(self._id_prefix)

    @property
    def last_sequence(self) -> int:
        """The last sequence of the stream as the write began; 0 when there is none to look at."""
        return self._stream.next - 1 if self._stream is not None else 0

    def check_window(self, first_sent: float, way_s: float) -> None:
        """Refuse to send again what only the window could recognise, unless the window is open.

        Args:
            first_sent: when the first of the rows was sent for the first time.
            way_s: how long one that is sent now may take to arrive.

        Raises:
            NotAcknowledgedError: the window may close before.
        """
        if self.can_look or self._control.host.now() + way_s < first_sent + self.window_s:
            return
        if self._stream is None:
            reason = f"without the option 'stream' only minDuplicateWindow ({self.window_s:g} s) is"
            remedy = "Set the option stream; then what is stored is looked up."
        else:
            reason = (
                f"of stream '{self._stream.name}', with {self._stream.retention} retention, only "
                f"the duplicate_window ({self.window_s:g} s) is"
            )
            remedy = "Raise duplicate_window of the stream."
        raise NotAcknowledgedError(
            "rows were published and not acknowledged, and cannot be sent again safely: "
            f"{reason} there to recognise them, and it may have passed.",
            f"{remedy} If the write is run again now, these rows may be written twice.",
        )

    def stored_ids(
        self, flow: Flow, given_up: Sequence[bytes], subject: bytes, after: int
    ) -> Operation[StoredIds]:
        """Make sure that what was sent has arrived or never will; return the stored ids, with their
        sequences.

        Where nothing can be looked up there are none: then call `check_window`.

        Args:
            flow: the connection that is to be used from now on.
            given_up: the inboxes of connections that rows were sent over.
            subject: of one of the rows.
            after: the last sequence that was stored before the first of the rows was sent.

        Raises:
            UnavailableError: a connection that was given up is still open at the server.
            StreamRecreatedError: what was acknowledged is gone with the stream.
            StreamNotFoundError: the stream was deleted.
            RetryableError: the server does not answer.
        """
        patience = Patience(self._control.host, self._control.patience_s)
        yield from until_gone(self._control, flow, given_up, patience, "a connection that broke")
        if not self.can_look:
            return StoredIds()
        before = self._stream
        assert before is not None, "can_look says that there is a stream"
        yield from pass_queue(self._control, before.name, subject.decode())
        now = yield from self._control.state_reaching(before.name, before.created, after + 1)
        if now.created != before.created or now.next <= after:
            raise StreamRecreatedError(
                f"stream '{before.name}' was deleted and made again, or brought back from an older "
                "snapshot, while rows were written to it; acknowledged rows are gone with it.",
                "Run the batch again: all of it is written to the stream as it is now.",
            )
        look = before.name, after + 1, self._id_prefix, self._subject
        return (yield from read_stored_ids(self._control, *look))

    def recent_ids(self) -> Operation[StoredIds]:
        """Return the ids that were stored within the duplicate window, by whatever attempt, with
        their sequences.

        Raises:
            RetryableError: the server does not answer.
        """
        assert self._stream is not None, "a write in batches names its stream"
        now = yield from self._control.stream_state(self._stream.name)
        since_ns = self._control.host.wall_time_ns() - int((self.window_s + CLOCKS_S) * 1e9)
        first = yield from self._control.first_since(now, since_ns)
        look = now.name, first, self._id_prefix, self._subject
        return (yield from read_stored_ids(self._control, *look))
