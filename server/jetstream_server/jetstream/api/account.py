"""`$JS.API.INFO`: what an account holds and may hold (reference 3.4)."""

from __future__ import annotations

from typing import Any

from jetstream_server import API_LEVEL
from jetstream_server.jetstream.api.request import Request, route
from jetstream_server.jetstream.catalog import Catalog


@route("INFO", "account_info_response")
def info(catalog: Catalog, request: Request) -> dict[str, Any]:
    """Return usage, limits and counters; this call itself is counted afterwards."""
    usage = catalog.usage()
    answer: dict[str, Any] = {
        "memory": usage.memory,
        "storage": usage.storage,
        "reserved_memory": usage.reserved_memory,
        "reserved_storage": usage.reserved_storage,
        "streams": len(catalog.names()),
        "consumers": catalog.consumer_count(),
        "limits": catalog.limits.to_wire(),
    }
    if catalog.context.domain:
        answer["domain"] = catalog.context.domain
    answer["api"] = {
        "level": API_LEVEL,
        "total": catalog.api_total,
        "errors": catalog.api_errors,
    }
    return answer
