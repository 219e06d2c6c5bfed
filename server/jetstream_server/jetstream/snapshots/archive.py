"""The archive in a snapshot: the stream's state, its consumers, its messages, one entry each.

After the magic come entries: the length of the name, the time in nanoseconds (zigzag), the
sequence, the lengths of headers and payload, all as varints, then name, headers, payload.

    state.json          the stream's state; `consumer_count` says how many consumers follow
    consumers/<name>    {"config":..,"state":..}, sequence 0
    <subject>           a message, with its sequence, time and headers
    (nothing)           five zeros: the end

This is the layout of nats-server 2.15, probed there, so that snapshots go both ways. It does not
name the stream it came from: name, subjects and limits are in the request that restores it. What
the entries mean is the business of `snapshot.py` and `rebuild.py`; the compressed stream around
the archive is `s2.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from jetstream_server.base.limits import HEADER_BYTES_MAX

MAGIC = b"NATSARC1"
STATE_NAME = b"state.json"
CONSUMER_PREFIX = b"consumers/"
END = bytes(5)

# Of one message, headers included; far above what any server accepts (64 MiB), so that a length
# that is nonsense is refused before its bytes are waited for.
MESSAGE_BYTES_MAX = 64 * 1024 * 1024
# Of the stream's state, which is read in one piece. Servers write some hundred bytes; 64 KiB have
# room for thousands of lost messages.
STATE_BYTES_MAX = 64 * 1024
# Of the entry of one consumer: a million pending messages take about 60 MB.
CONSUMER_BYTES_MAX = 256 * 1024 * 1024
_NAME_BYTES_MAX = 65_535
_VARINT_BITS_MAX = 70
_INVALID = "archive: invalid archive stream"


class ArchiveError(ValueError):
    """These bytes are not an archive, or not a whole one; the text goes to the client."""


@dataclass(slots=True)
class ArchiveEntry:
    """One entry: a message when `sequence` is not 0.

    Attributes:
        name: subject, or what else it is; empty at the end of the archive.
        timestamp: nanoseconds since the epoch.
    """

    name: bytes
    timestamp: int
    sequence: int
    headers: bytes
    payload: bytes

    @property
    def is_end(self) -> bool:
        """Return whether the archive ends here."""
        return not self.name and not self.sequence


def encode_entry(
    name: bytes, timestamp: int, payload: bytes, *, sequence: int = 0, headers: bytes = b""
) -> bytes:
    """Return the bytes of one entry."""
    return b"".join(
        (
            _varint(len(name)),
            _varint(timestamp << 1 if timestamp >= 0 else (-timestamp << 1) - 1),
            _varint(sequence),
            _varint(len(headers)),
            _varint(len(payload)),
            name,
            headers,
            payload,
        )
    )


def _varint(value: int) -> bytes:
    if value < 0x80:
        return value.to_bytes()
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


class ArchiveReader:
    """Takes an archive in pieces of any size, gives back its entries one by one.

    At most one unfinished entry is kept between two calls, besides what was fed and not read.
    """

    def __init__(self) -> None:
        self._pending = bytearray()
        self._at = 0
        self._is_begun = False
        self._has_state = False  # the first entry was read
        self._awaited = b""

    def feed(self, piece: bytes) -> None:
        """Take the next bytes of the archive."""
        del self._pending[: self._at]
        self._at = 0
        self._pending += piece

    def next_entry(self) -> ArchiveEntry | None:
        """Return the next entry, None when more bytes are needed.

        Raises:
            ArchiveError: this is not an archive, or a damaged one.
        """
        if not self._is_begun and not self._begin():
            return None
        head = self._read_head()
        if head is None:
            return None
        (name_bytes, zigzag, sequence, header_bytes, payload_bytes), at = head
        if name_bytes > _NAME_BYTES_MAX:
            raise ArchiveError(_INVALID)
        if sequence and header_bytes + payload_bytes > MESSAGE_BYTES_MAX:
            raise ArchiveError(f"message sequence {sequence} exceeds maximum payload size")
        if header_bytes > HEADER_BYTES_MAX or payload_bytes > CONSUMER_BYTES_MAX:
            raise ArchiveError(_INVALID)
        if not self._has_state and payload_bytes > STATE_BYTES_MAX:
            raise ArchiveError(f"{STATE_NAME.decode()} is longer than {STATE_BYTES_MAX} bytes")
        self._awaited = (
            f"failed to read message sequence {sequence}: ".encode() if sequence else b""
        )
        a, b = at + name_bytes, at + name_bytes + header_bytes
        stop = b + payload_bytes
        pending = self._pending
        if stop > len(pending):
            return None
        self._at = stop
        self._has_state = True
        self._awaited = b""
        timestamp = (zigzag >> 1) ^ -(zigzag & 1)
        return ArchiveEntry(
            bytes(pending[at:a]), timestamp, sequence, bytes(pending[a:b]), bytes(pending[b:stop])
        )

    def end(self) -> ArchiveError:
        """Return what is wrong with an archive after which nothing more comes."""
        if self._at == len(self._pending):
            return ArchiveError("EOF")
        if not self._is_begun:
            return ArchiveError("unexpected EOF")
        return ArchiveError(self._awaited.decode() + _INVALID)

    def _begin(self) -> bool:
        if len(self._pending) < len(MAGIC):
            return False
        if not self._pending.startswith(MAGIC):
            if self._pending[257:262] == b"ustar":
                raise ArchiveError(
                    "the snapshot is a tar archive, as nats-server before 2.15 wrote them;"
                    " only those of 2.15 and later can be restored"
                )
            raise ArchiveError("archive/tar: invalid tar header")
        self._at = len(MAGIC)
        self._is_begun = True
        return True

    def _read_head(self) -> tuple[list[int], int] | None:
        """Return the five numbers of an entry and where its name begins, None if they are not
        all there."""
        pending, at = self._pending, self._at
        numbers: list[int] = []
        try:
            for _ in range(5):
                byte = pending[at]
                at += 1
                value, shift = byte & 0x7F, 7
                while byte >= 0x80:
                    byte = pending[at]
                    at += 1
                    value |= (byte & 0x7F) << shift
                    shift += 7
                    if shift > _VARINT_BITS_MAX:
                        raise ArchiveError(_INVALID)
                numbers.append(value)
        except IndexError:
            return None
        if max(numbers) >> 64:
            raise ArchiveError(_INVALID)
        return numbers, at
