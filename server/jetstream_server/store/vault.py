"""Where an account keeps its streams: folders on disk, or nowhere.

    <store_dir>/jetstream/<account>/streams/<stream>/
        meta.json                       the stream's config
        msgs/<n>.blk, <n>.idx           its messages (`store/file.py`)
        consumers/<name>/meta.json      a consumer's config
        consumers/<name>/state          and its position

A stream or consumer exists when its `meta.json` does; anything else in a folder is a leftover of a
crash and is ignored or removed. Small files are replaced as a whole and begin with a line that
carries the CRC-32C and the length of what follows.
"""

from __future__ import annotations

from jetstream_server.store.memory import MemoryStore


class MemoryStateFile:
    """A small piece of state, kept in memory."""

    def __init__(self) -> None:
        self._data: bytes | None = None

    def load(self) -> bytes | None:
        """Return what was saved last."""
        return self._data

    def save(self, data: bytes, *, lazily: bool = False) -> None:
        """Keep it."""
        self._data = data

    def remove(self) -> None:
        """Forget it."""
        self._data = None


class MemoryFolder:
    """One stream in memory."""

    def __init__(self, first_seq: int) -> None:
        self._messages = MemoryStore(first_seq)
        self._config = MemoryStateFile()
        self._consumers: dict[str, tuple[MemoryStateFile, MemoryStateFile]] = {}

    def messages(self) -> MemoryStore:
        """Return the store; the same one each time."""
        return self._messages

    def config(self) -> MemoryStateFile:
        """Return where the stream's config is kept."""
        return self._config

    def consumer(self, name: str) -> tuple[MemoryStateFile, MemoryStateFile]:
        """Return where a consumer's config and state are kept."""
        return self._consumers.setdefault(name, (MemoryStateFile(), MemoryStateFile()))

    def consumers(self) -> list[str]:
        """Return the names of consumers with a config."""
        return sorted(n for n, files in self._consumers.items() if files[0].load() is not None)

    def remove(self) -> None:
        """Forget everything."""
        self._messages.destroy()
        self._config.remove()
        self._consumers.clear()


class MemoryVault:
    """All streams of one account, in memory."""

    def __init__(self) -> None:
        self._folders: dict[str, MemoryFolder] = {}

    def folders(self) -> list[str]:
        """Return the names of streams with a config."""
        return sorted(n for n, f in self._folders.items() if f.config().load() is not None)

    def folder(self, stream: str, *, memory: bool, first_seq: int = 0) -> MemoryFolder:
        """Return the place of one stream; a stream without a config starts afresh."""
        folder = self._folders.get(stream)
        if folder is None or folder.config().load() is None:
            folder = self._folders[stream] = MemoryFolder(first_seq)
        return folder
