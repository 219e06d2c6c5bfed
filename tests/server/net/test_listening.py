"""Listening: free ports, ports in use, ports that do not exist."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine

import pytest
import uvloop
from jetstream_server.base.errors import ConfigError
from jetstream_server.net import listening
from jetstream_server.net.descriptors import Descriptors


def test_minus_one_takes_a_free_port():
    with listening.bind("127.0.0.1", -1) as first, listening.bind("127.0.0.1", -1) as second:
        assert listening.address_of(first)[1] != listening.address_of(second)[1]


def test_a_port_in_use_is_named_as_the_genuine_server_does():
    with listening.bind("127.0.0.1", -1) as taken:
        port = listening.address_of(taken)[1]
        with pytest.raises(ConfigError) as refused:
            listening.bind("127.0.0.1", port)
    assert str(refused.value) == (
        f"Error listening on port: 127.0.0.1:{port}, "
        f'"listen tcp 127.0.0.1:{port}: bind: address already in use"'
    )


def test_a_port_too_high_is_named():
    with pytest.raises(ConfigError, match="address 70000: invalid port"):
        listening.bind("127.0.0.1", 70000)


def test_ipv6_hosts_are_bracketed():
    assert listening.host_port("::1", 4222) == "[::1]:4222"
    assert listening.host_port("127.0.0.1", 4222) == "127.0.0.1:4222"


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("", ("127.0.0.1", 4222)),
        ("example.com", ("example.com", 4222)),
        ("example.com:99", ("example.com", 99)),
        (":7", ("", 7)),
        ("[::1]:5", ("::1", 5)),
        ("[::1]", ("::1", 4222)),
    ],
)
def test_what_clients_are_told(address, told):
    assert listening.advertised(address, "127.0.0.1", 4222) == told


def test_an_advertised_port_that_is_none():
    with pytest.raises(ConfigError, match="ClientAdvertise value of a:b"):
        listening.advertised("a:b", "127.0.0.1", 4222)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_every_address_is_of_both_families(host):
    with listening.bind(host, -1) as listener:
        shown, port = listening.address_of(listener)
        assert shown == "0.0.0.0"
        families = ["127.0.0.1"] + (["::1"] if socket.has_dualstack_ipv6() else [])
        for address in families:
            with socket.create_connection((address, port), 60):
                assert listener.accept()[1][0].removeprefix("::ffff:") == address
        with pytest.raises(ConfigError, match=f"listen tcp {host}:{port}: bind: address already"):
            listening.bind(host, port)


def test_without_ipv6_every_address_is_of_ipv4(monkeypatch):
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    with listening.bind("0.0.0.0", -1) as listener:
        assert listener.family is socket.AF_INET
        assert listening.address_of(listener)[0] == "0.0.0.0"


@pytest.mark.parametrize(
    ("peer", "told"),
    [
        (("127.0.0.1", 5), ("127.0.0.1", 5)),
        (("::ffff:10.0.0.1", 5, 0, 0), ("10.0.0.1", 5)),
        (("::1", 5, 0, 0), ("::1", 5)),
        (("::ffff:1", 5, 0, 0), ("::ffff:1", 5)),
        (None, ("", 0)),
    ],
)
def test_clients_of_ipv4_are_called_so(peer, told):
    class Transport(asyncio.BaseTransport):
        def get_extra_info(self, name, default=None):
            assert name == "peername"
            return peer

    assert listening.peer_of(Transport()) == told


RUNNERS = [asyncio.run, uvloop.run]
Runner = Callable[[Coroutine[None, None, None]], None]


class Counted(asyncio.Protocol):
    """Connections, in the order in which they were made."""

    def __init__(self, made: list[str]) -> None:
        self._made = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made.append(listening.peer_of(transport)[0])
        transport.close()


@pytest.mark.parametrize("run", RUNNERS)
@pytest.mark.parametrize("host", ["127.0.0.1", "::"])
def test_those_who_came_in_a_long_turn_come_in_together(run: Runner, host: str) -> None:
    made: list[str] = []

    async def main() -> None:
        listener = listening.bind(host, -1)
        port = listening.address_of(listener)[1]
        servers = await listening.serve(listener, lambda: Counted(made))
        with contextlib.ExitStack() as clients:
            # The system takes them in while the loop is busy here.
            for _ in range(listening.ACCEPTED_AT_ONCE):
                clients.enter_context(socket.create_connection(("127.0.0.1", port), 60))
            # They are accepted in one round, and each makes its connection in the next ones.
            for _ in range(4):
                await asyncio.sleep(0)
            assert made == ["127.0.0.1"] * listening.ACCEPTED_AT_ONCE
        for server in servers:
            server.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 60)

    run(main())


@pytest.mark.parametrize("more", [0, 3])
def test_where_few_descriptors_are_allowed_most_are_left_to_clients(
    monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    with contextlib.ExitStack() as opened:
        listener = opened.enter_context(listening.bind("127.0.0.1", -1))
        free = [opened.enter_context(listener.dup()).fileno() for _ in range(4)]
        opened.pop_all().close()
        listener = opened.enter_context(listening.bind("127.0.0.1", -1))
        limit = 8 * free[more]
        monkeypatch.setattr(Descriptors, "__init__", lambda self: setattr(self, "limit", limit))
        found = [opened.enter_context(each) for each in listening.descriptors_of(listener)]
        assert [each.fileno() for each in found] == [listener.fileno(), *free[:more]]
        assert [opened.enter_context(listener.dup()).fileno()] == [free[more]], "it was given back"


@pytest.mark.parametrize("run", RUNNERS)
@pytest.mark.parametrize("left", [0, 3])
def test_where_no_descriptor_is_left_clients_come_in_all_the_same(
    run: Runner, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    duplicates: list[socket.socket] = []
    dup = socket.socket.dup

    def limited(listener: socket.socket) -> socket.socket:
        if len(duplicates) == left:
            raise OSError(24, "Too many open files")
        duplicates.append(dup(listener))
        return duplicates[-1]

    async def main() -> None:
        listener = listening.bind("127.0.0.1", -1)
        with monkeypatch.context() as patched:
            patched.setattr(socket.socket, "dup", limited)
            servers = await listening.serve(listener, lambda: Counted(made))
        assert len(servers) == 1 + left
        for _ in range(2):
            reader, writer = await asyncio.open_connection(*listening.address_of(listener))
            assert await reader.read() == b""
            writer.close()
        assert len(made) == 2
        for server in servers:
            server.close()

    run(main())
