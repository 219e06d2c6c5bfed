"""S2, the compressed stream that a snapshot travels in: frames around blocks.

A stream of frames: one byte of type, three of length (little-endian), the content. Data frames
carry the masked CRC-32C of what they stand for, and then either that itself (`UNCOMPRESSED`) or an
S2 block: Snappy's literals and copies, and a copy with offset 0 that repeats the last offset.

Blocks are compressed with Snappy, whose blocks are S2 blocks, and left as they are when that gains
nothing. Blocks that use S2's own repeats, as the genuine server's do, are decoded here, much
slower: a part of a block in each call. What is kept between two calls is at most one unfinished
frame, or one unfinished block.

References: github.com/klauspost/compress/s2; google/snappy, `framing_format.txt` and
`format_description.txt`.
"""

from __future__ import annotations

from collections.abc import Generator

from jetstream_server.kernels.records import checksum as crc32c
from jetstream_server.structures import snappy

STREAM_IDENTIFIER = b"\xff\x06\x00\x00S2sTwO"
_IDENTIFIERS = (b"S2sTwO", b"sNaPpY")

_COMPRESSED = 0x00
_UNCOMPRESSED = 0x01
_UNSKIPPABLE_STOP = 0x80  # unknown frames of a lower type end the reading
_IDENTIFIER = 0xFF
_HEAD_BYTES = 4
_CHECKSUM_BYTES = 4
_MASK = 0xA282EAD8

# What a writer may put into one block, and with it a reader must be ready to hold.
BLOCK_BYTES_MAX = 4 << 20
_WRITTEN_BYTES_MAX = 1 << 20
# Literals and copies that one call decodes: some ten milliseconds of them.
_ELEMENTS_AT_ONCE = 8192
# What a call costs, measured in bytes that could be stored meanwhile.
_FRAME_COST = 128
_ELEMENTS_COST = 1 << 18
_BYTES_OF_COST = 8  # of what is decompressed by a library

CORRUPT = "s2: corrupt input"
UNSUPPORTED = "s2: unsupported input"
MISMATCH = "s2: corrupt input, crc mismatch"
TOO_LARGE = "s2: decoded block is too large"


class S2Error(ValueError):
    """These bytes are not an S2 stream; the text is that of the reference implementation."""


def frames(data: bytes) -> bytes:
    """Return frames that hold any number of bytes."""
    if len(data) <= _WRITTEN_BYTES_MAX:
        return _frame(data)
    starts = range(0, len(data), _WRITTEN_BYTES_MAX)
    return b"".join(_frame(data[start : start + _WRITTEN_BYTES_MAX]) for start in starts)


def _frame(data: bytes) -> bytes:
    kind, content = b"\x00", snappy.compress(data)
    if len(content) > len(data) - len(data) // 8:
        kind, content = b"\x01", data
    size = (_CHECKSUM_BYTES + len(content)).to_bytes(3, "little")
    return b"".join((kind, size, masked_checksum(data).to_bytes(4, "little"), content))


def masked_checksum(data: bytes) -> int:
    """Return CRC-32C, rotated and offset so that checksums of checksums stay sound."""
    checksum: int = crc32c(data)
    return (((checksum >> 15) | (checksum << 17)) + _MASK) & 0xFFFFFFFF


