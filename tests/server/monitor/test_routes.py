"""Monitoring paths."""

from __future__ import annotations

import pytest
from jetstream_server.core.steps import without_pauses
from jetstream_server.monitor.query import BadQueryError
from jetstream_server.monitor.routes import PATHS, answer_in_steps, count


def answer(path, node, now, parameters):
    return without_pauses(answer_in_steps(path, node, now, parameters))


def test_every_path_answers(filled, now):
    for path in PATHS:
        found = answer(path, filled, now, {})
        assert (found.status, bool(found.text)) == (
            (404, True) if path == "/raftz" else (200, False)
        )
        assert found.compact == (path == "/healthz")


def test_requests_are_counted(node, now):
    for path in ("/varz", "/subsz", "/subscriptionsz", "/raftz"):
        count(path, node)
    assert answer("/varz", node, now, {}).view["http_req_stats"] == {"/subsz": 2, "/varz": 1}


def test_parameters_reach_the_views(filled, now):
    assert answer("/healthz", filled, now, {"account": "NO"}).status == 404
    assert "account_details" in answer("/jsz", filled, now, {"acc": "A"}).view
    assert answer("/accountz", filled, now, {"acc": "A"}).view["account_detail"]
    assert answer("/subsz", filled, now, {"subs": "1"}).view["total"] > 0
    assert len(answer("/accstatz", filled, now, {"unused": "1"}).view["account_statz"]) == 3


def test_a_number_that_is_none_is_refused(node, now):
    with pytest.raises(BadQueryError, match="Error decoding int for 'offset'"):
        answer("/connz", node, now, {"offset": "x"})
