"""The keys of a store directory: the right one, a new one, a wrong one, none."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from jetstream_server.base.errors import StoreError
from jetstream_server.store.disk.keyring import KEY_NAME, open_keyring

ROOT = Path("/store/jetstream")
STREAM = ROOT / "$G/streams/S"


@pytest.fixture
def disk(sim_disk_module):
    disk = sim_disk_module.SimDisk(Random(7))
    disk.make_folder(ROOT)
    return disk


def test_the_same_key_finds_the_same_keys(disk):
    key = open_keyring(ROOT, disk, "secret").stream_key(STREAM, makes=True)
    disk.restart()
    assert open_keyring(ROOT, disk, "secret").stream_key(STREAM, makes=False) == key
    assert key not in disk.read(STREAM / KEY_NAME)


def test_streams_have_keys_of_their_own(disk):
    keyring = open_keyring(ROOT, disk, "secret")
    other = ROOT / "$G/streams/T"
    assert keyring.stream_key(STREAM, makes=True) != keyring.stream_key(other, makes=True)
    disk.put(other / KEY_NAME, disk.read(STREAM / KEY_NAME))
    with pytest.raises(OSError, match="damaged"):
        open_keyring(ROOT, disk, "secret").stream_key(other, makes=False)


@pytest.mark.parametrize("key", ["", "wrong"])
def test_a_wrong_key_is_one_clear_error(disk, key):
    open_keyring(ROOT, disk, "secret")
    with pytest.raises(StoreError) as error:
        open_keyring(ROOT, disk, key, previous_key="neither")
    assert "encryption_key" in str(error.value) and "encryption.json" in str(error.value)
    assert "neither" not in str(error.value)


def test_the_key_can_be_changed(disk):
    key = open_keyring(ROOT, disk, "old").stream_key(STREAM, makes=True)
    open_keyring(ROOT, disk, "new", previous_key="old")
    disk.restart()
    assert open_keyring(ROOT, disk, "new").stream_key(STREAM, makes=False) == key
    with pytest.raises(StoreError):
        open_keyring(ROOT, disk, "old")


def test_streams_that_are_not_encrypted_are_refused(disk):
    disk.put(STREAM / "meta.json", b"x")
    with pytest.raises(StoreError, match="not encrypted"):
        open_keyring(ROOT, disk, "secret")


def test_of_encrypted_streams_the_missing_key_is_named(disk):
    """It said that they are not encrypted."""
    open_keyring(ROOT, disk, "secret").stream_key(STREAM, makes=True)
    disk.remove(ROOT / "encryption.json")
    with pytest.raises(StoreError, match=r"is missing.*/encryption\.json"):
        open_keyring(ROOT, disk, "secret")


def test_damaged_files_are_told_from_wrong_keys(disk):
    open_keyring(ROOT, disk, "secret").stream_key(STREAM, makes=True)
    disk.damage(STREAM / KEY_NAME, 20)
    with pytest.raises(OSError, match="damaged"):
        open_keyring(ROOT, disk, "secret").stream_key(STREAM, makes=False)
    disk.put(ROOT / "encryption.json", b"{}")
    with pytest.raises(StoreError, match="damaged"):
        open_keyring(ROOT, disk, "secret")


@contextmanager
def unsynced(disk, folder, monkeypatch):
    """Let a folder not be synced."""
    sync_folder = disk.sync_folder

    def full(path):
        if path == folder:
            raise OSError(errno.ENOSPC, "full")
        sync_folder(path)

    with monkeypatch.context() as patched:
        patched.setattr(disk, "sync_folder", full)
        yield


@pytest.mark.parametrize("is_another_process", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_a_key_is_durable_before_anything_is_written_with_it(
    sim_disk_module, monkeypatch, seed, is_another_process
):
    """Also if its folder could not be synced when it was made, or nobody was there any more."""
    disk = sim_disk_module.SimDisk(Random(seed))
    disk.make_folder(ROOT)
    keyring = open_keyring(ROOT, disk, "secret")
    with unsynced(disk, STREAM, monkeypatch), pytest.raises(OSError, match="full"):
        keyring.stream_key(STREAM, makes=True)
    if is_another_process:
        keyring = open_keyring(ROOT, disk, "secret")
        keyring.stream_key(STREAM, makes=False)
    key = keyring.stream_key(STREAM, makes=True)
    disk.restart()
    assert open_keyring(ROOT, disk, "secret").stream_key(STREAM, makes=False) == key


@pytest.mark.parametrize("seed", range(8))
def test_the_key_of_all_keys_is_durable_before_it_is_used(sim_disk_module, monkeypatch, seed):
    disk = sim_disk_module.SimDisk(Random(seed))
    disk.make_folder(ROOT)
    with unsynced(disk, ROOT, monkeypatch), pytest.raises(StoreError, match="full"):
        open_keyring(ROOT, disk, "secret")
    open_keyring(ROOT, disk, "secret")
    disk.restart()
    assert disk.read(ROOT / "encryption.json")


def test_a_missing_key_is_not_made_up(disk):
    with pytest.raises(OSError, match="missing"):
        open_keyring(ROOT, disk, "secret").stream_key(STREAM, makes=False)
