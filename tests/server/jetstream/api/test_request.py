"""The table of routes."""

from __future__ import annotations

import pytest
from jetstream_server.jetstream.api import request


def test_a_route_is_registered_with_its_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "ROUTES", [])

    @request.route("STREAM.THING.*", "thing_response", {"n": 0}, quiet=True)
    def handler(catalog: object, asked: request.Request) -> None:
        return None

    (route,) = request.ROUTES
    assert route.pattern == ("STREAM", "THING", "*")
    assert (route.response, route.zero, route.handler) == ("thing_response", {"n": 0}, handler)
    assert route.level_first and route.quiet


def test_patterns_are_unique() -> None:
    patterns = [route.pattern for route in request.ROUTES]
    assert len(patterns) == len(set(patterns))
