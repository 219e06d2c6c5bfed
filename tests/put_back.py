"""A server whose files are put back from a copy, as after a disk was lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jetstream_spark.embedded import JetStreamServer
from tests.ports import free_port


class Place:
    """One server of its own, always at the same address.

    Args:
        kind: `genuine` or `bundled`.
        folder: an empty one.
        fixture: gives fixtures by their names.
    """

    def __init__(self, kind: str, folder: Path, fixture: Callable[[str], Any]) -> None:
        self.kind = kind
        self._copy = folder / "copy"
        if kind == "genuine":
            self._server = fixture("start_genuine")()
            self._folder = self._server.folder
        else:
            self._folder = folder / "store"
            self._server = JetStreamServer(self._folder, free_port()).start()
        self.url = self._server.url

    def stop(self) -> None:
        """Stop it in order."""
        if self.kind == "genuine":
            self._server.process.terminate()
            self._server.process.wait()
        else:
            self._server.stop()

    def start(self) -> None:
        """Start it again."""
        if self.kind == "bundled":
            self._server = JetStreamServer(self._folder, int(self.url.rpartition(":")[2]))
        self._server.start()

    def take_copy(self) -> None:
        """Copy its files while it does not run."""
        self.stop()
        shutil.copytree(self._folder, self._copy)
        self.start()

    def put_back(self) -> None:
        """Have it go on with the copy."""
        self.stop()
        shutil.rmtree(self._folder)
        shutil.copytree(self._copy, self._folder)
        self.start()
