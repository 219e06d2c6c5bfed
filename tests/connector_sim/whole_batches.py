"""Whether what was written in atomic batches is there as whole batches, at every moment.

A batch of the server must be one of the connector's: the rows of one block, but for those that were
stored before. So whenever something of a block is there, all of it is.
"""

from __future__ import annotations

from tests.connector_sim.server import Server
from tests.connector_sim.truth import require


class WholeBatches:
    """The blocks of all attempts.

    Args:
        rows_max: of a block; 0: a partition is one.
    """

    def __init__(self, rows_max: int) -> None:
        self._rows_max = rows_max
        self._blocks: dict[bytes, set[frozenset[bytes]]] = {}

    def note_attempt(self, batches: list[list[bytes]], is_whole: bool) -> None:
        """Note the rows of an attempt as Spark hands them over, batch by batch.

        Args:
            is_whole: it has read all; else a partition that is one batch stores nothing.
        """
        blocks = [[row for batch in batches for row in batch]]
        if self._rows_max:
            size = self._rows_max
            blocks = [rows[n : n + size] for rows in batches for n in range(0, len(rows), size)]
        elif not is_whole:
            return
        for block in map(frozenset, blocks):
            for row in block:
                self._blocks.setdefault(row, set()).add(block)

    def look(self, server: Server, stream: str) -> None:
        """Complain of a batch that is not whole."""
        batches: dict[bytes, set[bytes]] = {}
        stored = set()
        for message in server.messages(stream):
            name = message.header(b"Nats-Batch-Id")
            require(name is not None, "written alone:", message.payload)
            batches.setdefault(name or b"", set()).add(message.payload)
            stored.add(message.payload)
        for rows in batches.values():
            known = set.intersection(*(self._blocks.get(row, set()) for row in rows))
            require(known, "no block of any attempt:", sorted(rows))
            is_whole = any(block <= stored for block in known)
            require(is_whole, "in part:", sorted(rows), "of", [sorted(block) for block in known])
