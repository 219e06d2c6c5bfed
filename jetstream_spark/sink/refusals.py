"""What a server says when it does not store a row: whether that passes, and what helps.

The answers are those to a publish, whether a row was sent alone or within a batch.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from jetstream_spark.client.flow import Message
from jetstream_spark.errors import BatchLostError, ProtocolViolationError, PublishRefusedError

TOO_MANY_REQUESTS = 429
IN_PROCESS = 10158
NOBODY = 503  # no stream collects the subject, JetStream is off, or there is no leader just now
WRONG_STREAM = 10060
BATCH_INCOMPLETE = 10176
DUPLICATE_IN_BATCH = 10201
FAST_BATCHES_OFF = 10205

# Not the leader; the same id is under way to the replicas; a batch forgotten under way.
_BUSY_ERRORS = frozenset({10009, IN_PROCESS, BATCH_INCOMPLETE})
# Batches that others have begun, or what these hold; one whose writer is gone ends after 10 s.
TOO_MANY_BATCHES = frozenset({10210, 10211})
# There was no room for a batch, or not all of it arrived in time: that is no fault of any row.
_LOST = TOO_MANY_BATCHES | {BATCH_INCOMPLETE}
# The stream allows no batches, whatever is in them; the batch is longer than the server allows.
_ABOUT_THE_STREAM = frozenset({10174, 10199, FAST_BATCHES_OFF})
NOT_STORED = 10077  # with the store's own text: a limit of the stream, or its disk
_REMEDIES = {
    WRONG_STREAM: "The option stream names another stream than the one that collects this subject.",
    10054: "Raise max_msg_size of the stream, or write smaller messages.",
    NOT_STORED: "The stream is full and discards new messages; raise its limits or consume it.",
    10071: "expectedLastSeq or expectedLastSubjectSeq: somebody else has published meanwhile.",
    10164: "expectedLastSubjectSeq: somebody else has published to this subject meanwhile.",
    IN_PROCESS: "The cluster's leader holds this id for a message that is not stored, until the "
    "stream's duplicate_window has passed or it leads no more. Set outageTimeout longer than that "
    "window, or have the leader step down (nats stream cluster step-down); run the write again.",
    10165: "A ttl is at least a second: seconds, a duration like 1h30m, or never.",
    10166: "Set allow_msg_ttl on the stream, or leave the column ttl out.",
    FAST_BATCHES_OFF: "Set allow_batched on the stream, which can be done while it is in use.",
    10174: "Set allow_atomic on the stream, which can be done while it is in use.",
    10177: "Leave this header out, or set publishMode=each.",
    10199: "Lower atomicRows to the limit of the server (jetstream.limits.batch.max_msgs).",
    DUPLICATE_IN_BATCH: "A row of the batch is in the stream already and cannot be told from the "
    "others, because messages were removed since; run the write again after the duplicate_window.",
}


_REMEDIES_OF_LOST = {
    BATCH_INCOMPLETE: "It took too long on its way (limits.batch.timeout of the server, 10 s), the "
    "server or its leader changed, or a row went elsewhere: make sure that the stream collects the "
    "subject of each row. Then write fewer bytes in a batch (a lower atomicRows; atomicUnit=block "
    "if a partition need not be one batch), or set outageTimeout longer.",
    10210: "Write with fewer tasks at once (coalesce), fewer bytes in a batch (a lower atomicRows; "
    "atomicUnit=block if a partition need not be one batch), or set outageTimeout longer. A stream "
    "takes 50 batches at a time, a server 1,000 (limits.batch); the bundled server holds 256 MiB "
    "of a stream and 1 GiB in all.",
    10211: "Write with fewer tasks at once, or set outageTimeout longer; a stream takes 1,000 fast "
    "batches (limits.batch).",
}


class RefusalReason(NamedTuple):
    """Why a server did not store a row: a status, the number of an error, and its text."""

    code: int
    err_code: int
    text: str


def answer_of(message: Message) -> dict[str, Any]:
    """What a publish was answered with, a status as an `error`; empty when it is no JSON object."""
    code, text = message.status
    if code:
        text = "no stream collects this subject, or JetStream is off" if code == NOBODY else text
        return {"error": {"code": code, "description": text}}
    try:
        return dict(json.loads(message.payload))
    except (ValueError, TypeError, RecursionError):
        return {}


def refusal_in(answer: dict[str, Any]) -> RefusalReason | None:
    """What an answer says against a row, None if nothing.

    Raises:
        ProtocolViolationError: no stream says it like that.
    """
    error = answer.get("error")
    if not error:
        return None
    try:
        numbers = int(error.get("code", 0)), int(error.get("err_code", 0))
        return RefusalReason(*numbers, str(error.get("description", "")))
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise ProtocolViolationError(
            f"a publish was refused with {str(error)[:80]!r}.",
            "Somebody other than the stream answers publishes to its subjects; find out who.",
        ) from None


def is_passing(code: int, err_code: int) -> bool:
    """Whether the same row may be accepted a little later."""
    return code in (TOO_MANY_REQUESTS, NOBODY) or err_code in _BUSY_ERRORS


def is_about_the_stream(err_code: int) -> bool:
    """Whether every row would be refused in the same way, so that no row becomes a dead letter."""
    return err_code in _ABOUT_THE_STREAM


def is_lost(err_code: int) -> bool:
    """Whether a batch is not stored for reasons that are none of its rows: nothing of them becomes
    a dead letter, and the same batch may be stored a little later."""
    return err_code in _LOST


def lost(what: str, code: int, err_code: int, text: str, where: str = "") -> BatchLostError:
    """The error for a batch that was lost again and again.

    Args:
        what: which stream did not take which rows.
        code, err_code, text: the server's reason.
        where: a sentence on how far it came, empty when that is not known.
    """
    why = f"{what}: {text} (code {code}, error {err_code}). {where}".rstrip()
    return BatchLostError(f"{why} Nothing of that is stored.", _REMEDIES_OF_LOST[err_code])


def refused(row: int, subject: str, code: int, err_code: int, text: str) -> PublishRefusedError:
    """The error for a row that was refused for good."""
    remedy = _REMEDIES.get(err_code, "")
    if err_code == NOT_STORED and "maximum" not in text:
        remedy = "The server's log and /healthz say what is wrong with the stream."
    if code == NOBODY and not err_code:
        remedy = (
            "Create a stream whose subjects match it, or if there is one have it serve again "
            "(/healthz of the server says why it does not), then run the write again."
        )
    return PublishRefusedError(row, subject, code, err_code, text, remedy)
