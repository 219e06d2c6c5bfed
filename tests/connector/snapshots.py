"""Taking a snapshot of a stream, and restoring it, as `nats stream backup` and `restore` do."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from jetstream_spark.client.blocking import Blocking
from tests.leasing import lease

PATIENCE_S = 60.0


@dataclass
class Snapshot:
    """A stream as it was at one moment."""

    config: dict[str, Any]
    state: dict[str, Any]
    pieces: list[bytes]


def take_snapshot(control: Blocking, stream: str) -> Snapshot:
    """Copy a stream."""
    with lease(control.options, "snapshot") as flow:
        deadline = time.monotonic() + PATIENCE_S
        inbox = flow.new_inbox()
        sid = flow.subscribe(inbox)
        body = {"deliver_subject": inbox.decode(), "chunk_size": 1 << 16}
        reply = flow.new_inbox()
        answers = flow.subscribe(reply)
        subject = f"$JS.API.STREAM.SNAPSHOT.{stream}".encode()
        flow.publish(subject, json.dumps(body).encode(), reply)
        flow.flush(deadline)
        # The genuine server may send all of it before it answers.
        answer, pieces, is_over = None, [], False
        while answer is None or not ("error" in answer or is_over):
            message = flow.next_message()
            if message is None:
                flow.receive_more(deadline)
            elif message.sid == answers:
                answer = json.loads(message.payload)
            elif message.sid == sid and message.payload:
                pieces.append(message.payload)
                if message.reply:
                    flow.publish(message.reply, b"")
                    flow.flush(deadline)
            elif message.sid == sid:
                is_over = True
        flow.unsubscribe(sid)
        flow.unsubscribe(answers)
    assert "error" not in answer, answer
    return Snapshot(answer["config"], answer["state"], pieces)


def restore(control: Blocking, stream: str, snapshot: Snapshot) -> None:
    """Make a stream out of its snapshot."""
    body = {"config": snapshot.config, "state": snapshot.state}
    target = control.request(f"STREAM.RESTORE.{stream}", body)["deliver_subject"]
    with lease(control.options, "snapshot") as flow:
        for piece in [*snapshot.pieces, b""]:
            answer = flow.request(target.encode(), piece, PATIENCE_S).payload
    assert "error" not in json.loads(answer), answer
