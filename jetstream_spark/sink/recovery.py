"""Another connection for a write whose acks do not come, and what the stream has of that write.

The connection is given up for good; before any row that went over it is sent again, an inquiry
finds out which of them are stored (`inquiry.py`). An outage is waited out for `outageTimeout`; a
server that is there but silent is tried `publishRetries` times.
"""

from __future__ import annotations

import contextlib

from jetstream_spark.client import pool
from jetstream_spark.client.flow import Flow, Message
from jetstream_spark.client.operation import Host, Operation, Pause
from jetstream_spark.client.patience import PASSING, Patience, spread
from jetstream_spark.errors import (
    ConnectionLostError,
    ConnectorError,
    NotAcknowledgedError,
    ReadTimeoutError,
)
from jetstream_spark.options.format_options import SinkOptions
from jetstream_spark.sink.claim import Claim
from jetstream_spark.sink.inquiry import Inquiry
from jetstream_spark.sink.stored_ids import StoredIds
from jetstream_spark.sink.witnesses import Witnesses


class Recovery:
    """The connections of one write.

    Args:
        claim: the attempt's hold on its partition, None without a ledger.
        witnesses: where rows that are stored are noted.

    Attributes:
        host, options, witnesses: of the write.
        inquiry: how to find out what became of rows whose acks do not come; None when rows have no
            ids, and then nothing is sent again.
    """

    # Errors after which a step of it may be tried again.
    PASSING = (TimeoutError, ReadTimeoutError, *PASSING)

    def __init__(
        self,
        host: Host,
        options: SinkOptions,
        inquiry: Inquiry | None,
        claim: Claim | None = None,
        witnesses: Witnesses | None = None,
    ) -> None:
        self.host = host
        self.options = options
        self.inquiry = inquiry
        self.witnesses = witnesses or Witnesses()
        self._claim = claim
        self._outage = Patience(host, options.connection.outage_timeout_s)
        self._silences = 0  # since the last ack, of a server that is there
        self._given_up: list[bytes] = []  # inboxes of connections that rows were sent over

    def take(self) -> Operation[Flow]:
        """A connection for a write that has nothing under way; an outage is waited out.

        Raises:
            AttemptSupersededError: another attempt has begun.
        """
        patience = Patience(self.host, self.options.connection.outage_timeout_s)
        while True:
            try:
                return (yield from self.take_now())
            except PASSING as error:
                yield from patience.wait(error, "a write")

    def take_now(self) -> Operation[Flow]:
        """The same, if one can be had at once.

        Raises:
            AttemptSupersededError: another attempt has begun.
            RetryableError: it cannot.
        """
        flow = yield from pool.take(self.host, self.options.connection, "writer")
        yield from self._listen(flow)
        return flow

    def renewed(self, flow: Flow) -> Operation[Flow]:
        """Read what arrived meanwhile; return another connection if this one is gone or about to
        go.

        For a write that has nothing under way.

        Raises:
            AttemptSupersededError: another attempt has begun.
        """
        try:
            if not flow.buffer.room:
                flow.buffer.make_room(1 << 16)
            yield from flow.receive(self.host.now())
            while (message := flow.next_message()) is not None:
                self.check(message)
        except (TimeoutError, ConnectionLostError):
            pass
        if flow.is_open and not flow.is_leaving:
            return flow
        return (yield from self.another(flow))

    def another(self, flow: Flow) -> Operation[Flow]:
        """Close a connection that has nothing under way; take another one.

        Many tasks lose a server together; so each waits for a moment of its own first.

        Raises: as `take`.
        """
        flow.close()
        yield Pause(self.host.now() + spread(self.host))
        return (yield from self.take())

    def put_back(self, flow: Flow, sid: bytes = b"") -> Operation[None]:
        """Give back a connection that has nothing under way.

        Args:
            sid: of a subscription that ends with that, empty for none.
        """
        if sid and flow.is_open:
            flow.unsubscribe(sid)
        if self._claim is not None and flow.is_open:
            self._claim.let_go(flow)
            # The next attempt may wait for this, and nobody knows when the connection is used
            # again.
            with contextlib.suppress(TimeoutError, ConnectionLostError):
                yield from flow.flush(self.host.now() + self.options.ack_timeout_s)
        pool.put_back(self.host, self.options.connection, "writer", flow)

    def check(self, message: Message) -> None:
        """Stop if a message, which nothing else has recognised, says so.

        Raises:
            AttemptSupersededError: it does.
        """
        if self._claim is not None:
            self._claim.check(message)

    def _listen(self, flow: Flow) -> Operation[None]:
        if self._claim is None:
            return
        try:
            yield from self._claim.listen(flow)
        except BaseException:
            flow.close()
            raise

    def note_progress(self) -> None:
        """Forget outage and silences: something was acknowledged."""
        self._silences = 0
        self._outage.note_progress()

    def begin(self, flow: Flow, error: Exception, rows: int) -> Operation[Inquiry]:
        """Give up a connection; return the inquiry into what became of the rows it carried.

        That takes a moment, by chance, so that those who lost a server together do not all knock
        at the next one in the same instant.

        Args:
            error: why.
            rows: how many are not acknowledged, for the error.

        Raises:
            NotAcknowledgedError: nothing may be sent again.
        """
        self._silences += flow.is_open
        is_hopeless = self._silences > self.options.publish_retries
        if self.inquiry is None or is_hopeless:
            raise self.not_acknowledged(error, rows) from None
        self.give_up(flow)
        yield Pause(self.host.now() + spread(self.host))
        return self.inquiry

    def give_up(self, flow: Flow) -> None:
        """Close a connection; what it carried will be inquired about."""
        if flow.inbox not in self._given_up:
            self._given_up.append(flow.inbox)
        flow.close()

    def reconnect(self, subject: bytes | None, after: int) -> Operation[tuple[Flow, StoredIds]]:
        """Open another connection; find out which ids are stored, and where.

        Args:
            subject: of one of the rows that are on their way; None when there are none.
            after: the last sequence that was stored before the first of them was sent.

        Raises: one of `PASSING` to begin again after `wait`; else as `Inquiry.stored_ids`.
        """
        assert self.inquiry is not None, "begin says whether there is one"
        flow = yield from pool.connect(self.host, self.options.connection, "writer")
        try:
            stored = StoredIds()
            if subject is not None:
                ask = flow, self._given_up, subject, after
                stored = yield from self.inquiry.stored_ids(*ask)
        except BaseException:
            flow.close()
            raise
        yield from self._listen(flow)
        self._given_up.clear()
        return flow, stored

    def replace(
        self,
        flow: Flow,
        error: Exception,
        count: int,
        subject: bytes | None,
        after: int,
        first_sent: float,
    ) -> Operation[tuple[Flow, StoredIds]]:
        """Give up a connection that has rows under way; return another one, and which ids are
        stored, with their sequences. Nothing is under way after that.

        Args:
            error: why.
            count: of the rows.
            subject, after: as `reconnect`.
            first_sent: when the first of them was sent for the first time.

        Raises:
            NotAcknowledgedError: nothing may be sent again.
        """
        inquiry = yield from self.begin(flow, error, count)
        while True:
            self.give_up(flow)
            try:
                flow, stored = yield from self.reconnect(subject, after)
                break
            except self.PASSING as again:
                yield from self.wait(again, count)
        try:
            inquiry.check_window(first_sent, self.options.ack_timeout_s)
        except BaseException:
            flow.close()
            raise
        return flow, stored

    def wait(self, error: Exception, rows: int) -> Operation[None]:
        """Let some time pass before the next try.

        Raises:
            NotAcknowledgedError: the outage has lasted too long.
        """
        try:
            yield from self._outage.wait(error, "a write")
        except (TimeoutError, ConnectorError):
            raise self.not_acknowledged(error, rows) from None

    def not_acknowledged(self, error: Exception, rows: int) -> ConnectorError:
        """The error of a write that cannot go on."""
        reason = error.what if isinstance(error, ConnectorError) else ""
        reason = reason or f"no ack came within {self.options.ack_timeout_s:g} s."
        remedy = (
            "Look into the state of the server; raise ackTimeout, publishRetries or outageTimeout."
        )
        if self.inquiry is None:
            remedy = "With dedupe=none rows cannot be sent again safely; set dedupe=auto."
        return NotAcknowledgedError(
            f"{rows} rows were published and not acknowledged: {reason}", remedy
        )
