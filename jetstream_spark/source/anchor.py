"""The durable consumer of `commitMode=ack`: it holds what a query has not committed.

On a stream with interest retention a message stays as long as some consumer has not acknowledged
it. The anchor is that consumer; nobody ever pulls from it. Tasks read past it without
acknowledging, and once Spark has committed a batch, `CONSUMER.RESET` (ADR-60, server 2.14) moves
the anchor's floor to the end of the batch, which gives up the interest in everything before. It is
a single request that may be repeated, so it suits a commit that comes late, twice, or from another
process (docs/reference/spark.md#late-commits). On a stream with limits retention the anchor removes
nothing and shows any NATS tool how far the query has come.

The floor never goes back. If it is ahead of the query, messages that the query has not read may be
gone: the checkpoint was rolled back, or two queries share the consumer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jetstream_spark.client.control import CONSUMER_NOT_FOUND, Control
from jetstream_spark.client.operation import Operation
from jetstream_spark.errors import (
    ConsumerDeletedError,
    MessagesAcknowledgedError,
    RequestRefusedError,
    RetentionRefusedError,
)
from jetstream_spark.options.offsets import StreamOffset

# What `CONSUMER.RESET` appeared with: server 2.14.
API_LEVEL_MIN = 4
_MARK = "jetstream-spark"
_ACCEPT = "Set failOnDataLoss=false to read on with what is there, or start with a new checkpoint."


@dataclass(slots=True, eq=False)
class Anchor:
    """The anchor in one stream.

    Args:
        control: where requests go.
        stream: the stream that is read.
        name: the durable, from the option `consumer`.
        subjects: what the query reads, all when empty.
    """

    _control: Control
    stream: str
    name: str
    _subjects: tuple[str, ...] = ()

    def check_server(self) -> Operation[None]:
        """Make sure that the server can move a consumer's floor.

        Raises:
            RetentionRefusedError: it is older than that.
        """
        api = (yield from self._control.request("INFO")).get("api") or {}
        if int(api.get("level", 0)) < API_LEVEL_MIN:
            raise RetentionRefusedError(
                f"commitMode=ack needs nats-server 2.14; the one that serves stream "
                f"'{self.stream}' has API level {api.get('level', 0)}, not {API_LEVEL_MIN}.",
                "Upgrade the server, or use commitMode=purge on a stream of your own.",
            )

    def hold(self, at: StreamOffset) -> Operation[None]:
        """Make the anchor where a new query begins, unless an earlier start has done so.

        Raises:
            RetentionRefusedError: a consumer of that name is not an anchor of this query.
            MessagesAcknowledgedError: it is already past the position.
        """
        info = yield from self._info()
        if info is None:
            yield from self._make(at)
            return
        self._check_own(info)
        self._check_floor(info, at)

    def find(
        self, at: StreamOffset
    ) -> Operation[ConsumerDeletedError | MessagesAcknowledgedError | None]:
        """What is wrong with the anchor of a query that goes on from a position; None if nothing.

        Raises:
            RetentionRefusedError: a consumer of that name is not an anchor of this query.
        """
        info = yield from self._info()
        if info is None:
            return ConsumerDeletedError(
                f"the consumer '{self.name}' of stream '{self.stream}', which held what the query "
                f"had not read from sequence {at.next} on, does not exist any more; messages may "
                f"have been removed unread.",
                _ACCEPT,
            )
        self._check_own(info)
        try:
            self._check_floor(info, at)
        except MessagesAcknowledgedError as error:
            return error
        return None

    def hold_again(self, at: StreamOffset) -> Operation[None]:
        """Make the anchor again, after its loss was accepted."""
        if (yield from self._info()) is None:
            yield from self._make(at)

    def acknowledge(self, at: StreamOffset) -> Operation[None]:
        """Give up everything before a position that Spark has committed.

        At the beginning of a stream there is nothing to give up; all that matters is that the
        anchor exists.

        Raises:
            ConsumerDeletedError: there is no anchor.
            MessagesAcknowledgedError: it is already past the position.
        """
        if (problem := (yield from self.find(at))) is not None:
            raise problem
        yield from self._give_up(at.next)

    def _make(self, at: StreamOffset) -> Operation[None]:
        """Make the anchor. Until it is known to be in the stream that was read it holds everything:
        of one that was made anew a moment ago it would pass over the first messages."""
        yield from self._create()
        state = yield from self._control.stream_state(self.stream)
        if state.created != at.created:
            return
        try:
            yield from self._give_up(at.next)
        except RequestRefusedError as error:
            if error.err_code != CONSUMER_NOT_FOUND:  # made anew since; the next look says so
                raise

    # --- requests ---------------------------------------------------------------------------

    def _give_up(self, before: int) -> Operation[None]:
        if before > 1:
            operation = f"CONSUMER.RESET.{self.stream}.{self.name}"
            yield from self._control.request_about(self.stream, operation, {"seq": before})

    def _info(self) -> Operation[dict[str, Any] | None]:
        try:
            return (
                yield from self._control.request_about(
                    self.stream, f"CONSUMER.INFO.{self.stream}.{self.name}"
                )
            )
        except RequestRefusedError as error:
            if error.err_code == CONSUMER_NOT_FOUND:
                return None
            raise

    def _create(self) -> Operation[None]:
        config: dict[str, Any] = {
            "name": self.name,
            "durable_name": self.name,
            "description": "Holds what a Spark query has not committed; do not pull from it",
            "deliver_policy": "all",
            "ack_policy": "explicit",
            "metadata": {_MARK: "anchor"},
        }
        if len(self._subjects) == 1:
            config["filter_subject"] = self._subjects[0]
        elif self._subjects:
            config["filter_subjects"] = list(self._subjects)
        yield from self._control.create_consumer(self.stream, config)

    def _check_own(self, info: dict[str, Any]) -> None:
        config = info.get("config") or {}
        one = config.get("filter_subject")
        theirs = set(config.get("filter_subjects") or ([one] if one else []))
        if not is_anchor(info):
            what = "was not made by this connector, and moving it would take messages from its user"
        elif theirs != set(self._subjects):
            what = f"holds the subjects {', '.join(sorted(theirs)) or 'of the whole stream'}"
        else:
            return
        raise RetentionRefusedError(
            f"the consumer '{self.name}' of stream '{self.stream}' {what}.",
            "Give the query a name of its own in the option consumer.",
        )

    def _check_floor(self, info: dict[str, Any], at: StreamOffset) -> None:
        floor = int(info["ack_floor"]["stream_seq"])
        if floor >= at.next:
            raise MessagesAcknowledgedError(
                f"the consumer '{self.name}' of stream '{self.stream}' has acknowledged up to "
                f"sequence {floor}, but the query stands at {at.next}: its checkpoint was rolled "
                f"back, or another query uses the same consumer.",
                f"Give each query its own option consumer. {_ACCEPT}",
            )


def is_anchor(info: dict[str, Any]) -> bool:
    """Whether a consumer's info is that of an anchor."""
    return bool(((info.get("config") or {}).get("metadata") or {}).get(_MARK) == "anchor")
