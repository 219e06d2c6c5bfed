"""PubAcks: what a stream answers to a publish, byte for byte.

Successes are put together by hand, as the genuine server does (hence the space in
`"duplicate": true`), refusals are JSON. A refusal carries no domain. Specification:
docs/reference/publishing.md#puback.
"""

from __future__ import annotations

from collections.abc import Sequence

from jetstream_server.base.errors import ApiError
from jetstream_server.jetstream.streams.storing.publish_answers import PublishAnswers
from jetstream_server.jetstream.wire.go_json import encode
from jetstream_server.protocol.ops import PubRun

_DUPLICATE_TAIL = b',"duplicate": true}'


class PubAck:
    """The answers of one stream.

    Attributes:
        head: a success up to its sequence, for `Output.pub_acks`.
    """

    def __init__(self, stream: str, domain: str) -> None:
        name = encode(stream)
        self.head = b'{"stream":%b,"seq":' % name
        if domain:
            self.head = b'{"stream":%b,"domain":%b,"seq":' % (name, encode(domain))
        self._refusal_tail = b',"stream":%b,"seq":0}' % name

    def stored(self, sequence: int) -> bytes:
        """Return the answer to a stored message."""
        return b"%b%d}" % (self.head, sequence)

    def duplicate(self, sequence: int) -> bytes:
        """Return the answer to a message whose id was already seen, at `sequence`."""
        return b"%b%d%b" % (self.head, sequence, _DUPLICATE_TAIL)

    def taken(self, sequence: int, total: bytes, *, is_new: bool) -> bytes:
        """Return the answer to one message; `total` is the value of a counter now, or empty."""
        if not is_new:
            return self.duplicate(sequence)
        return (
            b'%b%d,"val":"%b"}' % (self.head, sequence, total) if total else self.stored(sequence)
        )

    def batch(self, sequence: int, batch_id: bytes, count: int) -> bytes:
        """Return the answer to the commit of a batch whose last message is at `sequence`."""
        name = encode(batch_id.decode("utf-8", "replace"))
        return b'%b%d,"batch":%b,"count":%d}' % (self.head, sequence, name, count)

    def refused(self, error: ApiError) -> bytes:
        """Return the answer to a message that was not stored."""
        fields = {
            "code": error.code,
            "err_code": error.err_code,
            "description": error.description,
        }
        return b'{"error":%b%b' % (encode(fields), self._refusal_tail)

    def send_duplicates(
        self, answers: PublishAnswers, run: PubRun, start: int, sequences: Sequence[int]
    ) -> None:
        """Answer consecutive messages from `start`, all duplicates of the given sequences.

        A writer that repeats a batch meets only these, so they too leave as one buffer for each
        stretch of replies.
        """

        def body(at: int) -> bytes:
            return self.duplicate(sequences[at - start])

        def framed(first: int, cut: int, sid: bytes) -> tuple[bytes, int]:
            bodies = [(run.reply(at), body(at)) for at in range(first, cut)]
            frames = [b"MSG %b %b %d\r\n%b\r\n" % (to, sid, len(text), text) for to, text in bodies]
            return b"".join(frames), sum(len(text) for _, text in bodies)

        answers.answer(run, start, start + len(sequences), framed, body)
