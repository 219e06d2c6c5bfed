"""When publishers are told: a stream in memory waits for no disk, whichever way a message came."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jetstream_server.base.errors import StoreError
from jetstream_server.core.subscription import Stretch
from jetstream_server.jetstream.configs.stream_config import RePublish
from jetstream_server.jetstream.streams.storing.storing_outcome import StoringOutcome
from jetstream_server.protocol.ops import PubRun

COPIES = RePublish(src=">", dest="copies.>")

# Headers, and how the reply ends; each goes a way of its own through the stream.
WAYS: dict[str, list[tuple[tuple[str, ...], str]]] = {
    "a run": [((), ""), ((), "")],
    "ids": [(("Nats-Msg-Id: a",), ""), (("Nats-Msg-Id: b",), "")],
    "duplicates": [(("Nats-Msg-Id: a",), ""), (("Nats-Msg-Id: a",), "")],
    "a condition": [(("Nats-Expected-Last-Sequence: 0",), "")],
    "a refusal": [(("Nats-Expected-Last-Sequence: 9",), "")],
    "an atomic batch": [
        (("Nats-Batch-Id: x", "Nats-Batch-Sequence: 1"), ""),
        (("Nats-Batch-Id: x", "Nats-Batch-Sequence: 2", "Nats-Batch-Commit: 1"), ""),
    ],
    "a fast batch": [((), ".b.5.fail.1.0.$FI"), ((), ".b.5.fail.2.2.$FI")],
}


def run_of(bench: Any, messages: list[tuple[tuple[str, ...], str]]) -> PubRun:
    return PubRun.of(
        (b"s.a", bench.reply() + end.encode(), bench.block(*lines), b"x") for lines, end in messages
    )


def take(bench: Any, stream: Any, run: PubRun) -> tuple[int, int]:
    """Publish, and return how many sends leave at once, and how many after the flush."""
    stream.receive(Stretch.of_server(run, bench.inbox, bench.now))
    sends = len(bench.output.sends), len(bench.output.sends_after_flush)
    assert bench.sent()
    return sends


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("inbox", [True, False])
def test_what_is_in_memory_is_answered_at_once(bench: Any, way: str, inbox: bool) -> None:
    if not inbox:  # then answers are routed one by one
        bench.sublist.remove(bench.inbox)
    stream = bench.stream(storage="memory", allow_atomic=True, allow_batched=True)
    at_once, later = take(bench, stream, run_of(bench, WAYS[way]))
    assert at_once and not later


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("config", [{"storage": "file"}, {"republish": COPIES}])
def test_what_is_on_disk_or_copied_elsewhere_is_answered_after_the_flush(
    bench: Any, way: str, config: dict[str, Any]
) -> None:
    stream = bench.stream(allow_atomic=True, allow_batched=True, **config)
    at_once, later = take(bench, stream, run_of(bench, WAYS[way]))
    assert later and not at_once


def test_an_update_changes_the_way(bench: Any) -> None:
    stream, run = bench.stream(), run_of(bench, WAYS["a run"])
    stream.reconfigure(bench.config(republish=COPIES), bench.now)
    assert take(bench, stream, run)[0] == 0
    stream.reconfigure(bench.config(), bench.now)
    assert take(bench, stream, run)[1] == 0


def test_answers_of_one_stream_keep_their_order(bench: Any) -> None:
    stream = bench.stream(allow_atomic=True, allow_batched=True)
    for way in WAYS:
        stream.receive(Stretch.of_server(run_of(bench, WAYS[way]), bench.inbox, bench.now))
    answers = [(subject, json.loads(payload or b"{}")) for subject, _, payload in bench.sent()]
    numbers = [int(subject.split(b".")[2]) for subject, _ in answers]
    assert numbers == sorted(numbers)
    stored = [each["seq"] for _, each in answers if "batch" not in each and each.get("seq")]
    assert stored[:4] == [1, 2, 3, 4]


def test_a_traced_message_and_a_failed_store_are_no_exception(bench: Any) -> None:
    stream = bench.stream()
    run = run_of(bench, WAYS["a run"][:1])
    stream.receive_traced(run, bench.now, StoringOutcome(is_only=False))
    assert (len(bench.output.sends), len(bench.output.sends_after_flush)) == (1, 0)
    bench.sent()
    file = bench.stream(name="F", subjects=["f.>"], storage="file")
    file.publishing._refusals.send_all(run, 0, 1, StoreError("no space left"))
    assert (len(bench.output.sends), len(bench.output.sends_after_flush)) == (1, 0)
