"""Having what was written on the device."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from jetstream_server.base.sync_data import sync_data


def test_a_file_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, synced.append, raising=False)
    sync_data(7)
    assert synced == [7]


def test_what_cannot_be_synced_is_told() -> None:
    handle = os.open("/dev/null", os.O_WRONLY)
    with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
        sync_data(handle)
    os.close(handle)
