"""Erased messages: records whose headers and payload were overwritten where they stood.

An erased record keeps its length, sequence, time and subject, so that entries and counts of its
block stay as they are; its tombstone is durable before it is touched. The checksum of an erased
record covers no more than its *head*, everything before the headers: the head is made durable
first, then the rest is zeroed, and a tear in the rest does not matter.

Nor does a tear in the head, where only checksum and kind change: the new checksum follows from the
head and the old one from the rest, which is untouched until then, so any mixture of the two is
recognised.

In a compressed block no message has a place of its own. So the block is written without the message
to a plain *redo* file, which is made durable, and then the whole compressed file is overwritten. A
start that finds a redo file does that again, or on a full disk as soon as there is room; until then
the redo file is what counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jetstream_server.kernels.record_format import (
    CHECKED_FROM,
    ERASED,
    MESSAGE,
    PREFIX,
    PREFIX_BYTES,
    Buffer,
)
from jetstream_server.kernels.records import checksum as crc32c
from jetstream_server.store.disk.disk import FULL_ERRNOS, Disk

REDO_SUFFIX = ".redo"


@dataclass(slots=True)
class Erased:
    """What is left of a message."""

    sequence: int
    subject: bytes
    stop: int


def erase(block: bytearray, at: int) -> tuple[bytes, int]:
    """Erase the record at `at` in memory; return its head and where it ends, for the disk."""
    stop = at + PREFIX.unpack_from(block, at)[0]
    head = _head(block, at)
    block[at:stop] = head.ljust(stop - at, b"\0")
    return head, stop


def redo(path: Path, disk: Disk) -> bytes | None:
    """Put a redo file in the place of the block file `path`, and leave nothing of the old one.

    Returns:
        None when it is done; the content of the block when there is no room for that yet, and all
        of it is still to be done.
    """
    whole = disk.read(path.with_suffix(REDO_SUFFIX))
    assert whole is not None, "it was found"
    try:
        if disk.read(path) is not None:
            disk.overwrite(path, 0, b"", disk.size(path))
        disk.replace(path, [whole])
        disk.sync_folder(path.parent)
    except OSError as error:
        if error.errno not in FULL_ERRNOS:
            raise
        return whole
    disk.remove(path.with_suffix(REDO_SUFFIX))
    disk.sync_folder(path.parent)
    return None


def decode(block: Buffer, at: int) -> Erased | None:
    """Return the erased record at `at`, even if it is half erased; None when there is none.

    It must not be asked about whole messages, which look like records that are being erased.
    """
    if at + PREFIX_BYTES > len(block):
        return None
    size, checksum, sequence, _, headers, subject_bytes, kind = PREFIX.unpack_from(block, at)
    stop = at + size
    if size < PREFIX_BYTES + subject_bytes + headers or stop > len(block):
        return None
    head = _head(block, at)
    if kind not in (MESSAGE, ERASED) or not _is_sound(block, at, checksum, head):
        return None
    return Erased(sequence, head[PREFIX_BYTES:], stop)


def _is_sound(block: Buffer, at: int, checksum: int, head: bytes) -> bool:
    """Tell whether a record has the checksum of an erased one, or was being given it."""
    stored, erased = checksum.to_bytes(4, "little"), head[4:CHECKED_FROM]
    if stored == erased:
        return True
    size, _, *fields, _ = PREFIX.unpack_from(block, at)
    message = PREFIX.pack(size, 0, *fields, MESSAGE)
    message += bytes(block[at + PREFIX_BYTES : at + size])
    original = crc32c(message[CHECKED_FROM:]).to_bytes(4, "little")
    return all(byte in pair for byte, *pair in zip(stored, erased, original, strict=True))


def _head(block: Buffer, at: int) -> bytes:
    size, _, sequence, timestamp, headers, subject_bytes, _ = PREFIX.unpack_from(block, at)
    prefix = PREFIX.pack(size, 0, sequence, timestamp, headers, subject_bytes, ERASED)
    subject = bytes(block[at + PREFIX_BYTES : at + PREFIX_BYTES + subject_bytes])
    checksum: int = crc32c(prefix[:4] + prefix[CHECKED_FROM:] + subject)
    return prefix[:4] + checksum.to_bytes(4, "little") + prefix[CHECKED_FROM:] + subject
