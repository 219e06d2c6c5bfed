"""What a batch adds up to before it is stored."""

from __future__ import annotations

from jetstream_server.jetstream.streams.messages.staging import Staging


def test_messages_add_up() -> None:
    staging = Staging()
    staging.add(b"s.a", b"one", 10)
    staging.add(b"s.a", b"", 20)
    staging.add(b"s.b", b"two", 30)
    assert (staging.count, staging.bytes) == (3, 60)
    assert staging.subjects == {b"s.a": 2, b"s.b": 1}
    assert staging.message_ids == {b"one", b"two"}
