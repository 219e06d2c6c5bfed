"""What the publishers of one stream are told when a message is not stored.

A failure of the store is logged once, not for every message of a full disk; and while it lasts, its
refusals do not wait for a flush, which may not come for long.
"""

from __future__ import annotations

from jetstream_server.base.errors import ApiError, StoreError
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.streams.ingest import REFUSAL_HEADERS
from jetstream_server.jetstream.streams.pub_ack import PubAck
from jetstream_server.protocol.ops import PubRun

_STORE_FAILED = errors.STREAM_STORE_FAILED("").err_code
_TOO_MANY_REQUESTS = errors.TOO_MANY_REQUESTS().err_code


class Refusals:
    """The refusals of one stream.

    Attributes:
        is_silent: the stream answers nobody (`no_ack`).
        has_failed: the store did not take the last message.
    """

    def __init__(self, stream: str, pub_ack: PubAck, context: Context) -> None:
        self._stream = stream
        self._pub_ack = pub_ack
        self._context = context
        self.is_silent = False
        self.has_failed = False

    def send(self, reply: bytes, error: ApiError) -> None:
        """Tell one publisher."""
        if not reply or self.is_silent:
            return
        payload, output = self._pub_ack.refused(error), self._context.output
        if error.err_code == _STORE_FAILED and self.has_failed:
            output.publish_now(reply, payload)
        elif error.err_code == _TOO_MANY_REQUESTS:
            output.publish(reply, payload, headers=REFUSAL_HEADERS)
        else:
            output.publish(reply, payload)

    def send_all(self, run: PubRun, start: int, stop: int, failure: StoreError) -> None:
        """Tell the publishers of a stretch that the store did not take."""
        for index in range(start, stop):
            self.send(run.reply(index), self.of(failure))

    def of(self, failure: StoreError) -> ApiError:
        """Return the refusal of a message that the store did not take."""
        if not self.has_failed:
            self.has_failed = True
            text = f"stream '{self._stream}': publish not stored: {failure}"
            self._context.log("ERR", text)
        return errors.STREAM_STORE_FAILED(failure.reason)
