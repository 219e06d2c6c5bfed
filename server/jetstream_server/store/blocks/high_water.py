"""How far a store had come, remembered beside its blocks: the high-water mark.

Blocks alone cannot tell that one of them is missing, or that the last one is shorter than it was:
that looks like a store that never held more. So what is durable is noted in a second place, and
recovery (`store/blocks/recovery.py`) takes anything less for damage.

    file      a `StateLog` of entries; the first one of a file tells everything, later ones what
              was added
    entry     u64 last sequence; u64 number and u64 bytes of the block that is being written; then
              u64 number and u64 last sequence of each sealed block

A note is written after what it describes: when a flush has made something durable, before anybody
is told of it; when a block is sealed; when a store is at rest, and when it is closed. Those of
flushes are not synced, so they outlive the process but not always the power. What has become
durable since the last note that is left is protected by the blocks alone.

Invariants:

- Every entry in a file stays true for as long as the file is there: a file that was cut short says
  less, but nothing false. So before a block is removed that the current file names, a new file is
  begun and made durable, unless a durable floor says that all of the block is gone.
- On a full disk such a block may be removed before the floor is durable; then the mark is removed
  before the block.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct

from jetstream_server.base.errors import StoreError
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.owner import Owner
from jetstream_server.store.disk.state_log import StateLog

HIGH_WATER_NAME = "high-water"
_ENTRY_MIN = 3  # numbers in an entry without blocks
_PLACE = Struct("=QQQ")  # such an entry


@dataclass(slots=True)
class HighWater:
    """What was durable.

    Attributes:
        last_seq: the last sequence in use.
        open_number: of the block that was being written, 0 for none.
        open_bytes: how much of that block was durable.
        sealed: last sequence of each sealed block, by number.
    """

    last_seq: int = 0
    open_number: int = 0
    open_bytes: int = 0
    sealed: dict[int, int] = field(default_factory=dict)

    def encode(self, sealed: dict[int, int]) -> bytes:
        """Return an entry that names some of the sealed blocks."""
        pairs = [number for pair in sealed.items() for number in pair]
        return array("Q", [self.last_seq, self.open_number, self.open_bytes, *pairs]).tobytes()

    def add(self, entry: bytes) -> bool:
        """Take in an entry; return False if it is not one."""
        if len(entry) % 16 != 8 or len(entry) < 8 * _ENTRY_MIN:
            return False
        numbers = array("Q", entry)
        self.last_seq, self.open_number, self.open_bytes = numbers[:_ENTRY_MIN]
        self.sealed.update(zip(numbers[3::2], numbers[4::2], strict=True))
        return True

    @property
    def last_number(self) -> int:
        """Return the highest number of a block."""
        return max(self.open_number, *self.sealed, 0)

    def confirmed_bytes(self, number: int) -> int:
        """Return how many bytes of a block were durable, 0 when nobody knows."""
        return self.open_bytes if number == self.open_number else 0


class HighWaterLog:
    """The high-water mark of one store.

    Args:
        folder: of the blocks; the mark is kept beside it.
        commit: the queue to the disk.
        owner: is told how writing went.

    Attributes:
        path: of the files, without their numbers.
    """

    def __init__(self, folder: Path, commit: GroupCommit, owner: Owner) -> None:
        self.path = folder.with_name(HIGH_WATER_NAME)
        self._log = StateLog(self.path, commit, owner)
        self._said = HighWater()  # what the notes written so far say
        self._is_provisional = False  # some of that does not outlive a power cut
        self._kept_open = 0  # the number of the open block, as it does outlive one

    def load(self) -> tuple[HighWater, str]:
        """Return what was durable, and what is wrong with the mark: empty when nothing is.

        A damaged mark says nothing: the blocks count, and the mark is written again.

        Raises:
            StoreError: it cannot be read.
        """
        found = HighWater()
        entries, is_damaged = self._log.load_all()
        if not all(found.add(entry) for entry in entries):
            entries, is_damaged, found = [], True, HighWater()
        if is_damaged and not entries:
            return found, f"the high-water mark {self.path} is damaged and will be written anew"
        return found, ""

    def adopt(self, found: HighWater, sealed: dict[int, int]) -> None:
        """Go on from what was found: the mark, and the last sequences of sealed blocks."""
        self._said = found
        self._kept_open = found.open_number
        found.sealed = sealed

    def sealed(self, number: int, last_seq: int) -> None:
        """Note that a block is sealed."""
        said = self._said
        said.sealed[number] = last_seq
        said.last_seq = max(said.last_seq, last_seq)
        if said.open_number == number:  # it may be rewritten, and be smaller
            said.open_number = said.open_bytes = 0
        self._save({number: last_seq})

    def confirm(self, last_seq: int, number: int, size: int) -> None:
        """Note how much of the open block a flush has made durable, before anybody is told of it.

        The arguments are those of `reached`. On a full disk nothing is noted.
        """
        said = self._said
        if last_seq > said.last_seq:
            said.last_seq = last_seq
        said.open_number, said.open_bytes = number, size
        self._is_provisional = True
        self._log.note(_PLACE.pack(said.last_seq, number, size), self._whole)

    def _whole(self) -> bytes:
        return self._said.encode(self._said.sealed)

    def reached(self, last_seq: int, number: int, size: int, *, lazily: bool) -> bool:
        """Note how much of the open block is durable; return False when that was noted already.

        Args:
            last_seq: the last sequence in use.
            number: of the block.
            size: bytes of it.
            lazily: a power cut may take the note back.
        """
        said, now = self._said, (last_seq, number, size)
        if now == (said.last_seq, said.open_number, said.open_bytes) and not self._is_provisional:
            return False
        said.last_seq, said.open_number, said.open_bytes = now
        self._save({}, lazily=lazily)
        return True

    def replaced(self, number: int, last_seq: int) -> None:
        """A sealed block is being rewritten, and may end earlier, or be smaller.

        One that was open when the store was opened, and is not written to since, was never noted
        as sealed.
        """
        said = self._said
        is_named_open = number in (said.open_number, self._kept_open)
        if said.open_number == number:
            said.open_number = said.open_bytes = 0
        if is_named_open or said.sealed.get(number, last_seq) != last_seq:
            said.sealed[number] = last_seq
            self._save({}, begins=True)

    def forget(self, numbers: Iterable[int], floor: int) -> None:
        """Blocks are about to be removed: keep the mark true for those that are not all below the
        floor."""
        sealed = self._said.sealed
        gone = [sealed.pop(number, -1) for number in numbers]
        if max(gone, default=-1) >= floor:
            self._save({}, begins=True)

    def _save(self, added: dict[int, int], *, lazily: bool = False, begins: bool = False) -> None:
        said, log = self._said, self._log
        self._is_provisional = False
        if not lazily:
            self._kept_open = said.open_number
        entry = said.encode(added)
        if begins or log.is_worn(len(entry)):
            log.save(said.encode(said.sealed), begins=True)
        else:
            log.save(entry, lazily=lazily, joins=False)

    def restate(self) -> None:
        """Drop what is no longer there from the mark."""
        self._said.open_number = self._said.open_bytes = 0
        self._save({}, begins=True)

    def restart(self) -> None:
        """The file may be gone: begin another with the next note."""
        self._log.leave()


def missing(
    found: HighWater, sizes: dict[int, int], last_seq: int, floor: int, folder: Path
) -> StoreError | None:
    """Return what is missing of what was durable, None when nothing is.

    Args:
        found: the mark.
        sizes: bytes of the blocks that are there, by number.
        last_seq: what they say is the last sequence.
        floor: what they say is the first one that may be there.
        folder: of the blocks.
    """
    gone = [n for n, last in found.sealed.items() if n not in sizes and last >= floor]
    newest = max(sizes, default=0)
    if found.open_bytes and found.open_number > newest:
        gone.append(found.open_number)
    if gone:
        return StoreError("a block with messages is missing", str(folder / f"{min(gone)}.blk"), 0)
    if last_seq < found.last_seq:
        reason = f"messages up to {found.last_seq} were stored, and those from {last_seq + 1} on"
        path = str(folder / f"{newest or 1}.blk")
        return StoreError(f"{reason} are missing", path, sizes.get(newest, 0))
    return None
