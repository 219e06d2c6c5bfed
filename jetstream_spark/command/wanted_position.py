"""Where in a stream somebody wants a query to stand: a word, a sequence or a time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from jetstream_spark.client.control import Control, StreamState
from jetstream_spark.client.operation import Operation
from jetstream_spark.command.checkpoint import CheckpointError
from jetstream_spark.options.option_values import timestamp_ns

_SEQUENCE = re.compile(r"[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class WantedPosition:
    """One of `word` ("earliest" or "latest"), `sequence` and `since_ns`."""

    word: str = ""
    sequence: int | None = None
    since_ns: int | None = None

    @classmethod
    def parse(cls, text: str) -> WantedPosition:
        """Read `earliest`, `latest`, a sequence, or a time with its date.

        Raises:
            CheckpointError: it is something else.
        """
        word = text.strip().lower()
        if word in ("earliest", "latest"):
            return cls(word=word)
        if _SEQUENCE.fullmatch(word):
            return cls(sequence=int(word))
        try:
            return cls(since_ns=timestamp_ns(text.strip()))
        except ValueError:
            raise CheckpointError(
                f"'{text[:80]}' is no position.",
                "Write earliest, latest, a sequence like 42, or a time like "
                "2026-11-21T10:00:00Z; STREAM=42 for one stream alone.",
            ) from None

    def in_stream(self, control: Control, state: StreamState) -> Operation[int]:
        """Look up the sequence that comes next at this position.

        Raises:
            CheckpointError: the stream does not hold it.
        """
        if self.word:
            return state.first if self.word == "earliest" else state.next
        if self.since_ns is not None:
            return (yield from control.first_since(state, self.since_ns))
        assert self.sequence is not None, "one of three is given"
        if not state.first <= self.sequence <= state.next:
            held = f"it holds {state.first} to {state.next - 1}"
            raise CheckpointError(
                f"stream '{state.name}' has no sequence {self.sequence}: "
                f"{held if state.messages else 'it is empty'}, and {state.next} comes next.",
                "Write earliest for the first that is there, or latest for the next to come.",
            )
        return self.sequence


def parse_positions(texts: Iterable[str], streams: Iterable[str]) -> dict[str, WantedPosition]:
    """Read positions, each for one stream (`ORDERS=42`) or for all.

    Raises:
        CheckpointError: one is not a position, or names another stream.
    """
    known, found = tuple(streams), dict[str, WantedPosition]()
    for text in texts:
        stream, separator, position = text.rpartition("=")
        if not separator:
            found |= dict.fromkeys(known, WantedPosition.parse(text))
        elif stream in known:
            found[stream] = WantedPosition.parse(position)
        else:
            raise CheckpointError(
                f"the query does not read stream '{stream}', but {', '.join(known)}.",
                "Name one of these, or give the position without a name for all of them.",
            )
    return found
