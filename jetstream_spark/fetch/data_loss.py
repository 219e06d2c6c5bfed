"""Data loss: comparing where a query stands with what its stream still holds. Pure.

Every suspicion of the connector ends in one of the errors made here, which are raised when
`failOnDataLoss` is true and logged when it is false. A stream that is ahead is never rewound.
"""

from __future__ import annotations

from jetstream_spark.client.control import StreamState
from jetstream_spark.errors import (
    DataLossError,
    MessagesAcknowledgedError,
    MessagesExpiredError,
    StreamDeletedError,
    StreamRecreatedError,
    StreamRestoredError,
    StreamTruncatedError,
)
from jetstream_spark.fetch.ranges import SequenceRange
from jetstream_spark.fetch.tail import Tail
from jetstream_spark.options.offsets import Offsets, StreamOffset

_ACCEPT = (
    "Set failOnDataLoss=false to accept the loss and read on with what is there, or start with a "
    "new checkpointLocation."
)


def find_loss(
    stream: str, at: StreamOffset, tail: Tail | None, expects_removals: bool = False
) -> DataLossError | None:
    """What was lost between the query's position and the stream, None when nothing was.

    Args:
        tail: what the stream holds now; None when it no longer exists.
        expects_removals: messages may be removed before they are read (`SourceOptions`).
    """
    if tail is None:
        return stream_deleted(stream, at.next)
    if tail.created != at.created:
        kind = stream_restored if tail.is_copy else stream_recreated
        return kind(stream, at.created, tail.created)
    if tail.next < at.next:
        return stream_truncated(stream, tail.next, at.next)
    if tail.first > at.next and not expects_removals:
        return messages_gone(stream, at.next, tail.first, tail.is_consumed)
    return None


def check_continuity(start: Offsets, end: Offsets) -> None:
    """Make sure that a batch continues in the streams in which the one before it ended.

    Raises:
        DataLossError: a stream was made again, or ends before the start.
    """
    for name, at in start.streams.items():
        final = end.streams.get(name)
        if final is not None:
            loss = find_loss(name, at, Tail(final.created, 0, final.next))
            if loss is not None:
                raise loss


def find_loss_in_range(
    sequences: SequenceRange, position: int, state: StreamState | None, expects_removals: bool
) -> tuple[DataLossError | None, int]:
    """What a task at a position of its range has lost, and where the next message is.

    Args:
        state: the stream as it is now; None when it no longer exists.

    Returns:
        The loss, None when there is none; and the first sequence that may still be there, or the
        end of the range.
    """
    if state is None:
        return stream_deleted(sequences.stream, position), sequences.stop
    if state.created != sequences.created:
        kind = stream_restored if state.is_copy else stream_recreated
        return kind(sequences.stream, sequences.created, state.created), sequences.stop
    if state.first > position and not expects_removals:
        first = min(state.first, sequences.stop)
        is_consumed = state.retention != "limits"
        return messages_gone(sequences.stream, position, first, is_consumed), first
    return None, position


def find_missing_end(sequences: SequenceRange, state: StreamState) -> DataLossError | None:
    """What a task has lost of the end of its range, which the stream had when it was planned."""
    if state.next >= sequences.stop:
        return None
    return stream_truncated(sequences.stream, state.next, sequences.stop)


def stream_truncated(stream: str, first: int, position: int) -> StreamTruncatedError:
    """The same incarnation has lost what it had from `first` on; others may get these sequences.

    Args:
        position: what the query had read, or was about to read, lies before it.
    """
    return StreamTruncatedError(
        f"stream '{stream}' was restored from an older copy, or lost its end: what it had from "
        f"sequence {first} on is lost, and these sequences are given a second time. The query "
        f"stands at sequence {position}.",
        _ACCEPT,
    )


def stream_deleted(stream: str, position: int) -> StreamDeletedError:
    """The stream is gone."""
    return StreamDeletedError(
        f"stream '{stream}' does not exist any more; the query had read it up to sequence "
        f"{position - 1}.",
        _ACCEPT,
    )


def stream_recreated(stream: str, expected: str, found: str) -> StreamRecreatedError:
    """The stream of that name is another one."""
    return StreamRecreatedError(
        f"stream '{stream}' was deleted and made again (it was made at {expected}, now it says "
        f"{found}): its sequences stand for other messages.",
        _ACCEPT,
    )


def stream_restored(stream: str, expected: str, found: str) -> StreamRestoredError:
    """The stream of that name is a copy of the one that was read."""
    return StreamRestoredError(
        f"stream '{stream}' was made again at {found} (it was made at {expected}) with messages "
        f"from before, as one is that was restored from a snapshot: what came after the snapshot "
        f"is lost, read or not, and its sequences are given a second time.",
        "Set failOnDataLoss=false to read on behind what the query had read of it, or start with "
        "a new checkpointLocation.",
    )


def messages_gone(stream: str, start: int, stop: int, is_consumed: bool) -> DataLossError:
    """The sequences [start, stop) are gone; `is_consumed`: because somebody has read them."""
    if not is_consumed:
        return messages_expired(stream, start, stop)
    return MessagesAcknowledgedError(
        f"the sequences {start} to {stop - 1} of stream '{stream}' are gone before the query read "
        f"them: they were acknowledged or purged, by this query if its checkpoint was rolled back "
        f"or copied, else by another reader of the same messages; or a limit took them.",
        f"Give each query subjects of its own, and keep its checkpoint. {_ACCEPT}",
    )


def messages_expired(stream: str, start: int, stop: int) -> MessagesExpiredError:
    """The sequences [start, stop) were removed unread."""
    return MessagesExpiredError(
        f"the sequences {start} to {stop - 1} of stream '{stream}' were removed (age, limits, "
        f"purge or acks) before the query read them.",
        f"Raise the limits of the stream, or read faster. {_ACCEPT}",
    )
