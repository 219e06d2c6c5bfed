"""Monitoring paths."""

from __future__ import annotations

import pytest
from jetstream_server.monitor.routes import ROUTES, BadQueryError


def test_the_paths_of_the_genuine_server_that_are_offered():
    assert set(ROUTES) == {"/varz", "/connz", "/jsz", "/healthz", "/subsz"}


def test_a_number_that_is_none_is_refused():
    with pytest.raises(BadQueryError, match="Error decoding int for 'offset'"):
        ROUTES["/connz"](None, 0, {"offset": "x"})
