"""Streams of many subjects listen to all of them before anybody is told."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import ApiError
from jetstream_server.base.nuid import Nuid
from jetstream_server.core.steps import without_pauses
from jetstream_server.core.sublist import Sublist
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.jetstream.catalog.listening import listening
from jetstream_server.jetstream.configs.stream_config import OriginConfig, StreamConfig
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.output import Output
from jetstream_server.jetstream.streams.interest import Interest
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.vault import FileVault, MemoryVault

NOW = 1_700_000_000 * SECOND
COUNT = 5000


@pytest.fixture
def catalog() -> Catalog:
    sublist = Sublist()
    context = Context("$G", "srv", "", sublist, Output(sublist), Nuid(Random(1)))
    return Catalog(context, MemoryVault())


def made(catalog: Catalog, *subjects: str, at_once: bool = False) -> object:
    config = StreamConfig(name="S", subjects=list(subjects))
    return catalog.create(config, NOW, at_once=at_once)


def test_it_takes_steps_and_then_all_are_there(catalog: Catalog) -> None:
    stream = made(catalog, *(f"s.{n}" for n in range(COUNT)))
    steps = listening(catalog, stream)  # type: ignore[arg-type]
    next(steps)
    before = catalog.context.sublist.count
    assert before < COUNT
    without_pauses(steps)
    reached = [catalog.context.sublist.match(b"s.%d" % n).plain for n in range(COUNT)]
    assert all(len(each) == 1 for each in reached)


def test_what_a_new_stream_listens_to_is_not_gathered_first(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of 80,000 subjects took 20 ms."""
    monkeypatch.setattr(Interest, "begin", lambda *given: pytest.fail("it is gathered"))
    stream = made(catalog, *(f"s.{n}" for n in range(COUNT)))
    without_pauses(listening(catalog, stream))  # type: ignore[arg-type]
    assert catalog.context.sublist.count >= COUNT


def test_very_many_sources_take_steps_and_then_all_are_there(catalog: Catalog) -> None:
    """A thousand took 25 ms, together with all else about a new stream."""
    sources = [OriginConfig(name=f"O{n}") for n in range(1000)]
    stream = catalog.create(StreamConfig(name="S", sources=sources), NOW, at_once=False)
    counts = [len(stream.sourcing.info(NOW)["sources"])]
    for _ in listening(catalog, stream):
        counts.append(len(stream.sourcing.info(NOW)["sources"]))
    assert counts == [250, 500, 750, 1000]
    other = catalog.create(StreamConfig(name="T", sources=sources), NOW)
    assert len(other.sourcing.info(NOW)["sources"]) == 1000


@pytest.mark.parametrize("again", [False, True])
def test_one_that_is_gone_meanwhile_is_not_found(catalog: Catalog, again: bool) -> None:
    stream = made(catalog, *(f"s.{n}" for n in range(COUNT)))
    steps = listening(catalog, stream)  # type: ignore[arg-type]
    next(steps)
    catalog.delete("S", NOW)
    if again:
        made(catalog, "other", at_once=True)
    with pytest.raises(ApiError, match="stream not found"):
        without_pauses(steps)


def test_one_whose_disk_failed_meanwhile_is_not_said_to_be_there(
    sim_disk_module: Any,
) -> None:
    disk, sublist = sim_disk_module.SimDisk(Random(1)), Sublist()
    commit = GroupCommit(disk)
    context = Context("$G", "srv", "", sublist, Output(sublist), Nuid(Random(1)))
    catalog = Catalog(context, FileVault(Path("/data"), "$G", commit, disk))
    stream = made(catalog, *(f"s.{n}" for n in range(COUNT)))
    steps = listening(catalog, stream)  # type: ignore[arg-type]
    next(steps)
    disk.fail_in = 0
    assert commit.drain()
    with pytest.raises(ApiError, match=r"stream is offline: .*Input/output error"):
        without_pauses(steps)
