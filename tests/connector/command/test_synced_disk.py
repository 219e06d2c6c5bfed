"""Files are there as a whole, and nothing is overwritten that was not meant."""

from __future__ import annotations

import os

from jetstream_spark.command.synced_disk import SyncedDisk


def test_what_is_made_replaced_copied_and_removed(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    disk, path = SyncedDisk(), tmp_path / "a"
    assert disk.create(path, "one") and not disk.create(path, "two")
    assert path.read_text() == "one"
    disk.replace(path, "three\r\n")
    assert path.read_bytes() == b"three\r\n"
    disk.copy(path, tmp_path / "kept/deep/a")
    disk.put(path, tmp_path / "b")
    assert (tmp_path / "kept/deep/a").read_bytes() == (tmp_path / "b").read_bytes()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["b", "kept"]
    disk.remove(tmp_path / "b")
    disk.remove(tmp_path / "b")
    assert len(synced) == 9  # each file, and each folder that got a name
