"""Bodies of MSG.NEXT."""

from __future__ import annotations

import orjson
import pytest
from jetstream_server.jetstream.consumers.pull_request import PullBody, PullRequest, parse_request

NOW = 1_000_000


@pytest.mark.parametrize(
    ("body", "batch", "is_counted"),
    [
        (b"", 1, True),
        (b"7", 7, True),
        (b" 7", 7, True),
        (b"0", 1, True),
        (b"-3", 1, True),
        (b"abc", 1, True),
        (b"9" * 5000, 1, True),
        (b"[1]", 1, True),
        (b"{}", 1, False),
        (b'{"batch":0}', 1, False),
        (b'{"batch":-1}', 1, False),
        (b'{"batch":5,"unknown":true}', 5, True),
        (b'{"BATCH":5}', 5, True),
    ],
)
def test_batches(body, batch, is_counted):
    request = parse_request(b"in", body, NOW)
    assert isinstance(request, PullRequest)
    assert (request.batch, request.is_counted) == (batch, is_counted)


def test_every_field():
    body = (
        b'{"batch":3,"expires":1000,"no_wait":true,"max_bytes":50,"idle_heartbeat":500,'
        b'"group":"g","min_pending":4,"min_ack_pending":5,"id":"pin","priority":6}'
    )
    request = parse_request(b"in", body, NOW)
    assert request.expires_at == NOW + 1000
    assert request.heartbeat_at == request.deadline == NOW + 500
    assert (request.no_wait, request.max_bytes, request.limits_bytes) == (True, 50, True)
    assert (request.group, request.pin, request.priority) == ("g", "pin", 6)
    assert (request.min_pending, request.min_ack_pending) == (4, 5)
    assert request.pending_fields == b"Nats-Pending-Messages: 3\r\nNats-Pending-Bytes: 50\r\n"


def test_of_long_names_not_all_is_kept_and_what_is_kept_is_none_that_there_is():
    long_name = b"g" * 500_000
    request = parse_request(b"in", b'{"group":"%b","id":"%b"}' % (long_name, long_name), NOW)
    for kept in (request.group, request.pin):
        assert 22 < len(kept) < 100


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"batch":', "unexpected end of JSON input"),
        (b"{bad}", "invalid character 'b' looking for beginning of object key string"),
        (
            b'{"batch":"x"}',
            "json: cannot unmarshal string into Go struct field .batch of type int",
        ),
        (
            b'{"expires":1.5}',
            "json: cannot unmarshal number 1.5 into Go struct field .expires of type time.Duration",
        ),
        (b'{"idle_heartbeat":1}', "heartbeat value too large"),
        (b'{"expires":999,"idle_heartbeat":500}', "heartbeat value too large"),
    ],
)
def test_refusals(body, reason):
    assert parse_request(b"in", body, NOW) == reason


def test_a_past_expiry_is_not_never():
    assert 0 < parse_request(b"in", b'{"expires":-1}', NOW).expires_at < NOW
    assert parse_request(b"in", b'{"expires":%d}' % -(2**62), NOW).expires_at == 1


@pytest.mark.parametrize(("body", "is_text"), [(b"", True), (b"3", True), (b"{}", False)])
def test_only_json_can_name_a_group(body, is_text):
    request = parse_request(b"in", body, NOW)
    assert isinstance(request, PullRequest)
    assert request.is_text is is_text


def test_an_odd_body_has_no_serializer_made():
    """Pydantic would make it in the turn of the first such request, which takes 50 ms."""
    request = parse_request(b"in", b'{"batch":5,"unknown":true}', NOW)
    assert request.batch == 5
    assert not PullBody.__pydantic_complete__


def test_a_long_one_is_read_once_and_names_that_nobody_knows_are_not_all_looked_at(monkeypatch):
    """40,000 members took 30 ms."""
    reads, units = [], []
    loads = orjson.loads
    monkeypatch.setattr(orjson, "loads", lambda text: reads.append(text) or loads(text))
    members = "".join(f',"{number:x}":1' for number in range(40_000))
    body = f'{{"batch":5{members}}}'.encode()
    refused = parse_request(b"in", body, NOW, units.append)
    assert refused == "40001 members, of which at most 10000 are read"
    assert len(reads) == 1
    assert sum(units) > 500
    more = "".join(f',"{number:x}":1' for number in range(90_000))
    refused = parse_request(b"in", f'{{"batch":5{more}}}'.encode(), NOW, units.append)
    assert refused == "90001 members, of which at most 50000 are read"
    assert len(reads) == 1
    assert sum(units) > 1500
    members = "".join(f',"{number:x}":1' for number in range(9000))
    request = parse_request(b"in", f'{{"batch":5{members}}}'.encode(), NOW)
    assert isinstance(request, PullRequest)
    assert request.batch == 5


def test_a_long_one_is_work_even_if_it_says_little():
    units: list[float] = []
    body = b'{"batch":1%b}' % (b',"batch":1' * 45_000)
    assert isinstance(parse_request(b"in", body, NOW, units.append), PullRequest)
    assert sum(units) > 500
