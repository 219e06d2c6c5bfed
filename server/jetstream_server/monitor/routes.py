"""Monitoring paths and what answers them; knows no HTTP library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jetstream_server.monitor import views
from jetstream_server.node.node import Node


class BadQueryError(Exception):
    """A query parameter that cannot be read; the text is the answer, with status 400."""


View = Callable[[Node, int, Mapping[str, str]], tuple[int, dict[str, Any]]]


def _number(query: Mapping[str, str], key: str) -> int:
    text = query.get(key, "")
    try:
        return int(text) if text else 0
    except ValueError:
        raise BadQueryError(
            f"Error decoding int for '{key}': strconv.Atoi: parsing \"{text}\": invalid syntax"
        ) from None


def _connz(node: Node, now: int, query: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
    offset, limit = _number(query, "offset"), _number(query, "limit")
    return 200, views.connz(node, now, offset=offset, limit=limit)


ROUTES: dict[str, View] = {
    "/varz": lambda node, now, query: (200, views.varz(node, now)),
    "/connz": _connz,
    "/jsz": lambda node, now, query: (200, views.jsz(node, now)),
    "/healthz": lambda node, now, query: views.healthz(node),
    "/subsz": lambda node, now, query: (200, views.subsz(node)),
}
