"""Making sure that what somebody's connection brought has arrived, or never will.

A connection is gone *at the server* when a message to an inbox that it listened on finds nobody:
the server says so at once, and it closes a connection only after the last of its bytes. From then
on no frame of it can arrive. What it brought has passed the stream's queue when a message sent
after it has: one that the stream must refuse, because it expects a stream of another name.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence

from jetstream_spark.client.control import Control
from jetstream_spark.client.flow import Flow
from jetstream_spark.client.operation import Operation
from jetstream_spark.client.patience import PASSING, Patience
from jetstream_spark.errors import (
    ConnectorError,
    NoRespondersError,
    PermissionDeniedError,
    RequestRefusedError,
    StreamNotFoundError,
    UnavailableError,
)

_log = logging.getLogger("jetstream_spark")

# No stream has a name with blanks, so whichever stream gets this refuses it.
_REFUSE_ME = b"NATS/1.0\r\nNats-Expected-Stream: none of them\r\n\r\n"


def until_gone(
    control: Control, flow: Flow, inboxes: Sequence[bytes], patience: Patience, whose: str
) -> Operation[None]:
    """Wait until nobody listens on these inboxes; listeners get an empty message each time.

    Where that cannot be found out the log says so, and late frames are left to the window.

    Args:
        flow: the connection to ask over.
        whose: connections, for the error and the log.

    Raises:
        UnavailableError: somebody listens for longer than the patience lasts.
        TimeoutError, ConnectionLostError: the server does not answer.
    """
    host, options = control.host, control.options
    while True:
        nobodys = flow.new_inbox()
        deadline = host.now() + options.request_timeout_s
        try:
            *are_open, hears_all = yield from flow.listeners([*inboxes, nobodys], deadline)
        except PermissionDeniedError:
            reason = "the user may not publish to _INBOX.>"
            break
        if hears_all:
            reason = "somebody subscribes to all inboxes"
            break
        if not any(are_open):
            return
        yield from patience.wait(
            UnavailableError(
                f"{whose} is still open at the server, which may yet take rows from it.",
                "Look into the network between here and there; raise outageTimeout.",
            ),
            "a write",
        )
    _log.warning(
        "whether the server has closed %s cannot be told, because %s; rows that arrive from it "
        "later than the duplicate window are written twice",
        whose,
        reason,
    )


def pass_queue(control: Control, stream: str, subject: str) -> Operation[None]:
    """Return when a stream has stored, or refused, what was sent to a subject of it before.

    Raises: as `Control.request_message`, but for the refusal; StreamNotFoundError also when the
        stream does not collect the subject any more.
    """
    once = Control(control.host, control.options, control.role, patience_s=0)
    patience = Patience(control.host, control.patience_s)
    while True:
        try:
            with contextlib.suppress(RequestRefusedError):
                yield from once.request_message(subject, b"", _REFUSE_ME, stream)
            return
        except PASSING as error:
            if isinstance(error, NoRespondersError):
                yield from _check_collected(once, stream, subject)
            yield from patience.wait(error)


def _check_collected(control: Control, stream: str, subject: str) -> Operation[None]:
    """Ask once whether a stream collects a subject that nobody answers; it may lack a leader.

    Raises:
        StreamNotFoundError: it does not.
    """
    try:
        if (yield from control.is_collected(subject, stream)):
            return
        names = yield from control.stream_names(subject)
    except ConnectorError:
        return  # nobody knows just now
    if stream not in names:
        raise StreamNotFoundError(
            f"stream '{stream}' does not collect '{subject}' any more; "
            f"what collects it: {', '.join(names) or 'nothing'}.",
            "Give the stream its subjects back, or change option or column subject; then run the "
            "write again: what the stream has not got is written.",
        )
