"""What a stream holds at one moment. Pure values, no I/O."""

from __future__ import annotations

from dataclasses import dataclass

from jetstream_spark.options.offsets import Newest


@dataclass(frozen=True, slots=True)
class Tail:
    """What a stream holds at one moment: sequences [first, next) and their bytes.

    Attributes:
        is_copy: it holds messages from before it was made, as restored streams and mirrors do.
        is_consumed: messages leave it because somebody has read them.
        origin: the sequence that its first message got.
        newest: the last message that it ever had; None if there was none.
    """

    created: str
    first: int
    next: int
    bytes: int = 0
    is_copy: bool = False
    is_consumed: bool = False
    origin: int = 1
    newest: Newest | None = None
