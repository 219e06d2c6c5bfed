"""A disk that encrypts the content of every file on its way to another one.

The store above sees what it wrote, at the places where it wrote it. One write, which is one flushed
range, becomes one *frame*; a file that is replaced as a whole has one frame.

    file      8 bytes magic, the last one of which names the cipher; 24 bytes salt; frames
    frame     8 bytes mark; u64 place in the content; u32 bytes; 12 bytes nonce; ciphertext with
              a 16-byte tag over that, the place, the length and the name of the file

Key and mark of a file come from the key of its stream and the salt, so the mark cannot be found or
forged without the key. Nonces are random, so none is used twice, even when a range is written again
after a full disk or a torn file is continued.

Reading puts the frames in their places, later ones over earlier ones. A frame that is torn or
damaged is skipped up to the next mark; what it should have filled reads as zeros, which no checksum
above accepts. So recovery finds the same tears and the same damage, at the same places, as without
encryption.

File names are not encrypted: they show the names of streams and consumers.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any

from cryptography.exceptions import InvalidTag

from jetstream_server.kernels.record_format import Buffer
from jetstream_server.store.disk.disk import Disk, Replacement, Sync
from jetstream_server.store.disk.keyring import CIPHERS, NONCE_BYTES, SALT_BYTES, Aead, Keyring

_MAGICS = {"chacha": b"JSCRYPTC", "aes": b"JSCRYPTA"}
_CIPHER_OF = {magic: cipher for cipher, magic in _MAGICS.items()}
_MAGIC_BYTES = 8
HEADER_BYTES = _MAGIC_BYTES + SALT_BYTES
_MARK_BYTES = 8
_PLACE = Struct("<QI")
FRAME_BYTES = _MARK_BYTES + _PLACE.size + NONCE_BYTES
_TAG_BYTES = 16
# Decrypted blocks stay in memory as long as they are in the cache, so encrypted ones are smaller,
# as they are in the genuine server.
ENCRYPTED_BLOCK_BYTES = 2 * 1024 * 1024


@dataclass(slots=True, eq=False)
class _FileCipher:
    """What encrypts and decrypts one file."""

    header: bytes
    aead: Aead
    mark: bytes
    name: bytes

    def frame(self, data: bytes | memoryview, offset: int) -> bytes:
        """Return a frame."""
        nonce = os.urandom(NONCE_BYTES)
        place = _PLACE.pack(offset, len(data))
        ciphertext = self.aead.encrypt(nonce, data, place + self.name)
        return b"".join((self.mark, place, nonce, ciphertext))

    def place(self, raw: Buffer, at: int) -> tuple[int, int, int] | None:
        """Return place, length and end of the frame at `at`, None when there is no whole one."""
        if at + FRAME_BYTES > len(raw) or bytes(raw[at : at + _MARK_BYTES]) != self.mark:
            return None
        offset, length = _PLACE.unpack_from(raw, at + _MARK_BYTES)
        end = at + FRAME_BYTES + length + _TAG_BYTES
        return (offset, length, end) if end <= len(raw) else None

    def open(self, raw: Buffer, at: int, end: int) -> bytes | None:
        """Return what is in the frame at [at, end), None when it is damaged."""
        nonce_at = at + _MARK_BYTES + _PLACE.size
        place = bytes(raw[at + _MARK_BYTES : nonce_at])
        nonce = bytes(raw[nonce_at : at + FRAME_BYTES])
        try:
            return self.aead.decrypt(nonce, bytes(raw[at + FRAME_BYTES : end]), place + self.name)
        except InvalidTag:
            return None


@dataclass(slots=True, eq=False)
class _Handle:
    """An open file.

    Attributes:
        handle: of the disk below.
        cipher: of the file.
        end: where the next frame goes; 0 before the header is written.
        size: bytes of content.
    """

    handle: Any
    cipher: _FileCipher
    end: int
    size: int


class CipherDisk:
    """Encrypts what is written to the folders of streams.

    Args:
        disk: where the encrypted files live.
        keyring: the keys.
    """

    def __init__(self, disk: Disk, keyring: Keyring) -> None:
        self._disk = disk
        self._keyring = keyring

    # -- content ---------------------------------------------------------------------------

    def open(self, path: Path) -> tuple[_Handle, bool]:
        """Open for writing, making the file if need be."""
        fresh = self._fresh_cipher(path)  # the key is there before anything that needs it
        handle, made = self._disk.open(path)
        try:
            raw = b"" if made else self._disk.map(path)
            if len(raw) < HEADER_BYTES:
                # The header comes with the first frame: if writing it failed here, the next to open
                # the file would not learn that its name is new, and would not make it durable.
                return _Handle(handle, fresh, 0, 0), made
            cipher = self._known_cipher(path, raw)
            if cipher is None:
                raise OSError(errno.EIO, "the file is not encrypted or damaged", str(path))
            return _Handle(handle, cipher, len(raw), _content_bytes(raw, cipher)), made
        except OSError:
            self._disk.close(handle)
            raise

    def write(self, handle: _Handle, data: memoryview, offset: int) -> None:
        """Write a frame; one that failed is overwritten by the next."""
        frame = handle.cipher.frame(data, offset)
        if not handle.end:
            frame = handle.cipher.header + frame
        self._disk.write(handle.handle, memoryview(frame), handle.end)
        handle.end += len(frame)
        handle.size = max(handle.size, offset + len(data))

    def sync(self, handle: _Handle) -> None:
        """Sync the file below."""
        self._disk.sync(handle.handle)

    def descriptor(self, handle: _Handle) -> int | None:
        """Return None: what is written is encrypted."""
        return None

    def close(self, handle: _Handle) -> None:
        """Give the handle back."""
        self._disk.close(handle.handle)

    def replace(self, path: Path, parts: Sequence[Buffer]) -> None:
        """Put a whole new content in place."""
        self._disk.replace(path, [self.as_stored(path, parts)])

    def prepare(self, path: Path, parts: Sequence[Buffer]) -> Replacement:
        """Write what is to be put in place."""
        return self._disk.prepare(path, [self.as_stored(path, parts)])

    def as_stored(self, path: Path, parts: Sequence[Buffer]) -> bytes:
        """Return header and frame of a whole new content."""
        cipher = self._fresh_cipher(path)
        return cipher.header + cipher.frame(b"".join(parts), 0)

    def content_of(self, path: Path, raw: bytes) -> bytes:
        """Return the content of a file."""
        cipher = self._known_cipher(path, raw)
        return _assemble(raw, cipher) if cipher is not None else bytes(len(raw))

    def truncate(self, path: Path, size: int) -> None:
        """Cut the content; the file is written again."""
        content = self.read(path)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        self.replace(path, [content[:size]])
        self._disk.sync_folder(path.parent)

    def overwrite(self, path: Path, offset: int, head: bytes, stop: int) -> None:
        """Write the file again under another key, and destroy the salt that the old one came
        from."""
        content = bytearray(self.map(path))
        content[offset:stop] = head.ljust(stop - offset, b"\0")
        old, _ = self._disk.open(path)
        try:
            self.replace(path, [content])
            self._disk.sync_folder(path.parent)
            self._disk.write(old, memoryview(bytes(HEADER_BYTES)), 0)
            self._disk.sync(old)
        finally:
            self._disk.close(old)

    def read(self, path: Path) -> bytes | None:
        """Return the whole content, None when there is no such file."""
        raw = self._disk.read(path)
        return None if raw is None else self.content_of(path, raw)

    def map(self, path: Path) -> bytes:
        """Return the whole content."""
        content = self.read(path)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return content

    def size(self, path: Path) -> int:
        """Return the number of bytes of content, without decrypting it."""
        raw = self._disk.map(path)
        cipher = self._known_cipher(path, raw)
        return _content_bytes(raw, cipher) if cipher is not None else len(raw)

    def _known_cipher(self, path: Path, raw: Buffer) -> _FileCipher | None:
        """Return the cipher of an existing file, None when its header is not sound."""
        header = bytes(raw[:HEADER_BYTES])
        algorithm = _CIPHER_OF.get(header[:_MAGIC_BYTES])
        if algorithm is None or len(header) < HEADER_BYTES:
            return None
        folder = self._keyring.folder(path)
        key = self._keyring.stream_key(folder, makes=False)
        return _make_cipher(key, header, algorithm, path.relative_to(folder))

    def _fresh_cipher(self, path: Path) -> _FileCipher:
        folder, algorithm = self._keyring.folder(path), self._keyring.cipher
        key = self._keyring.stream_key(folder, makes=True)
        header = _MAGICS[algorithm] + os.urandom(SALT_BYTES)
        return _make_cipher(key, header, algorithm, path.relative_to(folder))

    # -- names -----------------------------------------------------------------------------

    def names(self, path: Path) -> list[str]:
        """List a folder."""
        return self._disk.names(path)

    def make_folder(self, path: Path) -> None:
        """Make a folder."""
        self._disk.make_folder(path)

    def add_folder(self, path: Path) -> list[Path]:
        """Make a folder that is yet to be synced."""
        return self._disk.add_folder(path)

    def sync_folder(self, path: Path) -> None:
        """Sync a folder."""
        self._disk.sync_folder(path)

    def together(self, syncs: Sequence[Sync]) -> list[OSError | None]:
        """Carry out several syncs."""
        return self._disk.together(syncs)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        self._disk.remove(path)

    def set_aside(self, path: Path) -> Path | None:
        """Take a folder out of the way; the key of a stream goes with it."""
        self._keyring.forget(path)
        return self._disk.set_aside(path)

    def clear(self, path: Path, files_max: int) -> int:
        """Remove some files of a folder."""
        return self._disk.clear(path, files_max)

    def lock(self, path: Path, note: bytes) -> Any | None:
        """Take a lock."""
        return self._disk.lock(path, note)

    def unlock(self, lock: Any) -> None:
        """Give a lock back."""
        self._disk.unlock(lock)


def _make_cipher(key: bytes, header: bytes, algorithm: str, name: Path) -> _FileCipher:
    derived = hashlib.blake2b(header, key=key, person=b"jetstream file").digest()
    mark = derived[32 : 32 + _MARK_BYTES]
    return _FileCipher(header, CIPHERS[algorithm](derived[:32]), mark, str(name).encode())


def _assemble(raw: bytes, cipher: _FileCipher) -> bytes:
    """Return the content of a file."""
    content = bytearray()
    at = HEADER_BYTES
    while at < len(raw):
        found = cipher.place(raw, at)
        data = cipher.open(raw, at, found[2]) if found is not None else None
        if found is not None and data is not None:
            offset, length, at = found
            content.extend(bytes(max(offset - len(content), 0)))
            content[offset : offset + length] = data
            continue
        following = raw.find(cipher.mark, at + 1)
        if following < 0:
            content.extend(bytes(len(raw) - at))  # recovery is to see a torn tail
            break
        at = following
    return bytes(content)


def _content_bytes(raw: Buffer, cipher: _FileCipher) -> int:
    """Return how large the content of a file is according to its frames."""
    size, at = 0, HEADER_BYTES
    while at < len(raw):
        found = cipher.place(raw, at)
        if found is not None:
            size, at = max(size, found[0] + found[1]), found[2]
            continue
        following = bytes(raw[at:]).find(cipher.mark, 1)
        if following < 0:
            return size + len(raw) - at
        at += following
    return size
