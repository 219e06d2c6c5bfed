"""Ports of servers that go away."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

from tests import ports
from tests.ports import free_port, free_ports


def test_none_is_given_twice_nor_by_the_system():
    with ThreadPoolExecutor(8) as pool:
        given = [port for some in pool.map(free_ports, [25] * 8) for port in some]
    assert len({*given}) == 200
    assert all(16_000 <= port < 32_000 for port in given)


def test_one_that_is_taken_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(ports, "_TURN", tmp_path / "turn")
    first = free_port()
    with socket.create_server(("127.0.0.1", first + 1)):
        assert free_port() > first + 1


def test_after_the_last_comes_the_first(tmp_path, monkeypatch):
    monkeypatch.setattr(ports, "_TURN", tmp_path / "turn")
    (tmp_path / "turn").write_text("31999")
    assert free_port() < 16_100
