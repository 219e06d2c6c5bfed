"""The streams of a measurement: they belong to it alone, and go when it ends.

JetStream answers "created" to whoever asks for a stream that exists with the same settings. So each
measurement marks its streams with a token: a stream that somebody else made, at whatever moment,
has another one, which the server refuses. Only streams with the own token are ever removed.
"""

from __future__ import annotations

from typing import Any

from jetstream_spark.client.blocking import run
from jetstream_spark.client.control import Control
from jetstream_spark.errors import ConnectorError, RequestRefusedError, StreamNotFoundError

# Should the command be killed outright, its streams at least become empty.
_MESSAGES_KEPT_NS = 3600 * 10**9
_NAME_IN_USE = 10058
_SUBJECTS_OVERLAP = 10065


class BenchError(ConnectorError):
    """A measurement cannot be made, or did not do what it measures."""

    condition = "BENCH"


class BenchStreams:
    """The streams of one measurement.

    Args:
        name: what the names of all of them begin with.
        token: random; nobody else has it.
        replicas: of each stream.

    Attributes:
        source, target: names of streams for messages.
        ledger_bucket: the name of the bucket for the ledger of writes.
    """

    def __init__(self, control: Control, name: str, token: str, replicas: int) -> None:
        self.source = f"{name}-source"
        self.target = f"{name}-target"
        self.ledger_bucket = f"{name}-ledger"
        self._control = control
        self._mark = f"a measurement of jetstream-spark bench, {token}"
        self._replicas = replicas

    def subject(self, stream: str) -> str:
        """The subject of all messages that are written to a stream."""
        return f"{stream}.a"

    def create(self) -> None:
        """Make them.

        Raises:
            BenchError: a name or a subject is taken; `remove` removes those that were made.
        """
        for stream in (self.source, self.target):
            self._create(stream, {"subjects": [f"{stream}.>"], "max_age": _MESSAGES_KEPT_NS})
        bucket = self.ledger_bucket
        options = {"subjects": [f"$KV.{bucket}.>"], "max_msgs_per_subject": 1}
        self._create(f"KV_{bucket}", {**options, "discard": "new", "allow_direct": True})

    def _create(self, stream: str, options: dict[str, Any]) -> None:
        config = {"name": stream, "description": self._mark, "num_replicas": self._replicas}
        try:
            run(self._control.request(f"STREAM.CREATE.{stream}", {**config, **options}))
        except RequestRefusedError as error:
            if error.err_code not in (_NAME_IN_USE, _SUBJECTS_OVERLAP):
                raise
            raise BenchError(
                f"the stream '{stream}' cannot be made: {error.description}.",
                "Give the measurement another --name. If a measurement that was killed has left "
                f"the stream behind: nats stream rm {stream}.",
            ) from None

    def messages(self, stream: str) -> int:
        """How many messages a stream holds."""
        return run(self._control.stream_state(stream)).messages

    def clear(self, stream: str) -> None:
        """Remove a stream's messages."""
        run(self._control.request(f"STREAM.PURGE.{stream}"))

    def remove(self) -> None:
        """Remove those that are there and were made by this measurement.

        Raises:
            BenchError: some cannot be removed; they are named.
        """
        left, reason = [], ""
        for stream in (self.source, self.target, f"KV_{self.ledger_bucket}"):
            try:
                self._remove(stream)
            except ConnectorError as error:
                left.append(stream)
                reason = error.what
        if left:
            raise BenchError(
                f"these streams may be left behind: {', '.join(left)}. {reason}",
                "; ".join(f"nats stream rm {stream}" for stream in left) + ".",
            )

    def _remove(self, stream: str) -> None:
        try:
            found = run(self._control.stream_state(stream)).config.get("description")
        except StreamNotFoundError:
            return
        if found == self._mark:
            run(self._control.request(f"STREAM.DELETE.{stream}"))
