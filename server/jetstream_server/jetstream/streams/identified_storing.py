"""A stretch in which every message has an id and nothing else: the new ones are stored."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from jetstream_server.protocol.ops import PubRun

if TYPE_CHECKING:
    from jetstream_server.jetstream.streams.stream import Stream


def store_identified(stream: Stream, run: PubRun, start: int, spans: array[int], now: int) -> None:
    """Store the new ones of a stretch in which every message has an id and nothing else."""
    dedupe, chunk = stream.dedupe, run.chunk
    dedupe.expire(now)
    at, count = 0, len(spans) // 2
    while at < count:
        cut = dedupe.take(chunk, spans, at)
        if cut > at:
            first = None
            try:
                first = stream.store_run(run, start + at, start + cut, now)
            finally:
                if first is None:
                    dedupe.drop()
            if first is not None:
                dedupe.keep(first, now)
                stream.last_message_id = chunk[spans[2 * cut - 2] : spans[2 * cut - 1]]
                stream.arm_dedupe(now)
        else:
            sequences = dedupe.sequences(chunk, spans, at)
            cut = at + len(sequences)
            if not stream.config.no_ack:
                stream.pub_ack.send_duplicates(stream.context.output, run, start + at, sequences)
        at = cut
