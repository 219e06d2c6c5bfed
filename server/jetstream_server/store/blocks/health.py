"""Whether a store still serves, and if not, why.

A store goes offline for good when its disk fails or when what it reads turns out to be damaged.
Damage is also noted in a file beside the blocks, so that a restart does not serve the stream again
until they are sound.
"""

from __future__ import annotations

from pathlib import Path

from jetstream_server.base.errors import StoreError
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.owner import Owner

# Left by a store that met damage: the next one looks at every block before it serves.
DAMAGED_NAME = "damaged"

# Made by the operator among the blocks to accept that what is lost is lost.
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
        owner: is told how writing went.

    Attributes:
        offline: why the store no longer serves, empty while it does.
        notes: what had to be repaired, for the operator's log.
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
        """Stop serving; the first reason is the one that is reported.

        An error that names a place in a file means damage.
        """
        if self.offline:
            return
        self.offline = str(error)
        if error.offset >= 0:
            self.notes.append(REMEDY)
            marker = self._folder / DAMAGED_NAME
            self._commit.replace(self._owner, marker, [f"{error}\n".encode()])
