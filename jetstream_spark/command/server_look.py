"""What each server says to a connection, one server after the other, and how long it takes."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from dataclasses import replace

from jetstream_spark.client import pool
from jetstream_spark.client.blocking import run, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.client.flow import Flow
from jetstream_spark.client.operation import Operation
from jetstream_spark.command.environment import of_clocks, of_info
from jetstream_spark.command.finding import FAIL, OK, WARN, Finding, failed
from jetstream_spark.command.needed_subjects import GrantedRights, Need
from jetstream_spark.errors import ConnectorError
from jetstream_spark.options.connection_options import ConnectionOptions
from jetstream_spark.options.option_values import timestamp_ns

_CERTIFICATE_DAYS = 14
_LOOPBACK = ("127.", "localhost", "::1")


def look_at_servers(options: ConnectionOptions) -> Iterator[Finding]:
    """Connect to each server by itself: is it there, does it let us in, does it have JetStream and
    TLS?"""
    for server in options.servers:
        check = f"server {server}"
        alone = replace(options, servers=(server,), ignore_discovered_servers=True)
        started = time.monotonic()
        try:
            flow = run(Flow.connect(this_host(), alone, "doctor"))
        except ConnectorError as error:
            yield failed(check, error)
            continue
        took_ms = (time.monotonic() - started) * 1000
        try:
            yield of_info(check, flow.info, took_ms)
            yield from _of_tls(f"tls {server}", server.host, options, flow)
        finally:
            flow.close()


def _of_tls(check: str, host: str, options: ConnectionOptions, flow: Flow) -> Iterator[Finding]:
    if not flow.link.is_encrypted:
        has_secret = any((options.user, options.password, options.token))
        if has_secret and not host.startswith(_LOOPBACK):
            yield Finding(
                WARN,
                check,
                "the connection is not encrypted, and a password or token goes over it",
                "Set up TLS at the server and the option tls=true, or sign in by a key "
                "(credsFile, nkeyFile), which never leaves this machine.",
            )
        return
    connection = getattr(flow.link.carrier, "socket", None)
    certificate = connection.getpeercert() if isinstance(connection, ssl.SSLSocket) else None
    until = (certificate or {}).get("notAfter")
    if not isinstance(until, str):
        yield Finding(OK, check, "encrypted")
        return
    days = (ssl.cert_time_to_seconds(until) - time.time()) / 86_400
    what = f"encrypted, the server's certificate is good for {days:.0f} days"
    if days < _CERTIFICATE_DAYS:
        remedy = "Renew the server's certificate; a reload takes it up without cutting connections."
        yield Finding(WARN, check, what, remedy)
    else:
        yield Finding(OK, check, what)


def look_at_clock(control: Control, stream: str) -> Operation[list[Finding]]:
    """Compare this machine's clock with that of the server which has a stream."""
    before_ns = control.host.wall_time_ns()
    answer = yield from control.request(f"STREAM.INFO.{stream}")
    after_ns = control.host.wall_time_ns()
    try:
        there_ns = timestamp_ns(str(answer["ts"]))
    except (KeyError, ValueError):
        return []  # servers before 2.10 did not say
    middle_ns = (before_ns + after_ns) // 2
    error_s = (after_ns - before_ns) / 2e9
    return [of_clocks("clock", (middle_ns - there_ns) / 1e9, error_s)]


def look_at_rights(control: Control, needs: list[Need]) -> Operation[list[Finding]]:
    """Compare what a job needs with what the user may, if the server tells."""
    asking = Control(control.host, control.options, control.role, patience_s=0)
    try:
        rights = GrantedRights((yield from asking.request_message("$SYS.REQ.USER.INFO", b"")))
    except ConnectorError as error:
        pool.close_all(control.host)  # a late denial must not hit another request
        what = f"what the user may is not known: {error.what}"
        remedy = "Allow it $SYS.REQ.USER.INFO, and compare these by hand: "
        listed = "; ".join(f"{one.action} {one.subject}" for one in needs)
        return [Finding(WARN, "permissions", what, f"{remedy}{listed}")]
    found = [
        Finding(
            WARN if one.otherwise else FAIL,
            "permissions",
            f"user '{rights.user}' may not {one.action} {one.subject} ({one.why})",
            f"Allow the user to {one.action} {one.subject}"
            + (f", or {one.otherwise}." if one.otherwise else "."),
        )
        for one in needs
        if not rights.allows(one)
    ]
    who = f"user '{rights.user}' of account '{rights.account}'"
    return found or [
        Finding(OK, "permissions", f"{who} may do all {len(needs)} things that it needs")
    ]
