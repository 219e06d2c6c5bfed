"""Where an account keeps its streams: folders on disk, or nowhere.

    <store_dir>/jetstream/<account>/streams/<stream>/
        meta.json                       the stream's config
        msgs/<n>.blk, <n>.idx           its messages (`store/file.py`)
        consumers/<name>/meta.json      a consumer's config
        consumers/<name>/state          and its position

    <store_dir>/jetstream/<account>/streams/<stream>/
        high-water.<n>                  how far the messages came (`store/blocks/high_water.py`)
        filling                         while a restore makes the stream
        unopened.json                   which version of the server trips over the stream

A new `meta.json` may stand in the journal for a while (`store/disk/journal.py`).

A stream or consumer exists when its `meta.json` does. The name of that file is durable before any
other file, so a folder with messages or positions and no `meta.json` has lost it: it is found, and
opening it reports that. A folder without either, or one that a restore did not fill completely, is
a leftover of a crash. Small files are replaced as a whole and begin with a line that carries the
CRC-32C and the length of what follows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from jetstream_server.base.errors import StoreError
from jetstream_server.kernels.record_format import Buffer
from jetstream_server.kernels.records import checksum as crc32c
from jetstream_server.store.blocks.block import BLOCK_SUFFIX
from jetstream_server.store.blocks.content_cache import ContentCache
from jetstream_server.store.blocks.high_water import HIGH_WATER_NAME
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.disk import REMOVED_PREFIX, Disk
from jetstream_server.store.disk.folder_name import from_name, to_name
from jetstream_server.store.disk.owner import Owner
from jetstream_server.store.disk.state_log import StateLog
from jetstream_server.store.file import BLOCK_BYTES, FileStore
from jetstream_server.store.memory import MemoryStore

CONFIG_NAME = "meta.json"
CONSUMERS_NAME = "consumers"
STATE_NAME = "state"
MESSAGES_NAME = "msgs"
FILLING_NAME = "filling"
UNOPENED_NAME = "unopened.json"


class MemoryStateFile:
    """A small piece of state, kept in memory."""

    damage = ""

    def __init__(self) -> None:
        self._parts: tuple[Buffer, ...] | None = None

    def load(self) -> bytes | None:
        """Return what was saved last."""
        return None if self._parts is None else b"".join(self._parts)

    def save(self, *parts: Buffer, lazily: bool = False) -> None:
        """Keep it."""
        self._parts = parts

    def remove(self) -> None:
        """Forget it."""
        self._parts = None


class MemoryFolder:
    """One stream in memory."""

    def __init__(self, first_seq: int) -> None:
        self._messages = MemoryStore(first_seq)
        self._config = MemoryStateFile()
        self._sources = MemoryStateFile()
        self._unopened = MemoryStateFile()
        self._consumers: dict[str, tuple[MemoryStateFile, MemoryStateFile]] = {}

    def messages(self) -> MemoryStore:
        """Return the store; the same one each time."""
        return self._messages

    def config(self) -> MemoryStateFile:
        """Return where the stream's config is kept."""
        return self._config

    def sources(self) -> MemoryStateFile:
        """Return where the progress of the stream's sources is kept."""
        return self._sources

    def unopened(self) -> MemoryStateFile:
        """Return where it is kept which version of the server cannot open the stream."""
        return self._unopened

    def consumer(self, name: str) -> tuple[MemoryStateFile, MemoryStateFile]:
        """Return where a consumer's config and state are kept."""
        return self._consumers.setdefault(name, (MemoryStateFile(), MemoryStateFile()))

    def consumers(self) -> list[str]:
        """Return the names of consumers with a config."""
        return sorted(n for n, files in self._consumers.items() if files[0].load() is not None)

    def begin_filling(self) -> None:
        """Do nothing: nothing is left of it after a crash anyway."""

    def end_filling(self) -> None:
        """Do nothing: nothing is left of it after a crash anyway."""

    @property
    def is_in_place(self) -> bool:
        """Return True: nothing waits for a disk."""
        return True

    def remove(self) -> None:
        """Forget everything."""
        self._messages.destroy()
        self._config.remove()
        self._sources.remove()
        self._unopened.remove()
        self._consumers.clear()


class MemoryVault:
    """All streams of one account, in memory."""

    def __init__(self) -> None:
        self._folders: dict[str, MemoryFolder] = {}

    @property
    def full(self) -> str:
        """Return "": there is no disk that could be full."""
        return ""

    def folders(self) -> list[str]:
        """Return the names of streams with a config."""
        return sorted(n for n, f in self._folders.items() if f.config().load() is not None)

    def folder(self, stream: str, *, memory: bool, first_seq: int = 0) -> MemoryFolder:
        """Return the place of one stream; a stream without a config starts afresh."""
        folder = self._folders.get(stream)
        if folder is None or folder.config().load() is None:
            folder = self._folders[stream] = MemoryFolder(first_seq)
        return folder


