"""Messages followed through the code: how often one comes to a part, and if it goes to and fro.

Parts that call each other back and forth for one message cannot be read by themselves, and no
test of behaviour notices. So calls from one file into another are counted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

import pytest
from jetstream_server.jetstream import stream as stream_file
from jetstream_server.jetstream.consumers import consumer as consumer_file
from jetstream_server.jetstream.consumers import pull as pull_file


def calls(act: Callable[[], object], *modules: ModuleType) -> list[tuple[str, str]]:
    """Return the calls into these files from outside of each: through which of the others they came
    (empty for none), and what was called."""
    names = {str(module.__file__): module.__name__.rpartition(".")[2] for module in modules}
    found: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        path, caller = frame.f_code.co_filename, frame.f_back
        if event != "call" or path not in names or _file(caller) == path:
            return
        while caller is not None and _file(caller) not in names:
            caller = caller.f_back
        found.append((names.get(_file(caller), ""), f"{names[path]}.{frame.f_code.co_name}"))

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return found


def _file(frame: FrameType | None) -> str:
    return frame.f_code.co_filename if frame is not None else ""


def headers(*lines: str) -> bytes:
    return b"".join(line.encode() + b"\r\n" for line in ("NATS/1.0", *lines, ""))


PUBLISHES: dict[str, tuple[dict[str, Any], bytes]] = {
    "plain": ({}, b""),
    "an id": ({}, headers("Nats-Msg-Id: a")),
    "a condition": ({}, headers("Nats-Expected-Last-Sequence: 2")),
    "a TTL": ({"allow_msg_ttl": True}, headers("Nats-TTL: 1m")),
    "a rollup": ({"allow_rollup_hdrs": True}, headers("Nats-Rollup: all")),
    "a limit": ({"max_msgs": 2, "max_age": 10**12}, b""),
    "discard new": ({"max_msgs": 100, "discard": "new"}, b""),
    "a copy": ({"republish": {"src": "s.>", "dest": "copy.>"}}, b""),
    "a transform": ({"subject_transform": {"src": "s.*", "dest": "s.x.{{wildcard(1)}}"}}, b""),
    "interest": ({"retention": "interest"}, b""),
    "work": ({"retention": "workqueue"}, b""),
    "a batch": (
        {"allow_atomic": True},
        headers("Nats-Batch-Id: b", "Nats-Batch-Sequence: 1", "Nats-Batch-Commit: 1"),
    ),
    "a refusal": ({}, headers("Nats-Expected-Stream: T")),
}


@pytest.mark.parametrize("kind", PUBLISHES)
def test_a_publish_enters_the_stream_once(account: Any, kind: str) -> None:
    """`Stream` hands it to its parts, and none of them comes back."""
    config, block = PUBLISHES[kind]
    stream = account.stream(**config)
    account.subscribe(b"_INBOX.>")
    consumer = account.create(stream, durable_name="C", ack_policy="explicit")
    account.pull(consumer, b"10")
    for _ in range(2):
        account.publish(b"s.a", b"before")
    messages = [(b"s.a", b"_INBOX.ack", block, b"x")]
    found = calls(lambda: account.publish_run(messages), stream_file)
    assert found == [("", "stream.receive")]
    (answer,) = [each.payload for each in account.client.take() if each.subject == b"_INBOX.ack"]
    assert (b'"error"' in answer) == (kind == "a refusal"), answer


REQUESTS = {"one": b"1", "more": b"2", "bytes": b'{"batch":2,"max_bytes":1000}'}


@pytest.mark.parametrize("kind", REQUESTS)
@pytest.mark.parametrize("waits", [True, False], ids=["waiting", "stored"])
def test_a_delivery_goes_to_pull_and_does_not_come_back(
    account: Any, kind: str, waits: bool
) -> None:
    """A request wakes the consumer; it has pull serve who waits, and is not asked meanwhile."""
    stream = account.stream()
    account.subscribe(b"_INBOX.>")
    consumer = account.create(stream, durable_name="C", ack_policy="explicit")

    def publish() -> None:
        account.publish(b"s.a", b"x")

    def pull() -> None:
        account.pull(consumer, REQUESTS[kind])

    if waits:
        pull()
        found = calls(publish, consumer_file, pull_file)
        before = [("", "consumer.stored"), ("consumer", "pull.is_waiting")]
    else:
        publish()
        found = calls(pull, consumer_file, pull_file)
        before = [("", "pull.receive"), ("pull", "consumer.wake")]
        found.remove(("", "consumer.name"))  # the bench asks for it
    assert found == [*before, ("", "consumer.advance"), ("consumer", "pull.advance")]
    (message,) = account.client.take()
    assert message.payload == b"x"
