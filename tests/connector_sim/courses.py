"""How connections fare: without a fault, cut at a given byte, or as bad luck has it."""

from __future__ import annotations

from random import Random

from jetstream_server.base.clock import MICROSECOND, MILLISECOND, SECOND

from tests.connector_sim.wire import NEVER

# Below and above every time limit of the connector: silences, acks, requests, outages.
STALLS_S = (0.2, 0.9, 1.5, 3, 4, 6, 9, 11, 21, 31, 45)
# Longer than ids are remembered by some streams.
ROW_STALLS_S = (3, 8, 15)


class FairCourse:
    """Everything arrives, quickly, in one piece; or up to a byte at which it is cut."""

    is_silent = False

    def __init__(self, up_max: int = NEVER, down_max: int = NEVER) -> None:
        self.up_max = up_max
        self.down_max = down_max

    def delay_ns(self) -> int:
        """How long the next piece takes."""
        return 50 * MICROSECOND

    def up_stall_ns(self, piece: bytes) -> int:
        """How much longer a piece to the server takes."""
        return 0

    def piece(self, size: int, moved: int) -> int:
        """How many of so many bytes go next."""
        return size

    def told_ns(self) -> int:
        """After how long an end learns of a cut."""
        return MILLISECOND

    def breaks_handshake(self) -> bool:
        """Whether a TLS handshake comes to nothing."""
        return False


class RoughCourse:
    """Bytes dawdle, stall, come in any pieces, and the connection is cut at some byte.

    Args:
        stall_max_s: no stall is longer.
        cut_chance: that it is cut at all.
        row_mark: what rows that are written have in them.
        row_stall_chance: that a piece with such rows stalls, and all that is sent behind it.
    """

    def __init__(
        self,
        random: Random,
        cut_chance: float,
        stall_max_s: float,
        row_mark: bytes = b"",
        row_stall_chance: float = 0.0,
    ) -> None:
        self._random = random
        self.up_max = self.down_max = NEVER
        if random.random() < cut_chance:
            # Most conversations are short; a few are not.
            byte = random.randrange(1, random.choice([400, 1_500, 6_000, 40_000]))
            if random.random() < 0.5:
                self.up_max = byte
            else:
                self.down_max = byte
        self.is_silent = random.random() < 0.1
        self._stalls = [one for one in STALLS_S if one <= stall_max_s]
        self._stall_chance = random.choice([0, 0, 0.01, 0.05]) if self._stalls else 0
        self._delay_ns = random.choice([200 * MICROSECOND, 2 * MILLISECOND, 30 * MILLISECOND])
        self._is_cut_up = random.random() < 0.3
        self._is_slow_start = random.random() < 0.3
        self._break_chance = 0.2 * cut_chance
        self._row_mark, self._row_stall_chance = row_mark, row_stall_chance

    def delay_ns(self) -> int:
        """How long the next piece takes."""
        random = self._random
        if random.random() < self._stall_chance:
            return int(random.choice(self._stalls) * SECOND)
        return random.randrange(1, self._delay_ns)

    def up_stall_ns(self, piece: bytes) -> int:
        """How much longer a piece to the server takes."""
        if not self._row_stall_chance or self._row_mark not in piece:
            return 0
        if self._random.random() >= self._row_stall_chance:
            return 0
        return int(self._random.choice(ROW_STALLS_S) * SECOND)

    def piece(self, size: int, moved: int) -> int:
        """How many of so many bytes go next."""
        if self._is_cut_up and self._random.random() < 0.3:
            return self._random.randrange(1, size + 1)
        return min(size, max(200, moved)) if self._is_slow_start else size

    def told_ns(self) -> int:
        """After how long an end learns of a cut."""
        if self._random.random() < 0.1:
            return self._random.randrange(3 * SECOND)
        return self._random.randrange(20 * MILLISECOND)

    def breaks_handshake(self) -> bool:
        """Whether a TLS handshake comes to nothing."""
        return self._random.random() < self._break_chance
