"""Whether the server is well."""

from __future__ import annotations

import pytest
from jetstream_server.monitor.healthz import HealthzOptions, healthz
from jetstream_server.monitor.query import Query

OK = (200, {"status": "ok"})


def health(node, **parameters):
    return healthz(node, HealthzOptions.of(Query(parameters)))


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"js-enabled-only": "true"},
        {"js-enabled": "1"},
        {"js-server-only": "1"},
        {"account": "A"},
        {"account": "A", "stream": "S"},
        {"account": "A", "stream": "S", "consumer": "C"},
        {"details": "1"},
    ],
)
def test_well(filled, parameters):
    assert health(filled, **parameters) == OK


@pytest.mark.parametrize(
    ("parameters", "status", "word", "text"),
    [
        ({"account": "NO"}, 404, "unavailable", 'JetStream account "NO" not found'),
        ({"stream": "S"}, 400, "error", '"account" must not be empty when checking stream health'),
        (
            {"account": "A", "consumer": "C"},
            400,
            "error",
            '"stream" must not be empty when checking consumer health',
        ),
        (
            {"account": "A", "stream": "NO"},
            404,
            "unavailable",
            'JetStream stream "NO" not found on account "A"',
        ),
        (
            {"account": "A", "stream": "S", "consumer": "NO"},
            404,
            "unavailable",
            'JetStream consumer "NO" not found for stream "S" on account "A"',
        ),
    ],
)
def test_what_is_asked_about_is_not_there(filled, parameters, status, word, text):
    assert health(filled, **parameters) == (status, {"status": word, "error": text})
    found, view = health(filled, details="1", **parameters)
    assert (found, view["status"]) == (status, "error")
    assert view["errors"][0]["error"] == text


def test_a_stream_that_is_offline(filled):
    catalog = filled.accounts["A"].catalog
    catalog.offline_reason = lambda name: "checksum mismatch"
    status, view = health(filled)
    assert (status, view["status"]) == (503, "unavailable")
    assert view["error"] == "JetStream stream 'A > S' is offline: checksum mismatch"
    assert health(filled, account="A", stream="S")[0] == 503
    assert health(filled, **{"js-server-only": "1"}) == OK
    assert health(filled, details="1")[1]["errors"] == [
        {"type": "STREAM", "account": "A", "stream": "S", "error": view["error"]}
    ]


def test_a_full_disk(filled):
    filled.disk_full = "the disk is full: No space left on device (/store/1.blk)"
    text = "JetStream storage: the disk is full: No space left on device (/store/1.blk)"
    assert health(filled) == (503, {"status": "unavailable", "error": text})
    assert health(filled, **{"js-server-only": "1"})[0] == 503
    assert health(filled, **{"js-enabled-only": "1"}) == OK
    assert health(filled, details="1")[1]["errors"] == [{"type": "JETSTREAM", "error": text}]


def test_damage_that_concerns_no_single_stream(filled):
    filled.storage_damage = "the journal is damaged"
    text = "JetStream storage: the journal is damaged"
    assert health(filled) == (503, {"status": "unavailable", "error": text})
    assert health(filled, **{"js-server-only": "1"}) == OK
    assert health(filled, details="1")[1]["errors"] == [{"type": "JETSTREAM", "error": text}]


def test_without_jetstream(plain_node):
    assert health(plain_node) == OK
    assert health(plain_node, **{"js-enabled-only": "1"})[0] == 503


def test_a_closed_link_shows_without_jetstream_as_well(plain_node, monkeypatch):
    monkeypatch.setattr(plain_node.links, "outages", lambda: [("a link", "a reason")])
    status, view = healthz(plain_node, HealthzOptions(details=True))
    text = "a link is closed until the next reload: a reason"
    assert (status, view["errors"]) == (503, [{"type": "ACCOUNT", "error": text}])
    assert healthz(plain_node, HealthzOptions(server_only=True))[0] == 200
    monkeypatch.undo()
    plain_node.is_half_reloaded = True
    assert healthz(plain_node, HealthzOptions())[0] == 503


def test_a_lame_duck_is_not_ready(node, now):
    node.enter_lame_duck(now)
    text = "failed to be ready for connections after 1ms: server"
    assert healthz(node) == (500, {"status": "error", "error": text})
