"""Headers that a copy keeps, and those it acts on."""

from __future__ import annotations

from typing import Any

from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.origins.copied_headers import copied, disregard, is_special
from jetstream_server.jetstream.streams.messages.candidate import Candidate


def block(*lines: str) -> bytes:
    return b"NATS/1.0\r\n" + b"".join(line.encode() + b"\r\n" for line in lines) + b"\r\n"


def test_conditions_and_batches_go() -> None:
    kept = block("K: v", "Nats-Msg-Id: 1", "Nats-TTL: 1h")
    given = block(
        "K: v",
        "Nats-Expected-Stream: O",
        "Nats-Msg-Id: 1",
        "Nats-Expected-Last-Sequence: 4",
        "Nats-Batch-Id: x",
        "Nats-Batch-Sequence: 1",
        "Nats-Batch-Commit: 1",
        "Nats-TTL: 1h",
    )
    assert copied(given) == kept
    assert copied(kept) is kept
    assert copied(b"") == b""


def test_nothing_left_is_no_block() -> None:
    assert copied(block("Nats-Expected-Last-Sequence: 4")) == b""


def test_the_source_before_is_replaced_by_a_source_and_kept_by_a_mirror() -> None:
    given = block("Nats-Stream-Source: O 1 > > o.a x")
    assert copied(given) == given
    assert copied(given, but_source=True) == b""


def test_only_the_start_of_a_line_counts() -> None:
    given = block("K: Nats-Expected-Stream: O", "X-Nats-Batch-Id: 1")
    assert copied(given) == given
    assert not is_special(given)
    assert is_special(block("Nats-Msg-Id: 1"))


def test_a_stream_acts_on_what_it_allows() -> None:
    lines = (
        "Nats-Stream-Source: O 1 > > o.a x",
        "Nats-TTL: 1h",
        "Nats-Rollup: sub",
        "Nats-Incr: 1",
        "Nats-Schedule: @every 1s",
        "Nats-Msg-Id: 1",
    )

    def left(**fields: Any) -> set[bytes]:
        message = Candidate(b"s", b"", block(*lines), b"")
        disregard(message, StreamConfig(name="S", **fields))
        assert message.headers == block(*lines)
        return set(message.special)

    assert left() == {b"Nats-Msg-Id"}
    assert left(allow_msg_ttl=True) == {b"Nats-Msg-Id", b"Nats-TTL"}
    assert left(allow_rollup_hdrs=True) == {b"Nats-Msg-Id", b"Nats-Rollup"}
    assert left(allow_rollup_hdrs=True, deny_purge=True) == {b"Nats-Msg-Id"}
    assert left(allow_msg_counter=True) == {b"Nats-Msg-Id", b"Nats-Incr"}
