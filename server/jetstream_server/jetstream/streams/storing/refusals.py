"""What the publishers of one stream are told when a message is not stored.

While the store fails, its refusals do not wait for a flush, which may not come for long.
"""

from __future__ import annotations

from dataclasses import dataclass

from jetstream_server.base.errors import ApiError, StoreError
from jetstream_server.jetstream import errors
from jetstream_server.jetstream.ingest import REFUSAL_HEADERS
from jetstream_server.jetstream.streams.contents import Contents
from jetstream_server.jetstream.streams.storing.pub_ack import PubAck
from jetstream_server.jetstream.streams.storing.publish_answers import PublishAnswers
from jetstream_server.protocol.ops import PubRun

_STORE_FAILED = errors.STREAM_STORE_FAILED("").err_code
_TOO_MANY_REQUESTS = errors.TOO_MANY_REQUESTS().err_code


@dataclass(slots=True, eq=False)
class Refusals:
    """The refusals of one stream."""

    _contents: Contents
    _pub_ack: PubAck
    _answers: PublishAnswers

    def send(self, reply: bytes, error: ApiError) -> None:
        """Tell one publisher."""
        if not reply or self._contents.config.no_ack:
            return
        payload, answers = self._pub_ack.refused(error), self._answers
        if error.err_code == _STORE_FAILED and self._contents.has_failed:
            answers.publish_now(reply, payload)
        elif error.err_code == _TOO_MANY_REQUESTS:
            answers.publish(reply, payload, headers=REFUSAL_HEADERS)
        else:
            answers.publish(reply, payload)

    def send_all(self, run: PubRun, start: int, stop: int, failure: StoreError) -> None:
        """Tell the publishers of a stretch that the store did not take."""
        for index in range(start, stop):
            self.send(run.reply(index), self._contents.not_stored(failure))
