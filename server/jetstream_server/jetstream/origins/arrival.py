"""What the consumer at an origin delivered: messages, and the numbers in their ack subjects.

Specification: docs/reference/mirrors.md#consumers-at-the-origin.
"""

from __future__ import annotations

from dataclasses import dataclass

from jetstream_server.base.digits import unsigned
from jetstream_server.protocol.ops import PubRun

# Tokens of `$JS.ACK.<stream>.<consumer>.<delivered>.<sequence>...`, and where the sequence stands;
# the longer form has domain and account hash in front.
_TOKENS_V1 = 9
_SEQUENCE_V1, _SEQUENCE_V2 = 5, 7


@dataclass(slots=True)
class Arrival:
    """Messages of a run as an origin's consumer delivered them.

    Attributes:
        run: the messages, with the subjects that they have at the origin.
        start: the first of them in the run.
        sequences: at the origin, rising, one a message.
        timestamps: when the origin stored them, in nanoseconds.
    """

    run: PubRun
    start: int
    sequences: list[int]
    timestamps: list[int]


def delivery_numbers(
    run: PubRun, start: int, stop: int, consumer: bytes
) -> tuple[list[int], list[int], list[int], int] | None:
    """Return stream sequences, consumer sequences and times out of the ack subjects of a stretch,
    and how many messages are left after the last; None if one of them is not of this consumer."""
    sequences: list[int] = []
    consumer_seqs: list[int] = []
    timestamps: list[int] = []
    pending = b"0"
    try:
        for at in range(start, stop):
            tokens = run.reply(at).split(b".")
            first = _SEQUENCE_V1 if len(tokens) == _TOKENS_V1 else _SEQUENCE_V2
            sender, _, sequence, consumer_seq, timestamp, pending = tokens[first - 2 : first + 4]
            if sender != consumer:
                return None
            sequences.append(unsigned(sequence))
            consumer_seqs.append(unsigned(consumer_seq))
            timestamps.append(unsigned(timestamp))
    except ValueError:
        return None
    is_sound = unsigned(pending) >= 0 and min(*sequences, *consumer_seqs, *timestamps, 0) == 0
    return (sequences, consumer_seqs, timestamps, unsigned(pending)) if is_sound else None
