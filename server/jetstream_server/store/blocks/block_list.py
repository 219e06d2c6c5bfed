"""The blocks of one store and the numbers of its messages.

Whoever adds or removes messages says so here, so that the numbers are right at any time; what is in
the blocks is the business of `block_contents.py`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from jetstream_server.store.blocks.block import Block
from jetstream_server.store.blocks.block_contents import BlockContents
from jetstream_server.store.ports import StoreState
from jetstream_server.store.tally import Holding


class BlockList:
    """The blocks of one store, oldest first.

    Invariant: only the last block may be without live messages.

    Args:
        contents: of the blocks.
        first_seq: the first sequence to be used; 0 for 1.

    Attributes:
        blocks: oldest first.
        messages: how many there are.
        holding: their accounted bytes.
        is_used: whether a sequence was used, or is known to be the first.
        last_seq, last_ts: the last sequence used, and when.
        floor: everything below was removed as a whole.
    """

    def __init__(self, contents: BlockContents, first_seq: int) -> None:
        self.messages = 0
        self.holding = Holding()
        self.is_used = first_seq > 0
        self.last_seq = max(first_seq - 1, 0)
        self.last_ts = 0
        self.floor = 0
        self._contents = contents
        self._blocks: list[Block] = []
        self.blocks: Sequence[Block] = self._blocks
        self._oldest: tuple[int, int] | None = None  # what `oldest` found

    # -- looking ---------------------------------------------------------------------------

    def state(self, num_subjects: int) -> StoreState:
        """Return the counters."""
        first_seq, first_ts = self.oldest()
        span = self.last_seq - first_seq + 1 if self.is_used else 0
        return StoreState(
            messages=self.messages,
            bytes=self.holding.bytes,
            first_seq=first_seq,
            first_ts=first_ts,
            last_seq=self.last_seq,
            last_ts=self.last_ts,
            num_subjects=num_subjects,
            num_deleted=max(span - self.messages, 0),
        )

    def oldest(self) -> tuple[int, int]:
        """Return sequence and time of the first live message; without one last_seq + 1 and 0.

        Raises:
            StoreError: it cannot be read.
        """
        if not self.messages:
            return (self.last_seq + 1 if self.is_used else 0), 0
        if self._oldest is None:
            block = self._blocks[0]
            content = self._contents.of(block)
            sequence, timestamp = block.sequence(content, block.head), block.first_ts
            if block.head:
                timestamp = self._contents.timestamp(block, content, block.head)
            self._oldest = sequence, timestamp
        return self._oldest

    def index_of(self, sequence: int) -> int:
        """Return the index of the first block that ends at or after a sequence."""
        return bisect_left(self._blocks, sequence, key=lambda block: block.last_seq)

    def at(self, sequence: int) -> Block | None:
        """Return the block in whose range a sequence is."""
        index = bisect_right(self._blocks, sequence, key=lambda block: block.first_seq) - 1
        if index < 0 or sequence > self._blocks[index].last_seq:
            return None
        return self._blocks[index]

    # -- blocks come and go ----------------------------------------------------------------

    def begin(self, block: Block) -> None:
        """Take in a block that is still empty."""
        self._blocks.append(block)

    def adopt(self, block: Block) -> None:
        """Take in a block with all its messages."""
        self._blocks.append(block)
        self.messages += block.live
        self.holding.add(block.accounted)
        self.is_used = True

    def remove(self, block: Block) -> None:
        """Take out a block without live messages."""
        self._blocks.remove(block)

    def remove_front(self, count: int) -> None:
        """Take out the first blocks, which have no live messages."""
        del self._blocks[:count]

    # -- messages come and go --------------------------------------------------------------

    def appended(self, count: int, accounted: int, last_seq: int, now: int) -> None:
        """Count messages that were added to the last block."""
        if not self.messages:
            self._oldest = None
        self.messages += count
        holding = self.holding
        holding.bytes += accounted  # `add`, without the call
        holding.tally.bytes += accounted
        self.last_seq = last_seq
        self.last_ts = now
        self.is_used = True

    def discount(self, block: Block, messages: int, accounted: int, recorded: int) -> None:
        """Take live messages that are gone from a block off the counts."""
        block.live -= messages
        block.accounted -= accounted
        block.recorded -= recorded
        self.messages -= messages
        self.holding.add(-accounted)
        self._oldest = None

    def use_up(self, last_seq: int) -> None:
        """Let the next message get the sequence after `last_seq`, unless a later one is already in
        use; the time stays."""
        self.last_seq = max(self.last_seq, last_seq)
        self.is_used = True

    def end_with(self, last_seq: int, last_ts: int) -> None:
        """Have `last_seq` be the last sequence used, at `last_ts`."""
        self.last_seq, self.last_ts = last_seq, last_ts
        self.is_used = True
