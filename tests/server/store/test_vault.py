"""Vaults: what exists, what is a leftover, and names."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from random import Random

import pytest
from jetstream_server.base.errors import StoreError
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.store_folder import open_folder
from jetstream_server.store.vault import FileVault, MemoryVault

ROOT = Path("/store/jetstream")
STREAM = ROOT / "$G" / "streams" / "ORDERS"


@pytest.fixture
def disk(sim_disk_module):
    return sim_disk_module.SimDisk(Random(1))


@pytest.fixture
def commit(disk):
    return GroupCommit(disk)


@pytest.fixture
def vault(disk, commit):
    return FileVault(ROOT, "$G", commit, disk)


def syncs_of(disk) -> list[Path]:
    """Return the folders that are synced from now on, as they are."""
    synced: list[Path] = []
    sync_folder = disk.sync_folder

    def sync(path: Path) -> None:
        sync_folder(path)
        synced.append(path)

    disk.sync_folder = sync
    return synced


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_a_stream_and_its_consumers(kind, vault, commit):
    chosen = vault if kind == "file" else MemoryVault()
    folder = chosen.folder("ORDERS", memory=False, first_seq=5)
    assert folder.config().load() is None
    folder.config().save(b"{}")
    config, state = folder.consumer("C")
    config.save(b'{"name":"C"}')
    state.save(b"\0\1", lazily=True)
    assert state.load() == b"\0\1"
    assert folder.messages().first_seq == 5
    commit.drain()
    assert chosen.folders() == ["ORDERS"]
    assert chosen.folder("ORDERS", memory=False).config().load() == b"{}"
    assert chosen.folder("ORDERS", memory=False).consumers() == ["C"]
    config.remove()
    state.remove()
    assert config.load() is None
    commit.drain()
    assert chosen.folder("ORDERS", memory=False).consumers() == []
    folder.remove()
    commit.drain()
    assert chosen.folders() == []


def test_what_was_removed_when_the_power_went_goes_on_being_removed(disk, vault, commit):
    folder = vault.folder("ORDERS", memory=False)
    folder.config().save(b"{}")
    folder.consumer("C")[0].save(b"{}")
    commit.drain()
    for number in range(30):
        disk.put(STREAM.with_name(".removed-0") / str(number), b"x")
        disk.put(STREAM / "consumers" / ".removed-7" / str(number), b"x")
    assert vault.folders() == ["ORDERS"]
    assert vault.folder("ORDERS", memory=False).consumers() == ["C"]
    commit.drain()
    assert not [path for path in disk.paths() if ".removed-" in str(path)]
    assert vault.folders() == ["ORDERS"]


def test_everything_is_found_again(vault, commit, disk):
    folder = vault.folder("ORDERS", memory=False)
    folder.config().save(b"{}")
    folder.messages().append(b"a", b"", b"x", 1)
    commit.drain()
    disk.restart()
    again = FileVault(ROOT, "$G", GroupCommit(disk), disk)
    assert again.folders() == ["ORDERS"]
    assert again.folder("ORDERS", memory=False).messages().last_seq == 1


def test_a_stream_made_anew_starts_empty_even_before_the_flush(vault, commit):
    folder = vault.folder("ORDERS", memory=False)
    folder.config().save(b"{}")
    folder.messages().append(b"a", b"", b"x", 1)
    commit.drain()
    folder.remove()
    assert vault.folders() == []
    fresh = vault.folder("ORDERS", memory=False)
    assert fresh.config().load() is None
    assert fresh.consumers() == []
    assert fresh.messages().state().messages == 0
    fresh.config().save(b"new")
    fresh.messages().append(b"b", b"", b"y", 2)
    commit.drain()
    again = vault.folder("ORDERS", memory=False)
    assert again.messages().load(1).subject == b"b"


def test_a_stream_and_a_consumer_that_lost_their_configs_are_found(vault, commit, disk):
    folder = vault.folder("ORDERS", memory=False)
    folder.config().save(b"{}")
    folder.messages().append(b"a", b"", b"x", 1)
    config, state = folder.consumer("C")
    config.save(b"{}")
    state.save(b"position")
    commit.drain()
    disk.remove(STREAM / "meta.json")
    disk.remove(STREAM / "consumers" / "C" / "meta.json")
    again = FileVault(ROOT, "$G", GroupCommit(disk), disk)
    assert again.folders() == ["ORDERS"]
    found = again.folder("ORDERS", memory=False)
    assert found.config().load() is None
    assert found.messages().last_seq == 1
    assert found.consumers() == ["C"]
    assert found.consumer("C")[0].load() is None


def test_a_stream_without_messages_that_lost_its_config_is_known_by_its_consumers(
    vault, commit, disk
):
    vault.folder("ORDERS", memory=False).config().save(b"{}")
    vault.folder("ORDERS", memory=False).consumer("C")[0].save(b"{}")
    vault.folder("ALONE", memory=False).config().save(b"{}")
    commit.drain()
    for path in (STREAM, STREAM.with_name("ALONE")):
        disk.remove(path / "meta.json")
    again = FileVault(ROOT, "$G", GroupCommit(disk), disk)
    assert again.folders() == ["ORDERS"]
    assert again.folder("ORDERS", memory=False).consumers() == ["C"]


def test_what_a_restore_did_not_finish_is_a_leftover(vault, commit, disk):
    folder = vault.folder("ORDERS", memory=False)
    folder.begin_filling()
    folder.messages().append(b"a", b"", b"x", 1)
    commit.drain()
    assert vault.folders() == []
    fresh = vault.folder("ORDERS", memory=False)
    assert fresh.messages().last_seq == 0
    commit.drain()
    assert disk.names(STREAM / "msgs") == []


def test_what_a_restore_finished_is_a_stream(vault, commit, disk):
    folder = vault.folder("ORDERS", memory=False)
    folder.begin_filling()
    folder.messages().append(b"a", b"", b"x", 1)
    folder.config().save(b"{}")
    folder.end_filling()
    commit.drain()
    assert "filling" not in disk.names(STREAM)
    disk.remove(STREAM / "meta.json")
    assert vault.folders() == ["ORDERS"]


def test_no_crash_leaves_messages_without_a_config(disk, sim_disk_module):
    """Else what was never made would look like a stream that lost its config."""
    for dark_in in range(20):
        disk.restart()
        disk.remove_tree(STREAM)
        commit = GroupCommit(disk)
        folder = FileVault(ROOT, "$G", commit, disk).folder("ORDERS", memory=False)
        folder.config().save(b"{}")
        folder.messages().append(b"a", b"", b"x", 1)
        folder.consumer("C")[0].save(b"{}")
        folder.consumer("C")[1].save(b"position")
        disk.dark_in = dark_in
        with pytest.raises(sim_disk_module.PowerLostError):
            commit.drain()
            raise sim_disk_module.PowerLostError
        disk.restart()
        if "1.blk" in disk.names(STREAM / "msgs"):
            assert "meta.json" in disk.names(STREAM)
        if "state.1" in disk.names(STREAM / "consumers" / "C"):
            assert "meta.json" in disk.names(STREAM / "consumers" / "C")
        if "meta.json" in disk.names(STREAM / "consumers" / "C"):
            assert "meta.json" in disk.names(STREAM)


@pytest.mark.parametrize("stored", [b"", b"crc32c", b"crc32c 00000000 2\n{}", b"{}"])
def test_truncated_metadata_is_an_error(vault, disk, stored):
    disk.put(STREAM / "meta.json", stored)
    with pytest.raises(StoreError, match=r"checksum does not fit \(.*meta.json"):
        vault.folder("ORDERS", memory=False).config().load()


def test_memory_streams_leave_nothing_on_disk(vault, commit, disk):
    folder = vault.folder("ORDERS", memory=True)
    folder.config().save(b"{}")
    folder.messages().append(b"a", b"", b"x", 1)
    assert not commit.has_fresh
    assert vault.folders() == []


def test_a_failed_metadata_write_takes_the_messages_offline(vault, commit, disk):
    folder = vault.folder("ORDERS", memory=False)
    folder.messages()
    folder.config().save(b"{}")
    disk.is_read_only = True
    commit.drain()
    assert "Read-only file system" in folder.messages().offline


def test_full_disk_holds_metadata_back(vault, commit, disk):
    folder = vault.folder("ORDERS", memory=False)
    folder.config().save(b"{}")
    disk.capacity = 0
    assert commit.drain() != []
    assert commit.is_stalled
    disk.capacity = None
    assert commit.drain() == []
    assert vault.folders() == ["ORDERS"]


def test_names_that_a_failed_process_left_are_durable_from_recovery_on(vault, commit, disk):
    """Whoever asks for a stream that exists is told so without a flush."""
    folder = vault.folder("ORDERS", memory=False)
    folder.config().save(b"{}")
    commit.drain()
    folder.consumer("C")[0].save(b"{}")
    folder.consumer("D")[0].save(b"{}")
    sync_folder, disk.sync_folder = disk.sync_folder, lambda path: None
    commit.drain()  # the process ends before the names are synced
    disk.sync_folder = sync_folder
    again = FileVault(ROOT, "$G", GroupCommit(disk), disk)
    assert again.folders() == ["ORDERS"]
    synced = syncs_of(disk)
    assert again.folder("ORDERS", memory=False).consumers() == ["C", "D"]
    consumers = STREAM / "consumers"
    assert synced == [STREAM, consumers, consumers / "C", consumers / "D"]
    disk.restart()
    last = FileVault(ROOT, "$G", GroupCommit(disk), disk)
    assert last.folders() == ["ORDERS"]
    assert last.folder("ORDERS", memory=False).consumers() == ["C", "D"]


def test_the_name_of_the_first_stream_s_account_is_durable_from_recovery_on(disk):
    """All that an account has is lost with its name."""
    folder = open_folder(ROOT, disk)
    commit = GroupCommit(disk)
    first = FileVault(folder.path, "$G", commit, disk)
    first.folder("ORDERS", memory=False).config().save(b"{}")
    sync_folder, disk.sync_folder = disk.sync_folder, lambda path: None
    commit.drain()  # the process ends before the names are synced
    disk.sync_folder = sync_folder
    folder.release()
    folder = open_folder(ROOT, disk)
    synced = syncs_of(disk)
    again = FileVault(folder.path, "$G", GroupCommit(disk), disk)
    assert again.folders() == ["ORDERS"]
    account = folder.path / "$G"
    assert synced == [folder.path, account, account / "streams"]
    assert again.folder("ORDERS", memory=False).consumers() == []
    stream = account / "streams" / "ORDERS"
    assert synced[3:] == [stream]  # which has no folder of consumers
    disk.restart()
    assert FileVault(folder.path, "$G", GroupCommit(disk), disk).folders() == ["ORDERS"]


def test_a_start_that_cannot_make_names_durable_says_so(vault, commit, disk):
    vault.folder("ORDERS", memory=False).config().save(b"{}")
    commit.drain()
    disk.fail_in = 0
    with pytest.raises(StoreError, match="sync failed"):
        vault.folders()
    disk.fail_in = 0
    with pytest.raises(StoreError, match="sync failed"):
        vault.folder("ORDERS", memory=False).consumers()


def test_a_folder_that_cannot_be_looked_into_is_refused(vault, disk, monkeypatch):
    def names(path: Path) -> list[str]:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))

    monkeypatch.setattr(disk, "names", names)
    with pytest.raises(StoreError, match="cannot list: Too many open files"):
        vault.folder("ORDERS", memory=False)
