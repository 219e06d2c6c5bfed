"""Connections of the connector's pool, for tests that play the client themselves."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from jetstream_spark.client import pool
from jetstream_spark.client.blocking import Blocking, run, this_host
from jetstream_spark.options.connection_options import ConnectionOptions


@contextlib.contextmanager
def lease(options: ConnectionOptions, role: str) -> Iterator[Any]:
    """Lend a connection of the pool as a `Blocking` flow; if its user fails, it is closed."""
    host = this_host()
    flow = run(pool.take(host, options, role))
    with pool.keeping(host, options, role, flow):
        yield Blocking(flow)
