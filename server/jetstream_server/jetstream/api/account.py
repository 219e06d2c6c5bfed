"""`$JS.API.INFO`: what an account holds and may hold (docs/reference/api.md#account)."""

from __future__ import annotations

from typing import Any

from jetstream_server import API_LEVEL
from jetstream_server.jetstream.api.request import Request, route
from jetstream_server.jetstream.catalog.catalog import Catalog

# Streams here have no replicas.
_OWN_TIER = "R1"
STREAMS_OF_UNIT = 250  # of the workload, in which what each holds is added up


@route("INFO", "account_info_response")
def info(catalog: Catalog, request: Request) -> dict[str, Any]:
    """Return usage, limits and counters; this call itself is counted afterwards."""
    usage, limits = catalog.usage(), catalog.limits
    held = {
        "memory": usage.memory,
        "storage": usage.storage,
        "reserved_memory": usage.reserved_memory,
        "reserved_storage": usage.reserved_storage,
        "streams": len(catalog.names()),
        "consumers": catalog.consumer_count(),
    }
    catalog.context.workload.spend(held["streams"] // STREAMS_OF_UNIT)
    answer: dict[str, Any] = {**held, "limits": limits.to_wire()}
    if limits.tiers:  # each has its own limits, and overall there are none
        answer["limits"] = {key: type(value)() for key, value in limits.to_wire().items()}
    if catalog.context.domain:
        answer["domain"] = catalog.context.domain
    answer["api"] = {
        "level": API_LEVEL,
        "total": catalog.api_total,
        "errors": catalog.api_errors,
    }
    if limits.tiers:
        nothing = dict.fromkeys(held, 0)
        answer["tiers"] = {
            name: {**(held if name == _OWN_TIER else nothing), "limits": tier.to_wire()}
            for name, tier in sorted(limits.tiers.items())
        }
    return answer
