"""Addresses that servers name, for when none of those in the options can be reached.

A server of a cluster names all its members in INFO (`connect_urls`), and again whenever they
change. So work that was given one address goes on when that server is gone. An address belongs to
the options under which it was learned: it is reached with the same credentials, with TLS if the
connection that named it had TLS, and only if the server there says that it is in the same cluster,
because the address may have another owner by now.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any

from jetstream_spark.errors import ConnectionFailedError
from jetstream_spark.options.connection_options import ConnectionOptions
from jetstream_spark.options.option_values import ServerAddress, server_address

# Enough to find one that is up; a server cannot make us keep more.
LEARNED_MAX = 64


@dataclass(frozen=True, slots=True)
class LearnedAddresses:
    """What the last INFO that named any addresses said.

    Attributes:
        servers: without those of the options.
        cluster: the name of their cluster.
    """

    servers: tuple[ServerAddress, ...] = ()
    cluster: str = ""

    def check(self, server: ServerAddress, info: dict[str, Any]) -> None:
        """Make sure that an address still leads to a member; credentials are only sent after that.

        Raises:
            ConnectionFailedError: another server has it now.
        """
        cluster = str(info.get("cluster", ""))
        if cluster != self.cluster:
            raise ConnectionFailedError(
                f"{server} was named by a server of the cluster '{self.cluster}', and says that it "
                f"is of '{cluster}'"
            )


def learned_addresses(
    options: ConnectionOptions, server: ServerAddress, is_encrypted: bool, info: dict[str, Any]
) -> LearnedAddresses | None:
    """The addresses in an INFO; None when there are none.

    Args:
        server: whose INFO it is.
        is_encrypted: whether the connection to it uses TLS.
        info: as received, so anything.
    """
    urls = info.get("connect_urls")
    if options.ignore_discovered_servers or not isinstance(urls, list):
        return None
    given = {(one.host, one.port) for one in options.servers}
    name = server.tls_name or server.host
    # A certificate seldom holds the addresses of all servers; it holds the name that was verified.
    tls_name = name if is_encrypted and not _is_number(name) else ""
    found: dict[tuple[str, int], ServerAddress] = {}
    for url in urls[:LEARNED_MAX]:
        try:
            one = server_address(url) if isinstance(url, str) else server
        except ValueError:
            continue
        if one != server and (one.host, one.port) not in given:
            own_name = tls_name if _is_number(one.host) else ""
            found[one.host, one.port] = ServerAddress(one.host, one.port, is_encrypted, own_name)
    return LearnedAddresses(tuple(found.values()), str(info.get("cluster", "")))


def _is_number(host: str) -> bool:
    """Whether a host is given as an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
