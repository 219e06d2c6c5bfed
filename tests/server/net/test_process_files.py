"""The pid file and the ports file."""

from __future__ import annotations

import os

import pytest
from jetstream_server.net.process_files import process_files

URLS = {"nats": ["nats://127.0.0.1:4222"], "monitoring": ["http://127.0.0.1:8222"]}


def test_the_ports_file_goes_and_the_pid_file_stays(tmp_path):
    pid = tmp_path / "pid"
    ports = tmp_path / f"nats-server_{os.getpid()}.ports"
    with pytest.raises(KeyError), process_files(str(pid), str(tmp_path), URLS):
        assert pid.read_text() == str(os.getpid())
        assert ports.read_text() == (
            '{"nats":["nats://127.0.0.1:4222"],"monitoring":["http://127.0.0.1:8222"]}'
        )
        raise KeyError
    assert not ports.exists()
    assert pid.exists()


def test_nothing_is_written_unasked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with process_files("", "", URLS):
        assert list(tmp_path.iterdir()) == []
