"""A consumer as it was at one moment, written into an archive later and some at a time.

A stream may have thousands of consumers, and one of them a million messages that nobody has
acknowledged: 50 MB of JSON. So it is copied at once, which for messages that were delivered
together is a few slices of arrays, and turned into JSON when there is time for it.

The fields are those of nats-server 2.15. Two things it has no place for travel beside them, under
names that it ignores: when the consumer was created, and what is left of a last-per-subject
snapshot, without which such a consumer would go on as an ordinary one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from jetstream_server.jetstream.consumers.consumer import Consumer
from jetstream_server.jetstream.wire.go_json import encode

CREATED = "created_ns"
SNAPSHOT = "last_per_subject"
_ENTRIES_AT_ONCE = 250  # written in about a millisecond
_SEQUENCES_AT_ONCE = 10_000  # likewise
_ENTRIES_OF_COST = 1000  # in arrays that are copied
_RUNS_OF_COST = 20


class ConsumerCopy:
    """What an archive says of one consumer.

    Attributes:
        name: of the consumer.
        cost: of copying it, 1 if it holds little.
    """

    def __init__(self, consumer: Consumer) -> None:
        progress = consumer.progress
        redelivery, cursor = progress.redelivery, progress.cursor
        self.name = consumer.name
        self._config = consumer.config
        self._created = consumer.created
        self._rules = progress.rules
        self._delivered = progress.consumer_seq, progress.stream_seq
        self._floor = progress.floor_consumer_seq, progress.floor_stream_seq
        self._runs = [run.copied() for run in progress.pending.runs]
        self._counts = redelivery.counts.copied()
        self._deadlines = redelivery.deadlines.copied()
        self._snapshot, self._live_seq = cursor.snapshot, cursor.live_seq
        entries = len(self._counts) + len(self._deadlines) + len(self._snapshot)
        self.cost = 1 + entries // _ENTRIES_OF_COST + len(self._runs) // _RUNS_OF_COST

    def pieces(self) -> Iterator[bytes]:
        """Iterate over the JSON, each piece a millisecond's work."""
        state = {"delivered": _position(self._delivered), "ack_floor": _position(self._floor)}
        head = encode({"config": self._config.to_wire(), "state": state})
        yield head.removesuffix(b"}}")
        if self._runs:
            yield from _joined(b',"pending":{', self._pending())
        if self._counts:
            yield from _joined(b',"redelivered":{', self._redelivered())
        yield b'},"%b":%d' % (CREATED.encode(), self._created)
        if self._snapshot:
            yield b',"%b":{"sequences":[' % SNAPSHOT.encode()
            for start in range(0, len(self._snapshot), _SEQUENCES_AT_ONCE):
                some = encode(self._snapshot[start : start + _SEQUENCES_AT_ONCE].tolist())[1:-1]
                yield some if not start else b"," + some
            yield b'],"live":%d}' % self._live_seq
        yield b"}"

    def _pending(self) -> Iterator[Mapping[str, object]]:
        for run in self._runs:
            entries = run.pending()
            while some := list(islice(entries, _ENTRIES_AT_ONCE)):
                yield {
                    str(sequence): {"Sequence": own, "Timestamp": self._began(sequence, sent_at)}
                    for sequence, own, sent_at in some
                }

    def _redelivered(self) -> Iterator[Mapping[str, object]]:
        counts = zip(*self._counts.columns(), strict=True)
        while some := list(islice(counts, _ENTRIES_AT_ONCE)):
            yield {str(sequence): count for sequence, count in some}

    def _began(self, sequence: int, sent_at: int) -> int:
        """Return when the ack wait of a pending message began."""
        deadline = self._deadlines.get(sequence)
        if not deadline:
            return sent_at
        return self._rules.began(deadline, self._counts.get(sequence) + 1)


def _joined(opening: bytes, parts: Iterator[Mapping[str, object]]) -> Iterator[bytes]:
    """Iterate over the JSON of one dictionary that comes in parts."""
    separator = opening
    for part in parts:
        yield separator + encode(part)[1:-1]
        separator = b","
    yield b"}"


def _position(pair: tuple[int, int]) -> dict[str, int]:
    return {"consumer_seq": pair[0], "stream_seq": pair[1]}
