"""What was published, and what may have been removed: the judge's own record."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Past:
    """What a stream had before files of its server were put back from an older copy.

    Attributes:
        until: when that was, in seconds.
        stored, others: as in `Life`.
    """

    until: float
    stored: dict[int, bytes | None]
    others: set[int]


@dataclass(slots=True)
class Life:
    """One incarnation of a source stream.

    Attributes:
        stream: its name.
        created: what the server says of it.
        stored: payloads by sequence, as their acks said, of what the query is to read.
        others: sequences of messages that it is not to read.
        gone_below: sequences below may have been removed.
        sent_at: when each message was about to be sent, in seconds.
        pasts: what it had before its server was given older files.
        replaced: of an object store, changes of which nothing may be left but a row without
            content, or no row; with the second since when.
    """

    stream: str
    created: str
    stored: dict[int, bytes | None] = field(default_factory=dict)
    others: set[int] = field(default_factory=set)
    gone_below: int = 1
    replaced: dict[int, float] = field(default_factory=dict)
    sent_at: dict[int, float] = field(default_factory=dict)
    pasts: list[Past] = field(default_factory=list)

    def during(self, since: float, now: float) -> list[tuple[dict[int, bytes | None], set[int]]]:
        """What it stored, and what of others, at any time from one second to another."""
        found, begun = [], 0.0
        for past in self.pasts:
            if past.until >= since and begun <= now:
                found.append((past.stored, past.others))
            begun = past.until
        return [*found, (self.stored, self.others)] if begun <= now else found


class BrokenPromiseError(AssertionError):
    """The connector did not keep its word."""


def require(holds: bool, *what: object) -> None:
    """Complain unless something holds."""
    if not holds:
        raise BrokenPromiseError(" ".join(map(str, what)))


class Truth:
    """All incarnations, the last one at the end; and payloads whose ack never came."""

    def __init__(self) -> None:
        self.lives: list[Life] = []
        self.uncertain: set[bytes] = set()

    def now(self, stream: str) -> Life:
        """A stream as it is."""
        return next(life for life in reversed(self.lives) if life.stream == stream)

    def life(self, stream: str, created: str) -> Life:
        """The incarnation of that time."""
        for life in self.lives:
            if (life.stream, life.created) == (stream, created):
                return life
        raise BrokenPromiseError(f"stream {stream} was not made at {created}")

    def check_rows(
        self,
        life: Life,
        start: int,
        stop: int,
        rows: list[tuple[int, bytes | None]],
        *,
        since: float,
        now: float,
        is_whole: bool,
    ) -> None:
        """Compare what one task read with what its range holds.

        Args:
            since: when it began to read that, at the earliest.
            now: when it had read that, at the latest.
            is_whole: whether nothing may be missing but what was removed.
        """
        sequences = [sequence for sequence, _ in rows]
        require(sequences == sorted(set(sequences)), "rows twice or out of order:", sequences)
        require(all(start <= at < stop for at in sequences), "outside its range:", sequences)
        times = life.during(since, now)
        for sequence, data in rows:
            known = [stored.get(sequence) for stored, _ in times]
            is_gone = data is None and life.replaced.get(sequence, now) < now
            is_right = any(
                sequence not in others
                and (is_gone or (stored[sequence] == data if sequence in stored else is_uncertain))
                for is_uncertain in [data in self.uncertain]
                for stored, others in times
            )
            require(is_right, "sequence", sequence, "is", known, "and was read as", data)
        first = start if is_whole else max(start, life.gone_below)
        if not is_whole and life.pasts and life.pasts[0].until <= now:
            first = stop  # it may have read before the stream was as far again, which is counted
        excused = {at for at, since in life.replaced.items() if since < now}.union(sequences)
        missing = [
            at
            for at in range(first, stop)
            if at not in excused and all(at in stored for stored, _ in times)
        ]
        require(not missing, f"of [{start}, {stop}) were not read:", missing)
