"""Verbs that need a cluster."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("subject", "response"),
    [
        ("STREAM.LEADER.STEPDOWN.S", "stream_leader_stepdown_response"),
        ("STREAM.PEER.REMOVE.S", "stream_remove_peer_response"),
        ("STREAM.PEER.EVACUATE.S", "stream_evacuate_peer_response"),
        ("STREAM.CANCEL_MOVE.S", "stream_cancel_move_response"),
        ("CONSUMER.LEADER.STEPDOWN.S.C", "consumer_leader_stepdown_response"),
    ],
)
def test_they_are_refused_whatever_the_body(exchange: Any, subject: str, response: str) -> None:
    assert exchange.ask(subject, b"xx") == {
        "type": response,
        "error": {
            "code": 503,
            "err_code": 10010,
            "description": "JetStream clustering support required",
        },
    }
