"""Chunks come out of the spool as they went in, and make room on the way."""

from __future__ import annotations

from jetstream_server.jetstream.catalog.spool import Spool
from jetstream_server.store.vault import MemoryFolder


def test_first_in_first_out_and_gone() -> None:
    folder = MemoryFolder(0)
    spool = Spool(3, folder)
    for number in range(3):
        spool.append(b"chunk %d" % number, 10)
    assert spool.number == 3
    assert [spool.take(), spool.take()] == [b"chunk 0", b"chunk 1"]
    assert folder.messages().state().messages == 1
    assert [spool.take(), spool.take()] == [b"chunk 2", None]
    spool.remove()
    assert folder.messages().state().messages == 0
