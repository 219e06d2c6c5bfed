"""The way of a stream's answers to its publishers: after the flush, or at once.

An ack says that a message is kept as safely as the stream keeps any. For files that is after the
flush. A stream in memory has nothing on the disk: a crash takes all of it, its config and its
consumers included, and no flush makes a message of it safer. So its publishers do not wait for what
others write. All of its answers go the same way, or they would overtake one another.

The exception is a stream that republishes: the copy, which may be stored elsewhere, leaves after
the flush and before the ack, as with the genuine server.
"""

from __future__ import annotations

from collections.abc import Callable

from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.output import Output
from jetstream_server.protocol.ops import PubRun


class PublishAnswers:
    """Answers the publishers of one stream, as its config asks for."""

    def __init__(self, config: StreamConfig, output: Output) -> None:
        self._output = output
        self.follow(config)

    def follow(self, config: StreamConfig) -> None:
        """Answer by another config from now on."""
        self._waits = not config.is_memory or config.republish is not None

    def publish(self, reply: bytes, payload: bytes, *, headers: bytes = b"") -> None:
        """Answer one message."""
        publish = self._output.publish if self._waits else self._output.publish_now
        publish(reply, payload, headers=headers)

    def publish_now(self, reply: bytes, payload: bytes) -> None:
        """Answer one message at once, whatever the config says."""
        self._output.publish_now(reply, payload)

    def pub_acks(self, run: PubRun, start: int, stop: int, head: bytes, first_seq: int) -> None:
        """Acknowledge messages of a run, as `Output.pub_acks` does."""
        self._output.pub_acks(run, start, stop, head, first_seq, waits=self._waits)

    def together(self, run: PubRun, start: int, stop: int) -> int:
        """Return how far messages may be taken together, as `Output.answered_together` does."""
        return self._output.answered_together(run, start, stop)

    def answer(
        self,
        run: PubRun,
        start: int,
        stop: int,
        framed: Callable[[int, int, bytes], tuple[bytes, int]],
        body: Callable[[int], bytes],
    ) -> None:
        """Answer messages of a run, as `Output.answer` does."""
        self._output.answer(run, start, stop, framed, body, waits=self._waits)
