"""Waits until a stream has forgotten message ids, which servers do a while after the window."""

from __future__ import annotations

import base64
import re
import time
from typing import Any

from jetstream_spark.errors import RequestRefusedError

WITHIN_S = 60.0
_ID = re.compile(rb"Nats-Msg-Id: [^\r]*\r\n")


def until_forgotten(control: Any, stream: str, subject: str) -> None:
    """Wait until a stream would store another message with the id of its last one, if that has one.

    Nothing is stored meanwhile: a message that is no duplicate is refused for another reason.

    Args:
        control: asks the server, one step after the other.
        subject: one that the stream collects.
    """
    last = control.request(f"STREAM.MSG.GET.{stream}", {"last_by_subj": ">"})["message"]
    found = _ID.search(base64.b64decode(last.get("hdrs", "")))
    deadline = time.monotonic() + WITHIN_S
    while found is not None and _is_known(control, subject, found[0]):
        assert time.monotonic() < deadline, f"{stream} does not forget {found[0]!r}"
        time.sleep(0.01)


def _is_known(control: Any, subject: str, line: bytes) -> bool:
    """Tell whether a message with a header line would be a duplicate."""
    # Servers look at this one only if the message is no duplicate.
    expected = b"Nats-Expected-Last-Msg-Id: that of no message\r\n"
    try:
        answer = control.request_message(subject, b"", b"NATS/1.0\r\n" + line + expected + b"\r\n")
    except RequestRefusedError:
        return False
    assert answer["duplicate"]
    return True
