"""What streams hold is counted, not asked for; refusals by limits are in `test_catalog.py`."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.base.nuid import Nuid
from jetstream_server.core.sublist import Sublist
from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.jetstream.configs.account_limits import AccountLimits
from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.output import Output
from jetstream_server.jetstream.stream import Stream
from jetstream_server.protocol.ops import PubRun
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.disk import OsDisk
from jetstream_server.store.vault import FileVault

NOW = 1_700_000_000 * SECOND


def open_catalog(folder: Path, limits: AccountLimits | None = None) -> tuple[Catalog, GroupCommit]:
    sublist = Sublist()
    context = Context("$G", "srv", "", sublist, Output(sublist), Nuid(Random(1)))
    commit = GroupCommit(OsDisk())
    catalog = Catalog(context, FileVault(folder, "$G", commit, OsDisk()), limits)
    catalog.recover(NOW)
    return catalog, commit


def publish(stream: Stream, subject: bytes, payload: bytes) -> None:
    run = PubRun.of([(subject, b"", b"", payload)])
    stream.receive(Stretch(run, 0, 1, Subscription(subject, stream), None, NOW))


def held(catalog: Catalog) -> int:
    return sum(stream.store.state().bytes for stream in catalog.streams.values())


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_what_is_held_follows_the_streams(tmp_path: Path, storage: str) -> None:
    catalog, commit = open_catalog(tmp_path)
    metering, is_memory = catalog.metering, storage == "memory"
    streams = [
        catalog.create(StreamConfig(name=name, subjects=[name + ".>"], storage=storage), NOW)
        for name in "ab"
    ]
    for stream in streams:
        for number in range(10):
            publish(stream, b"%b.%d" % (stream.name.encode(), number), b"x" * number)
    assert metering.held_bytes(memory=is_memory) == held(catalog) > 0
    assert metering.held_bytes(memory=not is_memory) == 0
    streams[0].delete_message(3, False, NOW)
    streams[1].purge(b"b.4", 0, 0, NOW)
    assert metering.held_bytes(memory=is_memory) == held(catalog)
    catalog.delete("a", NOW)
    usage = catalog.usage()
    assert (usage.memory if is_memory else usage.storage) == held(catalog) > 0
    if not is_memory:
        assert not commit.drain()
        catalog.stop(NOW)
        assert not commit.drain()
        catalog, commit = open_catalog(tmp_path)
        assert catalog.usage().storage == usage.storage
    catalog.delete("b", NOW)
    assert catalog.metering.held_bytes(memory=is_memory) == 0


def test_no_publish_asks_every_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, _ = open_catalog(tmp_path, AccountLimits(max_storage=1 << 30))
    streams = [catalog.create(StreamConfig(name=name, subjects=[name]), NOW) for name in "abc"]
    asked: list[int] = []
    for stream in streams[1:]:
        monkeypatch.setattr(stream.store, "state", lambda: asked.append(1))
    assert streams[0].contents.allowance is not None
    publish(streams[0], b"a", b"x")
    assert streams[0].store.last_seq == 1
    assert not asked