class FileStateFile:
    """A small file, replaced as a whole."""

    damage = ""  # it is whole, or `load` raises

    def __init__(
        self, path: Path, commit: GroupCommit, owner: FileFolder, *, takes_folder: bool = False
    ) -> None:
        self._path = path
        self._commit = commit
        self._owner = owner
        self._takes_folder = takes_folder  # a consumer's folder goes with its config

    def load(self) -> bytes | None:
        """Return what was saved last, whether or not it is on disk yet."""
        try:
            stored = self._commit.queued(self._path)
            if stored is None:
                if self._commit.is_removed(self._path):
                    return None
                stored = self._commit.disk.read(self._path)
        except OSError as error:
            raise StoreError(f"read failed: {error.strerror}", str(self._path)) from error
        return None if stored is None else unwrap(bytes(stored), self._path)

    def save(self, *parts: Buffer, lazily: bool = False) -> None:
        """Queue a replacement."""
        content = [wrap(b"".join(parts))]
        self._commit.replace(self._owner, self._path, content, lazily=lazily, in_journal=True)

    def remove(self) -> None:
        """Queue the removal."""
        if self._takes_folder:
            self._commit.remove_tree(self._owner, self._path.parent)
        else:
            self._commit.remove(self._owner, self._path)


def wrap(data: bytes) -> bytes:
    """Return the content of a file: a line with checksum and length, then the data."""
    return b"crc32c %08x %d\n%b" % (crc32c(data), len(data), data)


def unwrap(stored: bytes, path: Path) -> bytes:
    """Return the data in a file.

    Raises:
        StoreError: checksum or length do not fit.
    """
    line, _, data = stored.partition(b"\n")
    if line != b"crc32c %08x %d" % (crc32c(data), len(data)):
        raise StoreError("the file is damaged: its checksum does not fit", str(path), 0)
    return data


