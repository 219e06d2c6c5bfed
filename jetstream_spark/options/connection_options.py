"""How to reach the servers: addresses, credentials, TLS, time limits. Shared by both sides.

This is a frozen value that is pickled into tasks and is the key of the connection pool. Credentials
stay references (`env:`, `file:`) until a connection is made.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from jetstream_spark.options.option_map import OptionMap
from jetstream_spark.options.option_values import Secret, ServerAddress, boolean, server_address

_TOKENS = re.compile(r"[^\s.*>]+(\.[^\s.*>]+)*")


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """Options of one connection (docs/options.md#connection). Times are seconds.

    Attributes:
        tls: True demands TLS, False forbids it, None follows the server addresses and the server.
        api_prefix: what JetStream API subjects start with, `$JS.API` unless exported or in a
            domain.
    """

    servers: tuple[ServerAddress, ...]
    user: str = ""
    password: Secret | None = None
    token: Secret | None = None
    creds_file: str = ""
    creds_secret: Secret | None = None
    nkey_file: str = ""
    nkey_seed_secret: Secret | None = None
    tls: bool | None = None
    tls_ca_file: str = ""
    tls_cert_file: str = ""
    tls_key_file: str = ""
    tls_server_name: str = ""
    tls_first: bool = False
    connect_timeout_s: float = 5.0
    request_timeout_s: float = 10.0
    outage_timeout_s: float = 300.0
    api_prefix: str = "$JS.API"
    connection_name: str = ""
    ignore_discovered_servers: bool = False

    @property
    def can_change(self) -> bool:
        """Whether the credentials are in a file, whose content may change later."""
        secrets = (self.password, self.token, self.creds_secret, self.nkey_seed_secret)
        is_in_file = any(secret is not None and secret.is_in_file for secret in secrets)
        return is_in_file or bool(self.creds_file or self.nkey_file)

    @property
    def wants_tls(self) -> bool:
        """Whether the connection must be encrypted even if the server does not ask for it."""
        return bool(self.tls) or self.tls_first or any(server.tls for server in self.servers)


def read_connection_options(options: OptionMap) -> ConnectionOptions:
    """Read and check the connection's part of the map; mistakes go to `options.problems`."""
    servers = _servers(options)
    connection = ConnectionOptions(
        servers=servers,
        user=options.text("user"),
        password=options.secret("password"),
        token=options.secret("token"),
        creds_file=options.text("credsFile"),
        creds_secret=options.secret("credsSecret"),
        nkey_file=options.text("nkeyFile"),
        nkey_seed_secret=options.secret("nkeySeedSecret"),
        tls=options.read("tls", boolean, None),
        tls_ca_file=options.text("tlsCaFile"),
        tls_cert_file=options.text("tlsCertFile"),
        tls_key_file=options.text("tlsKeyFile"),
        tls_server_name=options.text("tlsServerName"),
        tls_first=options.flag("tlsFirst", False),
        connect_timeout_s=options.seconds("connectTimeout", "5s"),
        request_timeout_s=options.seconds("requestTimeout", "10s"),
        outage_timeout_s=options.seconds("outageTimeout", "5m"),
        api_prefix=_api_prefix(options),
        connection_name=options.text("connectionName"),
        ignore_discovered_servers=options.flag("ignoreDiscoveredServers", False),
    )
    _check_credentials(options, connection)
    _check_tls(options, connection)
    return connection


def _servers(options: OptionMap) -> tuple[ServerAddress, ...]:
    entries = options.words("servers")
    if not options.has("servers"):
        options.add_problem(
            "servers", "is required: the addresses of the NATS servers, as nats://host:4222,..."
        )
    addresses = []
    for entry in entries:
        try:
            addresses.append(server_address(entry))
        except ValueError as error:
            shown = "" if "@" in entry else f": the entry '{entry}'"
            options.add_problem("servers", f"{shown.lstrip(': ')} {error}".strip())
    schemes = {entry.split("://")[0] for entry in entries if "://" in entry}
    if {"nats", "tls"} <= schemes:
        options.add_problem("servers", "mixes nats:// and tls://; use one scheme for all")
    return tuple(addresses)


def _api_prefix(options: OptionMap) -> str:
    domain, prefix = options.text("domain"), options.text("apiPrefix")
    if domain and prefix:
        options.add_problem("domain", "cannot be combined with apiPrefix; give one of them")
    if domain and ("." in domain or not _TOKENS.fullmatch(domain)):
        options.add_problem("domain", "must be one word without '.', '*', '>' or spaces")
    if prefix:
        prefix = prefix.removesuffix(".")
        if not _TOKENS.fullmatch(prefix):
            options.add_problem("apiPrefix", "must be a subject without wildcards or spaces")
        return prefix
    return f"$JS.{domain}.API" if domain else "$JS.API"


def _check_credentials(options: OptionMap, connection: ConnectionOptions) -> None:
    families = {
        "user": bool(connection.user) or connection.password is not None,
        "token": connection.token is not None,
        "credsFile": bool(connection.creds_file),
        "credsSecret": connection.creds_secret is not None,
        "nkeyFile": bool(connection.nkey_file),
        "nkeySeedSecret": connection.nkey_seed_secret is not None,
    }
    given = [family for family, is_given in families.items() if is_given]
    if len(given) > 1:
        options.add_problem(
            given[0], f"cannot be combined with {', '.join(given[1:])}; give one kind of credential"
        )
    if connection.user and connection.password is None:
        options.add_problem("user", "needs the option password")
    if connection.password is not None and not connection.user:
        options.add_problem("password", "needs the option user")


def _check_tls(options: OptionMap, connection: ConnectionOptions) -> None:
    if connection.tls_cert_file and not connection.tls_key_file:
        options.add_problem("tlsCertFile", "needs the option tlsKeyFile")
    if connection.tls_key_file and not connection.tls_cert_file:
        options.add_problem("tlsKeyFile", "needs the option tlsCertFile")
    if connection.tls is False and (
        connection.tls_first or any(server.tls for server in connection.servers)
    ):
        options.add_problem("tls", "contradicts tlsFirst or a tls:// address")
