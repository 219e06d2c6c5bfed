"""Connections that outlive a task: one small pool for each process and set of options.

Spark keeps its Python workers between tasks and micro-batches, so a connection is worth keeping.
It is lent to one user at a time; the connections that nobody uses are in `Host.idle`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from jetstream_spark.client.flow import Flow
from jetstream_spark.client.operation import Host, Operation
from jetstream_spark.errors import (
    AuthenticationFailedError,
    CredentialsOutdatedError,
    SecretUnreadableError,
)
from jetstream_spark.options.connection_options import ConnectionOptions

# After more than this, a firewall or the JVM may have silently dropped the other end.
CHECK_AFTER_S = 5.0
IDLE_MAX_S = 60.0
IDLE_FLOWS_MAX = 4


def take(host: Host, options: ConnectionOptions, role: str) -> Operation[Flow]:
    """A live connection, from the pool or new; the caller closes it or puts it back.

    After any failure its buffer may hold half an answer: then close it.

    Raises:
        ConnectionFailedError, AuthenticationFailedError, CredentialsOutdatedError: as `connect`.
    """
    while (flow := _pop(host, options, role)) is not None:
        idle_s = host.now() - flow.idle_since
        if idle_s > IDLE_MAX_S:
            flow.close()
        elif idle_s < CHECK_AFTER_S or (yield from flow.check(min(1.0, options.request_timeout_s))):
            if not flow.is_leaving:
                return flow
            flow.close()
    return (yield from connect(host, options, role))


def connect(host: Host, options: ConnectionOptions, role: str) -> Operation[Flow]:
    """A new connection.

    An operator changes a password in a file and at the server one after the other. So if the
    credentials are in a file and were accepted before, a refusal may pass, like an outage. For a
    task that reads that is taken for granted: the driver was let in before it planned the task.

    Raises:
        CredentialsOutdatedError: the credentials are in a file, and were accepted before.
        ConnectionFailedError, AuthenticationFailedError, SecretUnreadableError: as `Flow.connect`.
    """
    try:
        flow = yield from Flow.connect(host, options, role)
    except (AuthenticationFailedError, SecretUnreadableError) as error:
        was_accepted = (options, role) in host.idle
        if isinstance(error, AuthenticationFailedError):
            was_accepted = was_accepted or role == "reader"
        if options.can_change and was_accepted:
            raise CredentialsOutdatedError(error.what, error.remedy) from None
        raise
    host.idle.setdefault((options, role), [])
    return flow


@contextlib.contextmanager
def keeping(host: Host, options: ConnectionOptions, role: str, flow: Flow) -> Iterator[Flow]:
    """Put a connection back when the body is done with it; close it if the body failed."""
    try:
        yield flow
    except BaseException:
        flow.close()
        raise
    put_back(host, options, role, flow)


def put_back(host: Host, options: ConnectionOptions, role: str, flow: Flow) -> None:
    """Keep a connection for the next user, unless its server is about to stop."""
    flow.idle_since = host.now()
    flows = host.idle.setdefault((options, role), [])
    if flow.is_open and not flow.is_leaving and len(flows) < IDLE_FLOWS_MAX:
        flows.append(flow)
    else:
        flow.close()


def close_all(host: Host) -> None:
    """Close every idle connection of a process."""
    while host.idle:
        for flow in host.idle.popitem()[1]:
            flow.close()


def _pop(host: Host, options: ConnectionOptions, role: str) -> Flow | None:
    flows = host.idle.get((options, role))
    try:
        return flows.pop() if flows else None
    except IndexError:  # another thread was quicker
        return None
