"""Connections that outlive a task: one small pool for each process and set of options.

Spark keeps its Python workers between tasks and micro-batches, so a connection is worth keeping. A
worker is forked from a process that may already hold connections; those belong to the parent, so
the pool starts anew whenever the process id changes. A connection is lent to one user at a time.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator

from jetstream_spark.client.flow import Flow
from jetstream_spark.connection_options import ConnectionOptions

# Longer than this and a firewall or the JVM may have dropped the other end silently.
CHECK_AFTER_S = 5.0
IDLE_MAX_S = 60.0
IDLE_FLOWS_MAX = 4

_lock = threading.Lock()
_idle: dict[tuple[ConnectionOptions, str], list[Flow]] = {}
_owner_pid = os.getpid()


@contextlib.contextmanager
def lease(options: ConnectionOptions, role: str) -> Iterator[Flow]:
    """Lend a live connection; it returns to the pool unless the body raised or it broke.

    After any exception its buffer may hold half an answer, so it is closed.

    Raises:
        ConnectionFailedError, AuthenticationFailedError: as `Flow.connect`.
    """
    flow = take(options, role)
    try:
        yield flow
    except BaseException:
        flow.close()
        raise
    put_back(options, role, flow)


def take(options: ConnectionOptions, role: str) -> Flow:
    """A live connection, from the pool or new; the caller closes it or puts it back."""
    while (flow := _pop(options, role)) is not None:
        idle_s = time.monotonic() - flow.idle_since
        if idle_s > IDLE_MAX_S:
            flow.close()
        elif idle_s < CHECK_AFTER_S or flow.check(min(1.0, options.request_timeout_s)):
            return flow
    return Flow.connect(options, role)


def put_back(options: ConnectionOptions, role: str, flow: Flow) -> None:
    """Keep a connection for the next user."""
    flow.idle_since = time.monotonic()
    with _lock:
        flows = _flows(options, role)
        if flow.is_open and len(flows) < IDLE_FLOWS_MAX:
            flows.append(flow)
            return
    flow.close()


def close_all() -> None:
    """Close every idle connection of this process."""
    with _lock:
        flows = [flow for kept in _idle.values() for flow in kept]
        _idle.clear()
    for flow in flows:
        flow.close()


def _pop(options: ConnectionOptions, role: str) -> Flow | None:
    with _lock:
        flows = _flows(options, role)
        return flows.pop() if flows else None


def _flows(options: ConnectionOptions, role: str) -> list[Flow]:
    global _owner_pid
    if _owner_pid != os.getpid():
        _idle.clear()  # Closes only this process's copies of the parent's descriptors.
        _owner_pid = os.getpid()
    return _idle.setdefault((options, role), [])
