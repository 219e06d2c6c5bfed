"""Publishing stored messages again, under another subject.

The copy carries the stored headers and, after them, where the message is in the stream. It goes out
like a message of any client, after the flush, and never to subjects on which only the server sends.
Specification: docs/reference/streams.md#transforms-and-republishing.
"""

from __future__ import annotations

from random import Random

from jetstream_server.core.containment import UNCONTAINED, Containment
from jetstream_server.core.provenance import is_own_subject
from jetstream_server.core.transform import Transform
from jetstream_server.jetstream.configs.stream_config import RePublish
from jetstream_server.jetstream.output import Output
from jetstream_server.jetstream.streams.messages.publish_headers import extended
from jetstream_server.jetstream.wire.go_time import format_time


class Republisher:
    """Makes the copies for one stream."""

    def __init__(
        self,
        stream: str,
        config: RePublish,
        random: Random,
        containment: Containment = UNCONTAINED,
    ) -> None:
        self._containment = containment
        self._stream = stream.encode()
        self._transform = Transform(config.src.encode(), config.dest.encode())
        self._headers_only = config.headers_only
        self._random = random

    def publish(
        self,
        output: Output,
        subject: bytes,
        headers: bytes,
        payload: bytes,
        sequence: int,
        previous: int,
        now: int,
    ) -> None:
        """Publish the copy of one message; `previous` is the sequence before it on its subject.

        A copy that cannot be made is left out: the message itself is stored.
        """
        try:
            target = self._transform.apply(subject, self._random)
            if target is None or is_own_subject(target):
                return
            lines = (
                b"Nats-Stream: %b\r\nNats-Subject: %b\r\nNats-Sequence: %d\r\n"
                b"Nats-Time-Stamp: %b\r\nNats-Last-Sequence: %d\r\n"
            ) % (self._stream, subject, sequence, format_time(now).encode(), previous)
            if self._headers_only:
                lines += b"Nats-Msg-Size: %d\r\n" % len(payload)
                payload = b""
            output.publish(target, payload, headers=extended(headers, lines))
        except Exception as error:
            self._containment.contain(error, now)
