"""Where frames that number their messages begin, told without looking at them.

Deliveries and acks differ in length only by the digits of the numbers in them, which rise or fall
by one a message. So the length is constant from one power of ten to the next, and bytes become
messages and messages bytes with one look into a short sorted list.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

_DIGITS_MAX = 19  # of a 64-bit integer


class FrameLengths:
    """The lengths of `count` consecutive frames, numbered from 0.

    Args:
        fixed_bytes: the length of a frame without the digits of its numbers.
        rising: the numbers of frame 0 that are one more in each following frame.
        falling: those that are one less; none gets below zero in `count` frames.
    """

    def __init__(
        self, fixed_bytes: int, count: int, *, rising: Sequence[int], falling: Sequence[int] = ()
    ) -> None:
        assert count > 0 and all(number >= count - 1 for number in falling)
        powers = [10**digits for digits in range(1, _DIGITS_MAX)]
        changes = {power - number for number in rising for power in powers}
        changes |= {number - power + 1 for number in falling for power in powers}
        self.count = count
        self._starts: list[int] = [0, *sorted(frame for frame in changes if 0 < frame < count)]
        self._lengths: list[int] = [
            fixed_bytes
            + sum(len(str(number + frame)) for number in rising)
            + sum(len(str(number - frame)) for number in falling)
            for frame in self._starts
        ]
        self._offsets: list[int] = [0]
        for place in range(1, len(self._starts)):
            self._offsets.append(self.offset(self._starts[place]))

    def offset(self, frame: int) -> int:
        """Return how long the frames before this one are together."""
        place = bisect_right(self._starts, frame, hi=len(self._offsets)) - 1
        return self._offsets[place] + (frame - self._starts[place]) * self._lengths[place]

    def whole(self, size: int) -> int:
        """Return how many frames are whole in the first `size` bytes."""
        place = bisect_right(self._offsets, size) - 1
        frames = self._starts[place] + (size - self._offsets[place]) // self._lengths[place]
        return min(frames, self.count)
