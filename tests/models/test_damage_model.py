"""Any one file of a store that was stopped in order is damaged: what the next start makes of it.

Whatever it is, the server starts; no sequence is given twice; and what was stored is there, or the
stream says that it is offline, at the start or when somebody reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import StoreError
from jetstream_server.base.nuid import Nuid
from jetstream_server.core.sublist import Sublist
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.jetstream.configs.consumer_config import ConsumerConfig
from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.consumers.consumer_creation import create_consumer
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.output import Output
from jetstream_server.store.disk.cipher_disk import CipherDisk
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.disk import Disk
from jetstream_server.store.disk.keyring import Keyring
from jetstream_server.store.disk.store_folder import open_folder
from jetstream_server.store.vault import FileVault

START = 1_700_000_000 * SECOND
STORE = Path("/store")
KINDS = ("bit", "bit", "bit", "bit", "cut", "cut", "removed", "emptied", "garbage", "longer")


class Server:
    """As much of one as has to do with files."""

    def __init__(self, plain: Any, *, encrypts: bool) -> None:
        self.folder = open_folder(STORE, plain)
        disk: Disk = plain
        if encrypts:
            disk = CipherDisk(plain, Keyring(self.folder.path, plain, b"k" * 32, "chacha"))
        self.commit = GroupCommit(disk)
        sublist = Sublist()
        self.context = Context("$G", "srv", "", sublist, Output(sublist), Nuid(Random(1)))
        vault = FileVault(self.folder.path, "$G", self.commit, disk, block_bytes=1000)
        self.catalog = Catalog(self.context, vault)
        self.catalog.recover(START)

    def stop(self) -> None:
        self.catalog.stop(START)
        assert self.commit.drain() == []
        self.folder.release()


def filled(disk: Any, *, encrypts: bool) -> None:
    """Make two streams: one of several blocks with gaps, and one of a single block."""
    server = Server(disk, encrypts=encrypts)
    for name, count, compression in (("LARGE", 60, "s2"), ("SMALL", 4, "none")):
        stream = server.catalog.create(StreamConfig(name=name, compression=compression), START)
        consumer = ConsumerConfig(durable_name="C", ack_policy="explicit")
        create_consumer(stream, consumer, START)
        for at in range(count):
            stream.store.append(b"%b" % name.encode(), b"", b"%d " % at * 20, START + at)
        assert server.commit.drain() == []
        stream.store.delete(range(count // 2, count // 2 + count // 4))
        stream.store.truncate_front(2)
        assert server.commit.drain() == []
    server.stop()


def contents(server: Server) -> dict[str, list[tuple[int, bytes]]]:
    """Read everything of the streams that serve; those that turn out to be offline are left out."""
    found: dict[str, list[tuple[int, bytes]]] = {}
    for name, stream in server.catalog.streams.items():
        messages = []
        try:
            for sequence in range(stream.store.first_seq, stream.store.last_seq + 1):
                if message := stream.store.load(sequence):
                    messages.append((sequence, message.payload))
        except StoreError:
            assert server.catalog.offline_reason(name)
            continue
        found[name] = messages
    return found


def damaged(content: bytes, kind: str, random: Random) -> bytes | None:
    match kind:
        case "bit":
            changed = bytearray(content)
            if changed:
                changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
            return bytes(changed)
        case "cut":
            return content[: random.randrange(len(content) + 1)]
        case "removed":
            return None
        case "emptied":
            return b""
        case "garbage":
            return random.randbytes(len(content) or 20)
        case _:
            return content + random.randbytes(30)


def stopped(sim: ModuleType, seed: int, *, encrypts: bool) -> Iterator[Any]:
    """Yield one stopped store after the other, and the path and the kind of its damage."""
    disk = sim.SimDisk(Random(seed))
    filled(disk, encrypts=encrypts)
    sound = {path: disk.read(path) for path in disk.paths()}
    random = Random(seed)
    for path, content in sound.items():
        for kind in KINDS:
            disk = sim.SimDisk(Random(seed))
            for each, kept in sound.items():
                disk.put(each, kept)
            worse = damaged(content, kind, random)
            if worse is None:
                disk.remove(path)
            else:
                disk.put(path, worse)
            yield disk, path, kind


@pytest.mark.parametrize(("seed", "encrypts"), [(0, False), (1, True)])
def test_no_damage_is_silent_and_no_sequence_is_used_twice(
    sim_disk_module: ModuleType, seed: int, *, encrypts: bool
) -> None:
    whole = sim_disk_module.SimDisk(Random(seed))
    filled(whole, encrypts=encrypts)
    server = Server(whole, encrypts=encrypts)
    expected = contents(server)
    last_seqs = {name: stream.store.last_seq for name, stream in server.catalog.streams.items()}
    for disk, path, kind in stopped(sim_disk_module, seed, encrypts=encrypts):
        # What had one file and lost it looks like what a crash left of something never made.
        is_gone = not any(each.parent == path.parent for each in disk.paths())
        server = Server(disk, encrypts=encrypts)
        where = f"{kind} {path}"
        assert server.catalog.names() == ["LARGE", "SMALL"], where
        offline = {*server.catalog.offline}
        own = {name for name in expected if f"/{name}/" in str(path)}
        assert offline <= own, where
        found = contents(server)
        for name, messages in found.items():
            assert messages == expected[name], where
            assert server.catalog.streams[name].store.last_seq == last_seqs[name], where
            unread = server.catalog.unread_consumers(name)
            consumers = [*server.catalog.streams[name].consumers, *(each for each, _ in unread)]
            assert consumers == ["C"] or (is_gone and "/consumers/" in str(path)), where
        if path.name.startswith(("high-water", "format", "lock")) or path.suffix == ".idx":
            assert found == expected, where
