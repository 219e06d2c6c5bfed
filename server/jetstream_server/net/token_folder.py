"""The JWTs of accounts in a folder, one file each: `<key>.jwt`, as the genuine server keeps them.

What is saved is durable when the call returns. Such calls are rare, and made by the operator, so
they may hold up the turn. An account that is deleted is kept as `<key>.jwt.deleted`.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

from jetstream_server.base import nkey
from jetstream_server.base.errors import ConfigError
from jetstream_server.store.disk.disk import OsDisk

_SUFFIX = ".jwt"
_DELETED = ".jwt.deleted"
_UNITS_OF_FILE = 10


class TokenFolder:
    """A folder of JWTs, made if it does not exist.

    Raises:
        ConfigError: the folder cannot be used.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._disk = OsDisk()
        try:
            self._disk.make_folder(self._path)
        except OSError as error:
            raise ConfigError(f"resolver: {path} can not be used: {error.strerror}") from None

    def tokens(self) -> Generator[int, None, dict[str, str]]:
        """Return all JWTs by the keys of their accounts; give after each file what it took, in
        units of some microseconds.

        Raises:
            ConfigError: a file cannot be read.
        """
        made = {}
        try:
            for name in self._disk.names(self._path):
                key = name.removesuffix(_SUFFIX)
                if name.endswith(_SUFFIX) and nkey.is_public_key(key, nkey.ACCOUNT):
                    data = self._disk.read(self._path / name) or b""
                    made[key] = data.decode(errors="replace").strip()
                    yield _UNITS_OF_FILE
        except OSError as error:
            raise ConfigError(f"resolver: {self._path}: {error.strerror}") from None
        return made

    def save(self, key: str, token: str) -> None:
        """Keep the JWT of an account.

        Raises:
            OSError: it could not be written; what was there stays.
        """
        self._disk.replace(self._path / f"{key}{_SUFFIX}", [token.encode()])
        self._disk.sync_folder(self._path)

    def delete(self, key: str) -> None:
        """Put the JWT of an account aside, if there is one.

        Raises:
            OSError: that could not be done.
        """
        file = self._path / f"{key}{_SUFFIX}"
        if not file.exists():
            return
        file.replace(self._path / f"{key}{_DELETED}")
        self._disk.sync_folder(self._path)
