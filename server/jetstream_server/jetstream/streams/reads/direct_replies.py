"""The way of answers to a direct get: straight to a client, or through the router.

When the replies of many requests lead to one client, their frames leave as one buffer.
"""

from __future__ import annotations

from jetstream_server.base.limits import OUTBOX_HIGH_BYTES
from jetstream_server.core.answers import Answers
from jetstream_server.core.subscription import Subscription
from jetstream_server.jetstream.output import Output


class DirectReplies:
    """Answers to requests whose replies lead to the same place.

    Args:
        output: where they go.
        target: the subscription that each of the replies leads to, None when they may lead
            anywhere.
        answers: what is under way to the client that asked, None where nobody counts.

    Attributes:
        target: the same, None unless frames can be sent to it.
        room_bytes: how much may be added; what is begun is brought to its end.
    """

    def __init__(
        self, output: Output, target: Subscription | None, answers: Answers | None
    ) -> None:
        if target is not None and (
            target.outlet is None or target.max_messages or target.is_filtered
        ):
            target = None
        self.target = target
        self.room_bytes = OUTBOX_HIGH_BYTES if answers is None else answers.room_bytes
        self._output = output
        self._answers = answers
        self._added_bytes = 0
        self._frames: list[bytes] = []
        self._count = 0

    @property
    def is_wanted(self) -> bool:
        """Tell whether anybody may still take answers."""
        return self.target is None or not self.target.closed

    @property
    def has_headers(self) -> bool:
        """Return whether the client at the target understands headers."""
        target = self.target
        return target is not None and target.outlet is not None and target.outlet.headers

    def add(self, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Answer with one message."""
        self._charge(len(headers) + len(payload))
        target = self.target
        if target is None or target.outlet is None:
            self._output.publish(reply, payload, headers=headers)
            return
        self._count += 1
        if headers and target.outlet.headers:
            sizes = b"%d %d" % (len(headers), len(headers) + len(payload))
            self._frames.append(
                b"HMSG %b %b %b\r\n%b%b\r\n" % (reply, target.sid, sizes, headers, payload)
            )
        else:
            self._frames.append(
                b"MSG %b %b %d\r\n%b\r\n" % (reply, target.sid, len(payload), payload)
            )

    def refuse(self, reply: bytes, status: bytes) -> None:
        """Answer with the status line of a refusal; if it is empty there is none."""
        if status:
            self.add(reply, b"NATS/1.0 %b\r\n\r\n" % status, b"")

    def add_frames(self, data: bytes, count: int) -> None:
        """Answer with encoded frames; there is a target."""
        self._charge(len(data))
        self._frames.append(data)
        self._count += count

    def _charge(self, size: int) -> None:
        self._added_bytes += size
        self.room_bytes = self.room_bytes - size if size < self.room_bytes else 0

    def send(self) -> None:
        """Send what was added since the last call."""
        if self._frames:
            assert self.target is not None, "what it has is for a target"
            self._output.frames(self.target, b"".join(self._frames), self._count)
            self._frames, self._count = [], 0
        if self._added_bytes:
            self._output.owe(self._answers, self._added_bytes)
            self._added_bytes = 0
