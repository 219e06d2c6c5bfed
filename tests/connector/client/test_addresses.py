"""What servers tell of is learned with its encryption and name, and never trusted further."""

from __future__ import annotations

import pytest

from jetstream_spark.client.addresses import LEARNED_MAX, LearnedAddresses, learned_addresses
from jetstream_spark.errors import ConnectionFailedError
from jetstream_spark.options.connection_options import read_connection_options
from jetstream_spark.options.option_map import OptionMap
from jetstream_spark.options.option_values import ServerAddress, server_address

GIVEN = server_address("nats.example:4222")


def options(**more: str):
    return read_connection_options(OptionMap({"servers": "nats.example:4222", **more}))


def learned(*urls: object, server=GIVEN, is_encrypted=False, **more: str):
    info = {"connect_urls": list(urls), "cluster": "C"}
    return learned_addresses(options(**more), server, is_encrypted, info)


def test_those_of_the_options_are_left_out_and_so_is_what_is_none():
    found = learned("nats.example:4222", "10.0.0.1:4222", "[::1]:4223", 7, None, "a b", "h:x", "")
    assert found == LearnedAddresses(
        (ServerAddress("10.0.0.1", 4222), ServerAddress("::1", 4223), ServerAddress("a b", 4222)),
        "C",
    )


def test_over_tls_they_are_reached_with_tls_and_a_number_under_the_name_that_was_verified():
    found = learned("10.0.0.1:4222", "b.example:4222", is_encrypted=True)
    assert found.servers == (
        ServerAddress("10.0.0.1", 4222, True, "nats.example"),
        ServerAddress("b.example", 4222, True),
    )
    # A server that was learned tells of others: the name goes on.
    again = learned("10.0.0.2:4222", server=found.servers[0], is_encrypted=True)
    assert again.servers == (ServerAddress("10.0.0.2", 4222, True, "nats.example"),)


def test_a_long_list_is_cut():
    found = learned(*(f"h{at}:4222" for at in range(80_000)))
    assert len(found.servers) == LEARNED_MAX


@pytest.mark.parametrize("info", [{}, {"connect_urls": None}, {"connect_urls": "a:1"}])
def test_an_info_that_tells_of_none_changes_nothing(info):
    assert learned_addresses(options(), GIVEN, False, info) is None


def test_it_can_be_switched_off():
    assert learned("10.0.0.1:4222", ignoreDiscoveredServers="true") is None


def test_an_address_with_another_owner_is_refused():
    found = learned("10.0.0.1:4222")
    found.check(found.servers[0], {"cluster": "C"})
    for info in ({"cluster": "D"}, {}):
        with pytest.raises(ConnectionFailedError, match="of the cluster 'C'"):
            found.check(found.servers[0], info)
