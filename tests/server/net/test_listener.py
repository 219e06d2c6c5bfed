"""Listening: free ports, ports in use, ports that do not exist."""

from __future__ import annotations

import pytest
from jetstream_server.base.errors import ConfigError
from jetstream_server.net import listener as listening


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
