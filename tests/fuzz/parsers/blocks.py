"""The files of a stream's messages, whatever they hold: checksums are set right first.

A store opens, answers everything, goes on and opens again, or says what is damaged. What it says
of blocks that no store writes is not looked at.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from jetstream_server.base.errors import StoreError
from jetstream_server.kernels import record_format
from jetstream_server.kernels.record_format import CHECKED_FROM, PREFIX, PREFIX_BYTES, SEQUENCE_MAX
from jetstream_server.kernels.records import checksum
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.blocks import tombstone
from jetstream_server.store.blocks.compressed_block import compress, is_compressed
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.file import FileStore

from tests.sim.disk import SimDisk

FOLDER = Path("/s/msgs")
BLOCK_BYTES = 400
# Between two blocks of an input.
CUT = b"|BLOCK|"
_LOOKED_AT_MAX = 40


def sound(data: bytes) -> bytes:
    """Return a block of records with right checksums, as far as it is one."""
    block, at = bytearray(data), 0
    while at + PREFIX_BYTES <= len(block):
        size, _, _, _, _, subject, kind = PREFIX.unpack_from(block, at)
        if not PREFIX_BYTES <= size <= len(block) - at:
            break
        if kind == record_format.ERASED:
            stop = min(at + PREFIX_BYTES + subject, at + size)
            covered = bytes(block[at : at + 4]) + bytes(block[at + CHECKED_FROM : stop])
        else:
            covered = bytes(block[at + CHECKED_FROM : at + size])
        block[at + 4 : at + CHECKED_FROM] = checksum(covered).to_bytes(4, "little")
        at += size
    return bytes(block)


def _opened(disk: SimDisk) -> tuple[FileStore, GroupCommit]:
    commit = GroupCommit(disk)
    return FileStore(FOLDER, commit, block_bytes=BLOCK_BYTES), commit


def blocks(data: bytes) -> None:
    """Blocks of a stream: it serves, is written on and opens again, or is offline."""
    disk = SimDisk(Random(1))
    disk.make_folder(FOLDER)
    for number, block in enumerate(data.split(CUT)[:4], 1):
        disk.put(FOLDER / f"{number}.blk", block if is_compressed(block) else sound(block))
    store, commit = _opened(disk)
    if store.offline:
        return
    try:
        _use(store)
    except StoreError:
        # One that has no sequences left goes on answering, and opens again.
        if store.offline:
            return
        assert store.last_seq >= SEQUENCE_MAX - 1, "a store that raises is offline"
    commit.drain()
    store.close()
    commit.drain()
    again, _ = _opened(disk)
    assert not again.offline, again.offline
    _look(again)


def _look(store: FileStore) -> None:
    """Ask everything."""
    state = store.state()
    loaded, at = [], store.first_seq
    while len(loaded) < _LOOKED_AT_MAX and (message := store.load_next(None, at)) is not None:
        loaded.append(message)
        at = message.sequence + 1
    for message in loaded:
        assert store.load(message.sequence) == message
        store.subject_last(message.subject)
    store.sequence_at(state.last_ts)
    store.next_with_headers(store.first_seq)
    store.last_sequences(store.filter([b"s.>"]))
    store.count(None, 0)
    store.subject_counts(b">")


def _use(store: FileStore) -> None:
    """Use a store as a stream does."""
    _look(store)
    first, last = store.first_seq, store.last_seq
    store.delete([last, first + 1], erase=bool(last % 2))
    store.append(b"s.new", b"", b"x", 7)
    store.purge(store.filter([b"s.1"]), 0, 1)
    store.truncate_front(first + 1)
    store.append(b"s.1", b"NATS/1.0\r\nA: b\r\n\r\n", b"", 8)
    _look(store)


def _made() -> tuple[bytes, ...]:
    """Return blocks as a store makes them."""
    disk = SimDisk(Random(1))
    store, commit = _opened(disk)
    run = PubRun.of([(b"s.%d" % (at % 3), b"", b"", b"%d." % at * 3) for at in range(12)])
    store.append_run(run, 0, 12, 5)
    store.delete([2])
    store.skip(3, 6)
    store.append(b"s.1", b"NATS/1.0\r\nA: b\r\n\r\n", b"x", 7, 30)
    store.delete([9, 30], erase=True)
    store.truncate_front(2)
    store.append(b"s.5", b"", b"x", 8, 40)
    commit.drain()
    names = sorted(name for name in disk.names(FOLDER) if name.endswith(".blk"))
    whole = [disk.read(FOLDER / name) or b"" for name in names]
    plain = tombstone.started(4, 5, 0).encode()
    return *whole, CUT.join(whole), plain, b"".join(compress(whole[0], 128))


BLOCKS = _made()
