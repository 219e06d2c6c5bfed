"""Which ids a stream holds already: asked only by an attempt that follows another one.

The headers from a sequence on are read through a consumer that delivers no payloads, acknowledges
nothing and goes away by itself. Ids of other writers pass by unremembered, as far as they can be
told apart by a prefix.
"""

from __future__ import annotations

import json
import secrets
import time

from jetstream_spark.client import pool
from jetstream_spark.client.control import Control
from jetstream_spark.client.flow import Flow
from jetstream_spark.errors import ReadTimeoutError

PULL_MESSAGES = 5_000
ID_HEADER = b"Nats-Msg-Id"


def read_stored_ids(
    control: Control, stream: str, first_sequence: int, id_prefix: bytes, subject: str = ""
) -> set[bytes]:
    """Return the ids, of those that begin with `id_prefix`, stored from `first_sequence` on.

    Args:
        control: where requests go; its `requestTimeout` bounds each pull.
        stream: the stream; not one with work-queue retention, whose messages are gone when read.
        first_sequence: where to begin, 1 or more.
        id_prefix: empty for all ids.
        subject: only messages of this subject, all when empty.

    Raises:
        ReadTimeoutError: the server stopped delivering.
    """
    config = {
        "name": f"spark-ids-{secrets.token_hex(6)}",
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": max(1, first_sequence),
        "ack_policy": "none",
        "headers_only": True,
        "mem_storage": True,
        "inactive_threshold": 60_000_000_000,
    }
    if subject:
        config["filter_subject"] = subject
    pending = int(control.create_consumer(stream, config)["num_pending"])
    ids: set[bytes] = set()
    try:
        with pool.lease(control.options, "writer") as flow:
            inbox = flow.new_inbox()
            sid = flow.subscribe(inbox)
            next_message = f"{control.options.api_prefix}.CONSUMER.MSG.NEXT.{stream}"
            target = f"{next_message}.{config['name']}".encode()
            timeout_s = control.options.request_timeout_s
            while pending > 0:
                batch = min(pending, PULL_MESSAGES)
                flow.publish(target, json.dumps({"batch": batch, "no_wait": True}).encode(), inbox)
                received = _receive_ids(flow, sid, batch, timeout_s, id_prefix, ids)
                pending -= received
                if received < batch:
                    break  # messages expired since the count was taken
            flow.unsubscribe(sid)
    finally:
        control.delete_consumer(stream, str(config["name"]))
    return ids


def _receive_ids(
    flow: Flow, sid: bytes, batch: int, timeout_s: float, id_prefix: bytes, ids: set[bytes]
) -> int:
    """Take the messages of one pull; return how many came before the server said it was done."""
    received = 0
    deadline = time.monotonic() + timeout_s
    while received < batch:
        message = flow.next_message()
        if message is None:
            if not flow.buffer.room:
                flow.buffer.make_room(1 << 20)
            try:
                flow.receive(deadline)
            except TimeoutError:
                raise ReadTimeoutError(
                    f"the ids stored by an earlier attempt were not delivered within {timeout_s:g} "
                    "s.",
                    "Raise requestTimeout, or look into the state of the server.",
                ) from None
            continue
        if message.sid != sid:
            continue
        if message.status[0]:
            return received
        deadline = time.monotonic() + timeout_s
        received += 1
        if (one := message.header(ID_HEADER)) and one.startswith(id_prefix):
            ids.add(one)
    return received
