"""A stretch of a run about which nothing is to be decided, or only whether it was there before.

It is stored and answered as a whole.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass

from jetstream_server.base.errors import StoreError
from jetstream_server.jetstream.streams.contents import Contents
from jetstream_server.jetstream.streams.storing.pub_ack import PubAck
from jetstream_server.jetstream.streams.storing.publish_answers import PublishAnswers
from jetstream_server.jetstream.streams.storing.refusals import Refusals
from jetstream_server.protocol.ops import PubRun


@dataclass(slots=True, eq=False)
class RunStoring:
    """Stores stretches in one stream."""

    _contents: Contents
    _pub_ack: PubAck
    _refusals: Refusals
    _answers: PublishAnswers

    def store(self, run: PubRun, start: int, stop: int, now: int) -> int | None:
        """Store and acknowledge a stretch; return its first sequence, None when it failed.

        Nothing is checked: no header and nothing in the config may ask for a decision.
        """
        contents = self._contents
        try:
            first = contents.append_run(run, start, stop, now)
        except StoreError as failure:
            self._refusals.send_all(run, start, stop, failure)
            return None
        if not contents.config.no_ack:
            self._answers.pub_acks(run, start, stop, self._pub_ack.head, first)
        subjects = contents.consumers.subjects(run, start, stop)
        contents.after_storing(first, first + stop - start - 1, now, subjects)
        return first

    def store_identified(self, run: PubRun, start: int, spans: array[int], now: int) -> None:
        """Store the new ones of a stretch in which every message has an id and nothing else."""
        contents, chunk = self._contents, run.chunk
        dedupe = contents.dedupe
        dedupe.expire(now)
        at, count = 0, len(spans) // 2
        while at < count:
            cut = dedupe.take(chunk, spans, at)
            if cut > at:
                first = None
                try:
                    first = self.store(run, start + at, start + cut, now)
                finally:
                    if first is None:
                        dedupe.drop()
                if first is not None:
                    newest = chunk[spans[2 * cut - 2] : spans[2 * cut - 1]]
                    contents.remember_ids(first, newest, now)
            else:
                sequences = dedupe.sequences(chunk, spans, at)
                cut = at + len(sequences)
                if not contents.config.no_ack:
                    self._pub_ack.send_duplicates(self._answers, run, start + at, sequences)
            at = cut
