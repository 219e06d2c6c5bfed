"""The folder of a whole server: who may use it, and which version wrote it.

    <store_dir>/jetstream/lock          held while a server runs
    <store_dir>/jetstream/format.json   {"format": 2, ...}: what reads the rest; with a checksum, as
                                        a damaged one is no reason not to start
    <store_dir>/jetstream/journal-0, journal-1  while configs are on their way to their files
                                        (`store/disk/journal.py`)
    <store_dir>/jetstream/encryption.json   when the streams are encrypted (`store/disk/keyring.py`)

The genuine server uses the same `<store_dir>/jetstream`, with other files in it (`meta.inf` beside
every stream). Neither can read the other's files, so a folder that it made is refused rather than
mixed up.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from jetstream_server.base.errors import StoreError
from jetstream_server.kernels.records import checksum as crc32c
from jetstream_server.store.disk.disk import Disk
from jetstream_server.store.disk.folder_name import from_name

FORMAT = 2  # with a journal, without which the newest streams would not be found
FORMAT_NAME = "format.json"
LOCK_NAME = "lock"
ENCRYPTION_NAME = "encryption.json"  # only of encrypted streams (`store/disk/keyring.py`)
GENUINE_NAME = "meta.inf"


class StoreFolder:
    """A locked and checked `<store_dir>/jetstream`.

    Attributes:
        path: where accounts have their folders.
        note: what was put right, for the operator's log; empty when nothing was.
    """

    def __init__(self, path: Path, disk: Disk, lock: Any, note: str = "") -> None:
        self.path = path
        self.note = note
        self._disk = disk
        self._lock = lock

    def accounts(self) -> list[str]:
        """Return the names of accounts with streams."""
        names = self._disk.names(self.path)
        return [from_name(name) for name in names if self._disk.names(self.path / name / "streams")]

    def release(self) -> None:
        """Give up the lock."""
        if self._lock is not None:
            self._disk.unlock(self._lock)
            self._lock = None


def open_folder(store_dir: Path, disk: Disk, *, note: str = "") -> StoreFolder:
    """Lock a store directory and check that this version can read it.

    Args:
        store_dir: as configured; `jetstream` is made in it.
        disk: where it lives.
        note: written into the lock file, to say who holds it.

    Raises:
        StoreError: another server uses it, it is from a newer version or of another server's
            making, or it cannot be written to.
    """
    path = store_dir / "jetstream"
    try:
        _refuse_genuine(path, disk)
        disk.make_folder(path)
        disk.sync_folder(store_dir)  # the process that made it may have ended before that
        lock = disk.lock(path / LOCK_NAME, note.encode())
        if lock is None:
            holder = (disk.read(path / LOCK_NAME) or b"").decode(errors="replace").strip()
            by = f" ({holder})" if holder else ""
            raise StoreError(
                f"another server{by} is using this store directory; stop it, or set another one",
                str(store_dir),
            )
        try:
            said = _check_format(path / FORMAT_NAME, disk)
        except BaseException:
            disk.unlock(lock)
            raise
    except (FileExistsError, NotADirectoryError) as error:
        raise StoreError(
            "Can't start JetStream: storage directory is not a directory", str(path)
        ) from error
    except OSError as error:
        reason = f"the store directory cannot be used: {error.strerror or error}"
        raise StoreError(reason, str(error.filename or store_dir)) from error
    return StoreFolder(path, disk, lock, said)


def encode_format(version: int) -> bytes:
    """Return the content of a format file."""
    fields = {"format": version, "by": "jetstream-spark"}
    return orjson.dumps(fields | {"crc32c": _format_check(fields)}) + b"\n"


def _format_check(fields: dict[str, Any]) -> str:
    return f"{crc32c(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)):08x}"


def _check_format(path: Path, disk: Disk) -> str:
    """Refuse a folder made by a newer version; write the file again if it is missing or damaged.

    Returns:
        What was wrong with it, empty when nothing was.
    """
    stored, sound = disk.read(path), encode_format(FORMAT)
    if stored == sound:
        return ""
    version = _decode_format(stored or b"")
    if version is not None and version > FORMAT:
        raise StoreError(
            f"the store directory has format {version}, made by a newer version;"
            f" this one reads up to format {FORMAT}",
            str(path),
        )
    disk.replace(path, [sound])
    disk.sync_folder(path.parent)
    return f"{path} was damaged and is written anew" if stored is not None and not version else ""


def _decode_format(stored: bytes) -> int | None:
    """Return the version in a format file, None when it is damaged.

    The first version did not write a checksum.
    """
    try:
        fields = orjson.loads(stored)
        version = fields["format"]
        check = fields.pop("crc32c", None)
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return None
    is_sound = version == 1 if check is None else check == _format_check(fields)
    return version if is_sound and type(version) is int else None


def _refuse_genuine(path: Path, disk: Disk) -> None:
    """Look for `<account>/streams/<stream>/meta.inf` where no format file says it is ours."""
    if disk.read(path / FORMAT_NAME) is not None:
        return
    for account in disk.names(path):
        streams = path / account / "streams"
        for stream in disk.names(streams):
            if GENUINE_NAME in disk.names(streams / stream):
                raise StoreError(
                    "this store directory was written by nats-server, whose files are not read;"
                    " set another one, and copy streams over with a mirror or a source",
                    str(streams / stream / GENUINE_NAME),
                )
