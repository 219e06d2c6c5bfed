"""What stands in a file of the journal (`journal.py`): written, and read again after a crash.

    file      two equal beginnings in sectors of their own, then entries
    entry     4 bytes that begin each, u32 CRC-32C over the rest of the head, u32 CRC-32C of the
              content, u32 length of the content, u64 serial, u64 how much of the file was durable
              before, u8 kind, u16 length of the path, the path below the root; then the content,
              which is what the file holds on the disk

A beginning is an entry of kind `BEGINNING`: what stands in the file and has a lower serial is of an
earlier use. Both are written at once; if that is interrupted, one of them is still whole: the new
one, or that of the earlier use.

Entries end where one cannot be read. Bytes there that nobody was told of are a torn tail. When an
entry behind them says that they were durable before it was written, they are damage: then reading
goes on behind them. They are damage, too, if a separate file says so (`Reached`), which also tells
when a whole file is gone or was cut short.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct

from jetstream_server.kernels.records import checksum as crc32c

BEGINNING, CONTENT, FOLDER_GONE, FILE_GONE = range(4)
PATH_BYTES_MAX = (1 << 16) - 1

_MARK = b"\xffJ\x00\xfe"  # in no text
_CHECK = Struct("<4sI")
_HEAD = Struct("<IIQQBH")
_REACHED = Struct("<4Q")
_SECTOR_BYTES = 64
_BEGINNINGS = (0, _SECTOR_BYTES)
ENTRIES_AT = 2 * _SECTOR_BYTES


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One entry.

    Attributes:
        serial: rises through both files of a journal.
        durable: how much of the file was durable before it was written.
        kind: what it says.
        path: below the root.
        raw: the content.
        stop: where it ends in the file.
        is_whole: whether the content is what was written; the rest of an entry always is.
    """

    serial: int
    durable: int
    kind: int
    path: bytes
    raw: bytes
    stop: int
    is_whole: bool


@dataclass(slots=True)
class Reading:
    """What was read of a file.

    Attributes:
        begun: serial of its beginning, 0 when there is none.
        entries: those of this use; of one that is not whole only the content is damaged.
        stop: where they end.
        highest: the highest serial of any entry in it, even of an earlier use or a torn flush.
        damage: offsets of damage.
    """

    begun: int = 0
    entries: list[JournalEntry] = field(default_factory=list)
    stop: int = ENTRIES_AT
    highest: int = 0
    damage: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Reached:
    """How much of the two files of a journal was durable: serial of the beginning, and bytes."""

    first: tuple[int, int] = (0, 0)
    second: tuple[int, int] = (0, 0)

    @property
    def halves(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return what is said of each file."""
        return self.first, self.second

    def encode(self) -> bytes:
        """Return what stands in the file."""
        numbers = _REACHED.pack(*self.first, *self.second)
        return crc32c(numbers).to_bytes(4, "little") + numbers

    @classmethod
    def decode(cls, stored: bytes) -> Reached:
        """Read the file; one that is torn or damaged says nothing."""
        numbers = stored[4 : 4 + _REACHED.size]
        if len(numbers) < _REACHED.size or crc32c(numbers) != int.from_bytes(stored[:4], "little"):
            return cls()
        found = _REACHED.unpack(numbers)
        return cls(found[:2], found[2:])


def encode(serial: int, durable: int, kind: int, path: bytes = b"", raw: bytes = b"") -> bytes:
    """Return an entry; the arguments are as in `JournalEntry`."""
    assert len(path) <= PATH_BYTES_MAX, "no system has longer ones"
    head = _HEAD.pack(crc32c(raw), len(raw), serial, durable, kind, len(path)) + path
    return b"".join((_CHECK.pack(_MARK, crc32c(head)), head, raw))


def beginning(serial: int) -> bytes:
    """Return what a file begins with: `ENTRIES_AT` bytes."""
    return encode(serial, 0, BEGINNING).ljust(_SECTOR_BYTES, b"\0") * len(_BEGINNINGS)


def read(stored: bytes, reached: tuple[int, int] = (0, 0)) -> Reading:
    """Read a file from its beginning to its end.

    Args:
        stored: the file.
        reached: what was durable: up to which byte, behind the beginning with which serial.
    """
    reading = Reading()
    for at in _BEGINNINGS:
        entry = _entry(stored, at)
        if entry is not None and entry.kind == BEGINNING:
            reading.begun = max(reading.begun, entry.serial)
    # Another beginning than that stands there because the file was used again since then.
    durable = reached[1] if reached[0] >= reading.begun else 0
    at = ENTRIES_AT
    last = reading.highest = reading.begun
    behind: list[tuple[int, JournalEntry]] | None = None
    while at < len(stored):
        entry = _entry(stored, at)
        if entry is None or entry.serial <= last or not entry.is_whole:
            if behind is None:
                behind = list(_entries_behind(stored, at))
                reading.highest = max(reading.highest, *(each.serial for _, each in behind), 0)
            later = [each for each in behind if each[0] > at and each[1].serial > last]
            if at >= durable and not any(each.durable > at for _, each in later):
                break
            reading.damage.append(at)
            if entry is None or entry.serial <= last:
                if not later:
                    break
                at = later[0][0]
                continue
        reading.entries.append(entry)
        at, last = entry.stop, entry.serial
    reading.stop = at
    reading.highest = max(reading.highest, last)
    if not reading.begun and (reading.entries or durable):
        # Both beginnings are gone: whether this was put in place long ago is not known.
        reading.damage = [0, *reading.damage]
        reading.entries.clear()
    elif at < durable and not reading.damage:
        reading.damage.append(min(at, len(stored)))  # it was cut short between two entries
    return reading


def _entries_behind(stored: bytes, at: int) -> Iterator[tuple[int, JournalEntry]]:
    """Yield what looks like an entry behind `at`, and where it stands."""
    while (at := stored.find(_MARK, at + 1)) >= 0:
        if (entry := _entry(stored, at)) is not None:
            yield at, entry


def _entry(stored: bytes, at: int) -> JournalEntry | None:
    """Return the entry that begins at `at`, None when no sound head stands there."""
    head_at = at + _CHECK.size
    path_at = head_at + _HEAD.size
    if path_at > len(stored):
        return None
    mark, checksum = _CHECK.unpack_from(stored, at)
    content_checksum, length, serial, durable, kind, path_bytes = _HEAD.unpack_from(stored, head_at)
    raw_at = path_at + path_bytes
    stop = raw_at + length
    if mark != _MARK or stop > len(stored) or crc32c(stored[head_at:raw_at]) != checksum:
        return None
    path, raw = stored[path_at:raw_at], stored[raw_at:stop]
    return JournalEntry(serial, durable, kind, path, raw, stop, crc32c(raw) == content_checksum)
