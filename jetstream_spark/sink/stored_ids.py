"""Which ids a stream already holds, and where; asked by an attempt that follows another one, and
when acks do not come.

The headers from a sequence on are read through a consumer that delivers no payloads, acknowledges
nothing and goes away by itself. Ids of other writers are not kept, as far as a prefix tells them
apart.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from jetstream_spark.client import pool
from jetstream_spark.client.control import CONSUMER_PREFIX, Control
from jetstream_spark.client.flow import Flow
from jetstream_spark.client.operation import Operation
from jetstream_spark.client.patience import PASSING, Patience
from jetstream_spark.errors import ReadTimeoutError, UnavailableError
from jetstream_spark.sink.message_ids import id_of_row

PULL_MESSAGES = 5_000
ID_HEADER = b"Nats-Msg-Id"
# How often to begin anew where servers change while a stream is read; in a cluster another server
# may answer each time.
_SERVERS_TRIED = 3


@dataclass(frozen=True, slots=True)
class StoredIds:
    """What a stream was found to have.

    Attributes:
        ids: with the last sequence of each.
        server_id: of the server that said all of it; the last one, where several did.
    """

    ids: dict[bytes, int] = field(default_factory=dict)
    server_id: str = ""


def read_stored_ids(
    control: Control, stream: str, first_sequence: int, id_prefix: bytes, subject: str = ""
) -> Operation[StoredIds]:
    """Return the ids stored from `first_sequence` on that begin with `id_prefix`, each with its
    last sequence.

    If a connection breaks, or a consumer is gone or on a lagging replica, the walk goes on from
    where it ended, within the control's patience. What was read of a server that has been started
    again since is read once more: it may have been given other files.

    Args:
        control: where requests go; its `requestTimeout` bounds each pull.
        stream: the stream; not one with work-queue retention, whose messages are gone when read.
        first_sequence: where to begin, 1 or more.
        id_prefix: empty for all ids; else a row that was stored again is found under its own id.
        subject: only messages of this subject, all when empty.

    Raises:
        ReadTimeoutError: the server stopped delivering.
    """
    state = yield from control.stream_state(stream)
    stop = state.next if state.is_replicated else 0
    first = max(1, first_sequence)
    look = _HeaderWalk(control, stream, first, stop, id_prefix, subject)
    patience = Patience(control.host, control.patience_s)
    servers = [control.server_id]
    while True:
        before = look.position
        try:
            yield from look.go_on()
            if control.server_id == servers[-1] or len(servers) == _SERVERS_TRIED:
                return StoredIds(look.ids, control.server_id)
            servers.append(control.server_id)
            look = _HeaderWalk(control, stream, first, stop, id_prefix, subject)
        except (*PASSING, ReadTimeoutError) as error:
            if look.position > before:
                patience.note_progress()
            yield from patience.wait(error, f"the ids in stream '{stream}'")


@dataclass(slots=True, eq=False)
class _HeaderWalk:
    """One walk over a stream's headers, which can go on where it broke off.

    Attributes:
        position: the first sequence that was not looked at.
        ids: those found so far, with their sequences.
    """

    _control: Control
    _stream: str
    position: int
    _stop: int  # where the stream ended at first, where it is replicated; else 0
    _id_prefix: bytes
    _subject: str
    ids: dict[bytes, int] = field(default_factory=dict)

    def go_on(self) -> Operation[None]:
        """Walk to the end as it is now.

        Raises:
            RetryableError: it broke off; call again.
        """
        control, stream = self._control, self._stream
        config = {
            "name": f"{CONSUMER_PREFIX}ids-{control.host.token(6)}",
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self.position,
            "ack_policy": "none",
            "headers_only": True,
            "mem_storage": True,
            "inactive_threshold": 60_000_000_000,
        }
        if self._subject:
            config["filter_subject"] = self._subject
        pending = int((yield from control.create_consumer(stream, config))["num_pending"])
        flow = yield from pool.take(control.host, control.options, "writer")
        with pool.keeping(control.host, control.options, "writer", flow):
            inbox = flow.new_inbox()
            sid = flow.subscribe(inbox)
            next_message = f"{control.options.api_prefix}.CONSUMER.MSG.NEXT.{stream}"
            target = f"{next_message}.{config['name']}".encode()
            while pending > 0:
                batch = min(pending, PULL_MESSAGES)
                flow.publish(target, json.dumps({"batch": batch, "no_wait": True}).encode(), inbox)
                received = yield from self._receive(flow, sid, batch)
                pending -= received
                if received < batch:
                    break  # messages expired since the count was taken
            flow.unsubscribe(sid)
        yield from control.delete_consumer(stream, str(config["name"]))
        yield from self._confirm_end()

    def _confirm_end(self) -> Operation[None]:
        """Ask the leader whether anything stored before the look began was passed over.

        Raises:
            RetryableError: there is; the consumer's replica lagged.
        """
        if self.position >= self._stop:
            return
        subject = self._subject or ">"
        stored = yield from self._control.next_sequence(self._stream, self.position, subject)
        if stored is not None and stored < self._stop:
            raise UnavailableError(
                f"sequence {stored} of stream '{self._stream}' is not on the replica that was "
                "asked yet.",
                "It is tried again; look into the state of the cluster.",
            )

    def _receive(self, flow: Flow, sid: bytes, batch: int) -> Operation[int]:
        """Take the messages of one pull; return how many came before the server was done."""
        timeout_s = self._control.options.request_timeout_s
        received = 0
        deadline = self._control.host.now() + timeout_s
        while received < batch:
            try:
                message = yield from flow.await_message(deadline)
            except TimeoutError:
                raise ReadTimeoutError(
                    "the ids stored by an earlier attempt were not delivered within "
                    f"{timeout_s:g} s.",
                    "Raise requestTimeout, or look into the state of the server.",
                ) from None
            if message.sid != sid:
                continue
            if not message.reply:  # no delivery, which may have been stored with any first line
                code, text = message.status
                if code in (404, 408):
                    return received  # nothing is pending any more
                raise UnavailableError(
                    f"the ids stored by an earlier attempt cannot be read on: {code} {text}.",
                    "It is tried again; look into the state of the server.",
                )
            deadline = self._control.host.now() + timeout_s
            received += 1
            sequence = _sequence(message.reply)
            if (one := message.header(ID_HEADER)) and one.startswith(self._id_prefix):
                self.ids[id_of_row(one) if self._id_prefix else one] = sequence
            self.position = sequence + 1
        return received


def _sequence(ack_subject: bytes) -> int:
    """The stream sequence in the reply of a delivery, of either form."""
    tokens = ack_subject.split(b".")
    return int(tokens[5] if len(tokens) == 9 else tokens[7])