class FileFolder:
    """One stream on disk; owner of everything in its folder but the messages."""

    def __init__(
        self,
        path: Path,
        commit: GroupCommit,
        cache: ContentCache,
        *,
        first_seq: int,
        is_fresh: bool,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self._path = path
        self._commit = commit
        self._cache = cache
        self._block_bytes = block_bytes
        self._first_seq = first_seq
        self._is_fresh = is_fresh
        self._messages: FileStore | None = None
        self._failure: StoreError | None = None

    def messages(self) -> FileStore:
        """Return the store, opened by the first call."""
        if self._messages is None:
            self._messages = FileStore(
                self._path / MESSAGES_NAME,
                self._commit,
                self._cache,
                first_seq=self._first_seq,
                is_fresh=self._is_fresh,
                block_bytes=self._block_bytes,
            )
            if self._failure is not None:
                self._messages.failed(self._failure)
        return self._messages

    def config(self) -> FileStateFile:
        """Return the file of the stream's config."""
        return FileStateFile(self._path / CONFIG_NAME, self._commit, self)

    def sources(self) -> StateLog:
        """Return the file of how far the stream's sources came."""
        return StateLog(self._path / "sources" / STATE_NAME, self._commit, self)

    def unopened(self) -> FileStateFile:
        """Return the file that says which version of the server cannot open the stream."""
        return FileStateFile(self._path / UNOPENED_NAME, self._commit, self)

    def consumer(self, name: str) -> tuple[FileStateFile, StateLog]:
        """Return the files of one consumer."""
        folder = self._path / CONSUMERS_NAME / to_name(name)
        return (
            FileStateFile(folder / CONFIG_NAME, self._commit, self, takes_folder=True),
            StateLog(folder / STATE_NAME, self._commit, self),
        )

    def consumers(self) -> list[str]:
        """Return the names of consumers, including those that lost their config; for recovery.

        Raises:
            StoreError: what is there could not be made durable.
        """
        if self._is_fresh or self._commit.is_removed(self._path):
            return []
        path = self._path / CONSUMERS_NAME
        _clear_removed(path, self._commit, self)
        names = _existing(path, self._commit, _is_consumer)
        folders = [self._path, path, *(path / to_name(name) for name in names)]
        _make_durable(folders, self._commit.disk)
        return names

    def begin_filling(self) -> None:
        """From now on, until `end_filling`, a crash makes what is stored a leftover."""
        self._commit.replace(self, self._path / FILLING_NAME, [b""])

    def end_filling(self) -> None:
        """Note that the config is saved: from now on it is a stream."""
        self._commit.remove(self, self._path / FILLING_NAME, waits=True)

    @property
    def is_in_place(self) -> bool:
        """Tell whether the disk has everything that was queued for the folder."""
        return not self._commit.holds(self._path)

    def remove(self) -> None:
        """Queue the removal of the whole folder."""
        if self._messages is not None:
            self._messages.destroy()
        self._commit.remove_tree(self, self._path)

    def flushed(self) -> None:
        """Do nothing: all is well."""

    def stalled(self, error: StoreError) -> None:
        """Small files wait for space like everything else; replies wait with them."""

    def failed(self, error: StoreError) -> None:
        """A config or position could not be written: the stream cannot be trusted to go on."""
        self._failure = error
        if self._messages is not None:
            self._messages.failed(error)


class FileVault:
    """All streams of one account; those kept in memory included.

    Args:
        root: the folder of all accounts (`StoreFolder.path`).
        account: name of the account.
        commit: the queue to the disk.
        disk: where it lives.
        block_bytes: when a block of messages is full.
    """

    def __init__(
        self,
        root: Path,
        account: str,
        commit: GroupCommit,
        disk: Disk,
        *,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self._path = root / to_name(account) / "streams"
        self._commit = commit
        self._cache = ContentCache(disk)
        self._block_bytes = block_bytes
        self._memory = MemoryVault()

    @property
    def full(self) -> str:
        """Return why stores take no messages for the time being."""
        return self._commit.full.reason if self._commit.full is not None else ""

    def folders(self) -> list[str]:
        """Return the names of streams on disk, including those that lost their config; for
        recovery.

        Raises:
            StoreError: what is there could not be made durable.
        """
        account = self._path.parent
        _make_durable([account.parent, account, self._path], self._commit.disk)
        remover = FileFolder(self._path, self._commit, self._cache, first_seq=0, is_fresh=True)
        _clear_removed(self._path, self._commit, remover)
        return _existing(self._path, self._commit, _is_stream)

    def folder(self, stream: str, *, memory: bool, first_seq: int = 0) -> FileFolder | MemoryFolder:
        """Return the place of one stream; a leftover of a crash there is removed.

        Raises:
            StoreError: the name is too long for a folder, or the folder cannot be looked into.
        """
        if memory:
            return self._memory.folder(stream, memory=True, first_seq=first_seq)
        path = self._path / to_name(stream)
        commit = self._commit
        try:
            names = [] if commit.is_removed(path) else commit.names(path)
            is_known = bool(names) and _is_stream(path, commit)
        except OSError as error:
            raise StoreError(f"cannot list: {error.strerror}", str(path)) from error
        is_known = is_known or commit.queued(path / CONFIG_NAME) is not None
        if not is_known and names:
            leftover = FileFolder(path, commit, self._cache, first_seq=0, is_fresh=True)
            commit.remove_tree(leftover, path)
        return FileFolder(
            path,
            commit,
            self._cache,
            first_seq=first_seq,
            is_fresh=not is_known,
            block_bytes=self._block_bytes,
        )


def _existing(
    path: Path, commit: GroupCommit, exists: Callable[[Path, GroupCommit], bool]
) -> list[str]:
    found = [
        from_name(name)
        for name in commit.names(path)
        if not name.startswith(".")
        and exists(path / name, commit)
        and not commit.is_removed(path / name / CONFIG_NAME)
    ]
    return sorted(found)


def _is_stream(path: Path, commit: GroupCommit) -> bool:
    """Tell whether a folder is that of a stream, even if its config is lost."""
    names = commit.names(path)
    if CONFIG_NAME in names:
        return True
    if FILLING_NAME in names or from_name(path.name).startswith("."):
        return False
    if any(name.startswith(f"{HIGH_WATER_NAME}.") for name in names):
        return True
    if any(name.endswith(BLOCK_SUFFIX) for name in commit.disk.names(path / MESSAGES_NAME)):
        return True
    return bool(_existing(path / CONSUMERS_NAME, commit, _is_consumer))


def _is_consumer(path: Path, commit: GroupCommit) -> bool:
    """Tell whether a folder is that of a consumer, even if its config is lost."""
    names = commit.names(path)
    return CONFIG_NAME in names or any(name.startswith(f"{STATE_NAME}.") for name in names)


def _clear_removed(path: Path, commit: GroupCommit, owner: Owner) -> None:
    """Go on with the removals that an earlier process began."""
    for name in commit.disk.names(path):
        if name.startswith(REMOVED_PREFIX):
            commit.clear(owner, path / name)


def _make_durable(folders: list[Path], disk: Disk) -> None:
    """Sync names that an earlier process may have made or removed and not synced.

    From now on clients are told what exists and what does not without a flush, as a request for
    something that exists changes nothing.
    """
    for path in folders:
        try:
            disk.sync_folder(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StoreError(f"sync failed: {error.strerror}", str(path)) from error
