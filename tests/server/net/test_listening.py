"""Listening: free ports, ports in use, ports that do not exist."""

from __future__ import annotations

import asyncio
import socket

import pytest
from jetstream_server.base.errors import ConfigError
from jetstream_server.net import listening


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
            with socket.create_connection((address, port), 5):
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
