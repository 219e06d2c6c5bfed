"""Whether a store still serves, and if not, why.

A store goes offline for good: when its disk failed, or when what it reads turns out to be damaged.
Damage is noted in a file beside the blocks as well, so that a restart does not serve the stream
again until they are sound.
"""

from __future__ import annotations

from pathlib import Path

from jetstream_server.base.errors import StoreError
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.owner import Owner

# Left behind by a store that met damage: the next one looks at every block before it serves.
DAMAGED_NAME = "damaged"

# Made by the operator among the blocks: what is lost is lost.
ACCEPT_NAME = "accept-loss"
REMEDY = (
    "to have it served again, put the file back from a backup, or delete the stream, or make a file"
    f" `{ACCEPT_NAME}` beside it to go on with what is left; then start again"
)


class Health:
    """What is wrong with one store.

    Args:
        folder: of the blocks.
        commit: the queue to the disk.
        owner: told how writing went.

    Attributes:
        offline: why the store serves no more, empty while it does.
        notes: what had to be put right, for the operator's log.
    """

    def __init__(self, folder: Path, commit: GroupCommit, owner: Owner) -> None:
        self.offline = ""
        self.notes: list[str] = []
        self._folder = folder
        self._commit = commit
        self._owner = owner

    def check(self) -> None:
        """Raise StoreError when the store is offline."""
        if self.offline:
            raise StoreError(self.offline)

    def take_offline(self, error: StoreError) -> None:
        """Serve no more; the first reason is the one that is told.

        An error that names a place in a file is damage.
        """
        if self.offline:
            return
        self.offline = str(error)
        if error.offset >= 0:
            self.notes.append(REMEDY)
            marker = self._folder / DAMAGED_NAME
            self._commit.replace(self._owner, marker, [f"{error}\n".encode()])
