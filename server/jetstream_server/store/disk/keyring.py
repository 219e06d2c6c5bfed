"""The keys of an encrypted store directory.

    <store_dir>/jetstream/encryption.json     the master key, wrapped by the operator's key
    .../streams/<stream>/key                  the stream's key, wrapped by the master key

The operator's key may be a passphrase: scrypt derives the wrapping key from it. Changing it rewraps
one small file. A stream is removed with its key, so nobody can read what a disk still holds of its
blocks.

Randomness comes from the operating system: this module, like `disk.py`, is where the server meets
it.
"""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from jetstream_server.base.errors import StoreError
from jetstream_server.store.disk.disk import Disk
from jetstream_server.store.disk.store_folder import ENCRYPTION_NAME

KEY_NAME = "key"
KEY_BYTES = 32
NONCE_BYTES = 12
SALT_BYTES = 24

Aead = AESGCM | ChaCha20Poly1305
CIPHERS: dict[str, type[AESGCM] | type[ChaCha20Poly1305]] = {
    "chacha": ChaCha20Poly1305,
    "aes": AESGCM,
}

_MASTER = b"jetstream master key"
# About 50 ms and 16 MiB, once per start: expensive for guessing, cheap for us.
_SCRYPT = {"n": 2**14, "r": 8, "p": 1}


class Keyring:
    """The keys of the streams in one store directory.

    Args:
        root: `<store_dir>/jetstream`.
        disk: where it lives; not an encrypting one.
        master: the master key.
        cipher: what new files are encrypted with, of `CIPHERS`.
    """

    def __init__(self, root: Path, disk: Disk, master: bytes, cipher: str) -> None:
        self.cipher = cipher
        self._root = root
        self._disk = disk
        self._wrap = ChaCha20Poly1305(master)
        self._keys: dict[Path, bytes] = {}
        self._durable: set[Path] = set()  # the folders in which the name of the key is durable

    def folder(self, path: Path) -> Path:
        """Return the folder of the stream that a file belongs to."""
        account, streams, stream, *_ = path.relative_to(self._root).parts
        return self._root / account / streams / stream

    def stream_key(self, folder: Path, *, makes: bool) -> bytes:
        """Return the key of a stream.

        Args:
            folder: of the stream.
            makes: something is to be written with it, so it has to be there after a power cut.

        Raises:
            OSError: it is not there (and is not to be made), is damaged, or cannot be written.
        """
        key = self._keys.get(folder)
        if key is None:
            key = self._load(folder) or (self._make(folder) if makes else None)
            if key is None:
                raise OSError(errno.EIO, "the key of the stream is missing", str(folder / KEY_NAME))
            self._keys[folder] = key
        if makes and folder not in self._durable:
            # Also of one that is there: whoever made it may have ended, or found no room, before.
            self._disk.sync_folder(folder)
            self._durable.add(folder)
        return key

    def forget(self, path: Path) -> None:
        """Forget the keys of streams in a folder that is removed."""
        for folder in [folder for folder in self._keys if folder.is_relative_to(path)]:
            del self._keys[folder]
            self._durable.discard(folder)

    def _load(self, folder: Path) -> bytes | None:
        stored = self._disk.read(folder / KEY_NAME)
        if stored is None:
            return None
        try:
            return _unwrap(self._wrap, stored, self._name(folder))
        except InvalidTag:
            path = str(folder / KEY_NAME)
            raise OSError(errno.EIO, "the key of the stream is damaged", path) from None

    def _make(self, folder: Path) -> bytes:
        key = os.urandom(KEY_BYTES)
        self._disk.make_folder(folder)
        self._disk.replace(folder / KEY_NAME, [_wrapped(self._wrap, key, self._name(folder))])
        return key

    def _name(self, folder: Path) -> bytes:
        return str(folder.relative_to(self._root)).encode()


def open_keyring(
    root: Path, disk: Disk, key: str, *, previous_key: str = "", cipher: str = "chacha"
) -> Keyring:
    """Return the keys of a store directory; one without streams becomes encrypted.

    Args:
        root: `<store_dir>/jetstream`, locked.
        disk: where it lives.
        key: the operator's; an empty one is always wrong.
        previous_key: the key before that; the master key is then rewrapped with `key`.
        cipher: what new files are encrypted with, of `CIPHERS`.

    Raises:
        StoreError: the key does not open it; or it holds streams that are not encrypted.
    """
    path = root / ENCRYPTION_NAME
    try:
        stored = disk.read(path)
        if stored is not None:
            master = _open(stored, path, disk, key, previous_key)
            disk.sync_folder(root)  # whoever wrote it may have ended before that
        else:
            _refuse_plain(root, disk)
            master = os.urandom(KEY_BYTES)
            _save(path, disk, key, master)
    except OSError as error:
        raise StoreError(f"the key cannot be used: {error.strerror or error}", str(path)) from error
    return Keyring(root, disk, master, cipher)


def _open(stored: bytes, path: Path, disk: Disk, key: str, previous_key: str) -> bytes:
    if not key:
        raise StoreError(
            "this store directory is encrypted; set `encryption_key` in the jetstream block",
            str(path),
        )
    try:
        fields = orjson.loads(stored)
        salt, wrapped = bytes.fromhex(fields["salt"]), bytes.fromhex(fields["master_key"])
    except (ValueError, KeyError, TypeError):
        raise StoreError("the file is damaged; restore it from a backup", str(path)) from None
    for candidate in filter(None, (key, previous_key)):
        try:
            master = _unwrap(_wrapping(candidate, salt), wrapped, _MASTER)
        except InvalidTag:
            continue
        if candidate is not key:
            _save(path, disk, key, master)
        return master
    raise StoreError(
        "the encryption key is not the one of this store directory; set `encryption_key` to that"
        " one, or to a new one and `prev_encryption_key` to that one",
        str(path),
    )


def _save(path: Path, disk: Disk, key: str, master: bytes) -> None:
    salt = os.urandom(SALT_BYTES)
    wrapped = _wrapped(_wrapping(key, salt), master, _MASTER)
    content = {"kdf": "scrypt", **_SCRYPT, "salt": salt.hex(), "master_key": wrapped.hex()}
    disk.replace(path, [orjson.dumps(content) + b"\n"])
    disk.sync_folder(path.parent)


def _refuse_plain(root: Path, disk: Disk) -> None:
    for account in disk.names(root):
        if streams := disk.names(root / account / "streams"):
            folder = root / account / "streams" / streams[0]
            if KEY_NAME in disk.names(folder):
                raise StoreError(
                    "the file with the key of all streams is missing; restore it from a backup",
                    str(root / ENCRYPTION_NAME),
                )
            raise StoreError(
                "this store directory holds streams that are not encrypted; set another one, and"
                " copy streams over with a backup, a mirror or a source",
                str(folder),
            )


def _wrapping(key: str, salt: bytes) -> ChaCha20Poly1305:
    made = hashlib.scrypt(
        key.encode(), salt=salt, n=_SCRYPT["n"], r=_SCRYPT["r"], p=_SCRYPT["p"], dklen=KEY_BYTES
    )
    return ChaCha20Poly1305(made)


def _wrapped(aead: ChaCha20Poly1305, key: bytes, name: bytes) -> bytes:
    nonce = os.urandom(NONCE_BYTES)
    return nonce + aead.encrypt(nonce, key, name)


def _unwrap(aead: ChaCha20Poly1305, wrapped: bytes, name: bytes) -> bytes:
    if len(wrapped) < NONCE_BYTES:
        raise InvalidTag
    return aead.decrypt(wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], name)
