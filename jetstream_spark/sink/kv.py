"""A key-value bucket, as far as the ledger needs one: read, compare-and-set, forget.

A bucket is a stream `KV_<bucket>` that keeps the last message of each subject `$KV.<bucket>.<key>`
(ADR-8), so any NATS tool can look into it. Reads go through the API to the stream's leader, not by
direct get, which a replica that lags behind may answer.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

from jetstream_spark.client.control import MESSAGE_NOT_FOUND, STREAM_NOT_FOUND, Control
from jetstream_spark.client.flow import Flow
from jetstream_spark.client.operation import Operation
from jetstream_spark.errors import (
    RequestRefusedError,
    StreamNotFoundError,
    UnavailableError,
)

STREAM_NAME_IN_USE = 10058
WRONG_LAST_SEQUENCE = frozenset({10071, 10164})
NO_ENTRY = 0  # the revision that a key without a value is expected to have


@dataclass(frozen=True, slots=True)
class KvEntry:
    """The last value of a key, empty when it was deleted; `revision` is its stream sequence."""

    value: bytes
    revision: int


class KvBucket:
    """One bucket; it is made by the first write that finds it missing."""

    def __init__(self, control: Control, bucket: str) -> None:
        self.bucket = bucket
        self._control = control
        self._stream = f"KV_{bucket}"

    def get(self, key: str, flow: Flow | None = None) -> Operation[KvEntry | None]:
        """Return the last value of a key, None when it has none or there is no bucket.

        Args:
            flow: the connection to ask over, once; one of the pool, with patience, when None.

        Raises: as `Control.look_up`.
        """
        body = {"last_by_subj": self._subject(key)}
        try:
            operation = f"STREAM.MSG.GET.{self._stream}"
            if flow is None:
                answer = yield from self._control.look_up(operation, body)
            else:
                answer = yield from self._control.request_over(flow, operation, body)
        except RequestRefusedError as error:
            if error.err_code not in (MESSAGE_NOT_FOUND, STREAM_NOT_FOUND):
                raise
            if error.err_code == MESSAGE_NOT_FOUND or flow is None:
                return None
            if (yield from self.get(key)) is None:
                return None
            raise UnavailableError(
                f"the servers do not agree whether there is a bucket '{self.bucket}'.",
                "It is asked again; look into the state of the cluster.",
            ) from None
        message = answer["message"]
        return KvEntry(base64.b64decode(message.get("data", "")), int(message["seq"]))

    def put(self, key: str, value: bytes, expected_revision: int) -> Operation[int | None]:
        """Set a key if its revision is still the expected one (`NO_ENTRY`: it has none).

        Args:
            value: contains a token that nobody else writes. A request whose answer was lost is
                repeated, and refused if the first one was carried out; then the token in the stored
                value tells whose it is.

        Returns:
            The new revision; None when somebody else wrote the key first.

        Raises:
            StreamNotFoundError: the bucket was deleted.
        """
        headers = (
            f"NATS/1.0\r\nNats-Expected-Stream: {self._stream}\r\n"
            f"Nats-Expected-Last-Subject-Sequence: {expected_revision}\r\n\r\n"
        )
        try:
            message = self._subject(key), value, headers.encode()
            ack = yield from self._control.request_message(*message, self._stream)
        except RequestRefusedError as error:
            if error.err_code not in WRONG_LAST_SEQUENCE:
                raise
            found = yield from self.get(key)
            return found.revision if found is not None and found.value == value else None
        return int(ack["seq"])

    def create(self, replicas: int) -> Operation[None]:
        """Make the bucket; one that exists is left as it is."""
        config = {
            "name": self._stream,
            "description": "Finished micro-batches of Spark writes (jetstream-spark)",
            "subjects": [f"$KV.{self.bucket}.>"],
            "max_msgs_per_subject": 1,
            "discard": "new",
            "deny_delete": True,
            "allow_rollup_hdrs": True,
            "allow_direct": True,
            "num_replicas": replicas,
        }
        try:
            yield from self._control.request(f"STREAM.CREATE.{self._stream}", config)
        except RequestRefusedError as error:
            if error.err_code != STREAM_NAME_IN_USE:
                raise

    def forget(self, prefix: str) -> Operation[None]:
        """Remove every key below a prefix, leaving no trace."""
        body = {"filter": self._subject(f"{prefix}.>")}
        try:
            yield from self._control.request(f"STREAM.PURGE.{self._stream}", body)
        except RequestRefusedError as error:
            if error.err_code != STREAM_NOT_FOUND:
                raise

    def forget_older(self, prefix: str, since_ns: int) -> Operation[None]:
        """Remove every key below a prefix that was last written before a time."""
        subject = self._subject(f"{prefix}.>")
        try:
            state = yield from self._control.stream_state(self._stream)
        except StreamNotFoundError:
            return
        oldest = yield from self._control.next_sequence(self._stream, state.first, subject)
        if oldest is None:
            return
        kept = yield from self._control.first_since(state, since_ns)
        if oldest < kept:
            yield from self._control.purge(self._stream, kept, subject)

    def _subject(self, key: str) -> str:
        return f"$KV.{self.bucket}.{key}"