class S2Reader:
    """Takes a stream in pieces of any size, gives back block by block what it held.

    A few bytes can stand for a block of megabytes, so blocks are handed out one at a time; and as
    many can be frames without any data, or take long to decode, so that some calls have nothing to
    give.

    Attributes:
        cost: of the last call, measured in bytes that could be stored meanwhile.
    """

    def __init__(self) -> None:
        self._pending = bytearray()
        self._is_begun = False
        self._decoding: Generator[None, None, bytes] | None = None
        self._checksum = b""  # of what is being decoded
        self.cost = 0

    @property
    def is_complete(self) -> bool:
        """Return whether no frame is unfinished."""
        return not self._pending and self._decoding is None

    def feed(self, piece: bytes) -> None:
        """Take the next bytes of the stream."""
        self._pending += piece

    def next_block(self) -> bytes | None:
        """Return what the next frame holds, None when more bytes are needed. It is empty for a
        frame without data, and as long as decoding a block takes further calls.

        Raises:
            S2Error: the stream is damaged, or none.
        """
        self.cost = _FRAME_COST
        if self._decoding is not None:
            return self._decode_on(self._decoding)
        pending = self._pending
        if len(pending) < _HEAD_BYTES:
            return None
        kind = pending[0]
        size = int.from_bytes(pending[1:_HEAD_BYTES], "little")
        self._check_head(kind, size)
        end = _HEAD_BYTES + size
        if end > len(pending):
            return None
        body = bytes(pending[_HEAD_BYTES:end])
        del pending[:end]
        if kind == _IDENTIFIER:
            if body not in _IDENTIFIERS:
                raise S2Error(CORRUPT)
            self._is_begun = True
        return self._content(kind, body) if kind <= _UNCOMPRESSED else b""

    def _content(self, kind: int, body: bytes) -> bytes:
        self._checksum, data = body[:_CHECKSUM_BYTES], body[_CHECKSUM_BYTES:]
        if kind == _UNCOMPRESSED:
            if len(data) > BLOCK_BYTES_MAX:
                raise S2Error(TOO_LARGE)
            return self._checked(data)
        self._decoding = decoding(data)
        return self._decode_on(self._decoding)

    def _decode_on(self, steps: Generator[None, None, bytes]) -> bytes:
        try:
            next(steps)
        except StopIteration as end:
            self._decoding = None
            return self._checked(end.value)
        self.cost += _ELEMENTS_COST
        return b""

    def _checked(self, data: bytes) -> bytes:
        self.cost += len(data) // _BYTES_OF_COST
        if masked_checksum(data) != int.from_bytes(self._checksum, "little"):
            raise S2Error(MISMATCH)
        return data

    def _check_head(self, kind: int, size: int) -> None:
        """Refuse a frame before it is waited for."""
        if not self._is_begun and kind != _IDENTIFIER:
            raise S2Error(CORRUPT)
        if kind <= _UNCOMPRESSED:
            if size < _CHECKSUM_BYTES:
                raise S2Error(CORRUPT)
            if size > _CHECKSUM_BYTES + _encoded_max(BLOCK_BYTES_MAX):
                raise S2Error(TOO_LARGE)
        elif kind < _UNSKIPPABLE_STOP:
            raise S2Error(UNSUPPORTED)
        elif kind == _IDENTIFIER and size != len(STREAM_IDENTIFIER) - _HEAD_BYTES:
            raise S2Error(CORRUPT)


def _encoded_max(size: int) -> int:
    return size + size // 6 + 32


def decoding(block: bytes) -> Generator[None, None, bytes]:
    """Return what a block stands for, in the end; with a pause whenever that has taken a while.

    Raises:
        S2Error: it is damaged, or larger than a block may be.
    """
    size, at = _uvarint(block)
    if size > BLOCK_BYTES_MAX:
        raise S2Error(TOO_LARGE)
    try:
        return snappy.decompress(block)
    except snappy.DamagedError:  # it has repeats, or is damaged
        pass
    out, offset = bytearray(), 0
    while at < len(block):
        try:
            at, offset = _decode_some(block, at, offset, out, size)
        except IndexError:
            raise S2Error(CORRUPT) from None
        if at < len(block):
            yield
    if len(out) != size:
        raise S2Error(CORRUPT)
    return bytes(out)


def _decode_some(block: bytes, at: int, offset: int, out: bytearray, size: int) -> tuple[int, int]:
    """Decode some literals and copies from a place on; return where it ended, and the last
    offset."""
    for _ in range(_ELEMENTS_AT_ONCE):
        if at >= len(block):
            break
        tag = block[at]
        kind = tag & 3
        if kind == 0:
            length, at = _literal_length(block, at, tag >> 2)
            if at + length > len(block) or len(out) + length > size:
                raise S2Error(CORRUPT)
            out += block[at : at + length]
            at += length
            continue
        if kind == 1:
            wanted = (tag & 0xE0) << 3 | block[at + 1]
            length = tag >> 2 & 7
            at += 2
            if wanted:
                offset, length = wanted, length + 4
            else:
                length, at = _repeat_length(block, at, length)
        else:
            width = 2 if kind == 2 else 4
            length = (tag >> 2) + 1
            if at + 1 + width > len(block):
                raise S2Error(CORRUPT)
            offset = int.from_bytes(block[at + 1 : at + 1 + width], "little")
            at += 1 + width
        have = len(out)
        if not 0 < offset <= have or have + length > size:
            raise S2Error(CORRUPT)
        if length <= offset:
            out += out[have - offset : have - offset + length]
        else:  # the copy reads what it writes: the last bytes over and over
            out += (bytes(out[-offset:]) * (length // offset + 1))[:length]
    return at, offset


def _literal_length(block: bytes, at: int, code: int) -> tuple[int, int]:
    if code < 60:
        return code + 1, at + 1
    stop = at + 1 + code - 59
    if stop > len(block):
        raise S2Error(CORRUPT)
    return int.from_bytes(block[at + 1 : stop], "little") + 1, stop


def _repeat_length(block: bytes, at: int, code: int) -> tuple[int, int]:
    """Return how many bytes a repeat copies: small ones in the tag, others in 1 to 3 bytes."""
    if code < 5:
        return code + 4, at
    stop = at + code - 4
    if stop > len(block):
        raise S2Error(CORRUPT)
    return int.from_bytes(block[at:stop], "little") + (8, 260, 65540)[code - 5], stop


def _uvarint(block: bytes) -> tuple[int, int]:
    value = 0
    for at, byte in enumerate(block[:5]):
        value |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            return value, at + 1
    raise S2Error(CORRUPT)
