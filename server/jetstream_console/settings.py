"""What the command line says, checked."""

from __future__ import annotations

import argparse
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from jetstream_console.asking.link import Target
from jetstream_spark.options.option_values import Secret

PORT = 8322

_ABOUT = """\
A console in the browser for JetStream servers: http://127.0.0.1:8322 unless told otherwise.
It shows, and changes nothing unless --writable is given. Secrets: env:NAME or file:PATH.
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """How the console is to run.

    Attributes:
        monitor: address of a server's monitoring; empty for none.
        checkpoints: a folder in which Spark's queries have their checkpoints; empty for none.
        events: a folder in which Spark's applications have their event logs; empty for none.
        page_password: what somebody at a browser has to know; None if only this machine can reach
            it.
        is_writable: whether streams, messages, consumers and buckets may be changed.
    """

    target: Target
    monitor: str
    host: str
    port: int
    page_password: Secret | None
    is_writable: bool
    checkpoints: str = ""
    events: str = ""


def read_settings(arguments: Sequence[str]) -> Settings:
    """Return what the command line says.

    Raises:
        SystemExit: it makes no sense; argparse has said why.
    """
    parser = _parser()
    given = parser.parse_args(arguments)
    if not is_loopback(given.host) and given.page_password is None:
        parser.error(
            f"--host {given.host} can be reached from elsewhere: give --page-password as well"
        )
    if given.tls_key and not given.tls_cert:
        parser.error("--tls-key is of no use without --tls-cert")
    if given.monitor and urlsplit(given.monitor).scheme not in ("http", "https"):
        parser.error("--monitor has the form http://host:8222")
    target = Target(
        servers=tuple(each.strip() for each in given.servers.split(",") if each.strip()),
        user=given.user,
        password=given.password,
        token=given.token,
        creds=given.creds,
        nkey=given.nkey,
        tls_ca=given.tls_ca,
        tls_cert=given.tls_cert,
        tls_key=given.tls_key,
        domain=given.domain,
        inbox_prefix=given.inbox_prefix,
        request_timeout_s=given.timeout,
    )
    return Settings(
        target=target,
        monitor=given.monitor,
        host=given.host,
        port=given.port,
        page_password=given.page_password,
        is_writable=given.writable,
        checkpoints=given.checkpoints,
        events=given.events,
    )


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach something that listens there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="jetstream-console",
        description=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--servers", default="nats://127.0.0.1:4222", help="addresses, with commas between them")
    for name, text in (
        ("--user", "who to connect as"),
        ("--creds", "a file with a JWT and its seed"),
        ("--nkey", "a file with the seed of an nkey"),
        ("--tls-ca", "certificates of authorities to trust, a PEM file"),
        ("--tls-cert", "the certificate of this client"),
        ("--tls-key", "and its key"),
        ("--domain", "the JetStream domain"),
        ("--monitor", "the monitoring of a server, such as http://127.0.0.1:8222"),
        ("--checkpoints", "a folder on this machine, or one above it, that queries of Spark have"),
        ("--events", "a folder on this machine with event logs of Spark (spark.eventLog.dir)"),
    ):
        add(name, default="", help=text)
    for name, text in (
        ("--password", "of the user"),
        ("--token", "in place of a user"),
        (
            "--page-password",
            "what browsers have to know; asked for when --host is not this machine",
        ),
    ):
        add(name, type=_secret, metavar="env:NAME|file:PATH", help=text)
    add("--inbox-prefix", default="_INBOX", help="where answers go")
    add("--timeout", type=_seconds, default=5.0, help="seconds to wait for an answer")
    add("--host", default="127.0.0.1", help="where to listen")
    add("--port", type=int, default=PORT, help="0 for any that is free")
    add("--writable", action="store_true", help="allow what changes or destroys something")
    return parser


def _secret(text: str) -> Secret:
    kind, _, place = text.partition(":")
    if kind not in ("env", "file") or not place:
        # The text is not repeated: it may be a secret.
        raise argparse.ArgumentTypeError(
            "is given as env:NAME or file:PATH, for everybody here can see a command line"
        )
    return Secret(text)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= 600:
        raise ValueError
    return seconds
