"""STREAM.MSG.GET and STREAM.MSG.DELETE: selectors, shapes, refusals."""

from __future__ import annotations

import json
from array import array
from typing import Any

import pytest
from jetstream_server.store.ports import Window

HEADERS = b"NATS/1.0\r\nA: 1\r\n\r\n"


@pytest.fixture
def stored(exchange: Any) -> Any:
    """Messages s.a, s.b, s.a with sequences 1 to 3, a nanosecond apart."""
    exchange.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s.*"]})
    exchange.publish("s.a", b"hi", HEADERS)
    exchange.publish("s.b", b"")
    exchange.publish("s.a", b"x")
    return exchange


def test_the_shape_of_a_message(stored: Any) -> None:
    assert stored.ask("STREAM.MSG.GET.S", {"seq": 1})["message"] == {
        "subject": "s.a",
        "seq": 1,
        "hdrs": "TkFUUy8xLjANCkE6IDENCg0K",
        "data": "aGk=",
        "time": "2023-11-14T22:13:20.000000001Z",
    }
    bare = stored.ask("STREAM.MSG.GET.S", {"seq": 2})["message"]
    assert list(bare) == ["subject", "seq", "time"]
    without = stored.ask("STREAM.MSG.GET.S", {"seq": 1, "no_hdr": True})["message"]
    assert "hdrs" not in without


@pytest.mark.parametrize(
    ("selector", "sequence"),
    [
        ({"seq": 2}, 2),
        ({"last_by_subj": "s.a"}, 3),
        ({"last_by_subj": "s.*"}, 3),
        ({"last_by_subj": "s.b"}, 2),
        ({"next_by_subj": "s.a"}, 1),
        ({"next_by_subj": "s.a", "seq": 2}, 3),
        ({"start_time": "2020-01-01T00:00:00Z"}, 1),
        ({"start_time": "2023-11-14T22:13:20.000000002Z"}, 2),
        ({"start_time": "2023-11-14T22:13:20.000000002Z", "next_by_subj": "s.a"}, 3),
        ({"seq": 1, "batch": -1, "multi_last": [], "up_to_seq": 9}, 1),
    ],
)
def test_selectors(stored: Any, selector: dict[str, Any], sequence: int) -> None:
    assert stored.ask("STREAM.MSG.GET.S", selector)["message"]["seq"] == sequence


@pytest.mark.parametrize(
    "selector",
    [
        {"seq": 4},
        {"last_by_subj": "s.c"},
        {"last_by_subj": "s..a"},
        {"next_by_subj": "s.b", "seq": 3},
        {"start_time": "2040-01-01T00:00:00Z"},
    ],
)
def test_nothing_is_found(stored: Any, selector: dict[str, Any]) -> None:
    assert stored.refusal("STREAM.MSG.GET.S", selector) == (10037, "no message found")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{ }",
        b"null",
        b'{"seq":0}',
        b'{"no_hdr":true}',
        b'{"last_by_subj":""}',
        b'{"up_to_seq":1}',
        b'{"seq":1,"last_by_subj":"s.a"}',
        b'{"last_by_subj":"s.a","next_by_subj":"s.a"}',
        b'{"start_time":"2020-01-01T00:00:00Z","seq":1}',
        b'{"start_time":"2020-01-01T00:00:00Z","last_by_subj":"s.a"}',
        b'{"seq":1,"batch":1}',
        b'{"seq":1,"max_bytes":1}',
        b'{"multi_last":["s.a"]}',
    ],
)
def test_requests_that_select_nothing_or_too_much(stored: Any, body: bytes) -> None:
    assert stored.refusal("STREAM.MSG.GET.S", body) == (10003, "bad request")
    assert stored.refusal("STREAM.MSG.GET.NOPE", body) == (10003, "bad request")


def test_get_is_refused(stored: Any) -> None:
    assert stored.refusal("STREAM.MSG.GET.NOPE", {"seq": 1}) == (10059, "stream not found")
    assert stored.refusal("STREAM.MSG.GET.S", b"[]") == (
        10025,
        "invalid JSON: json: cannot unmarshal array into Go value of type "
        "server.JSApiMsgGetRequest",
    )


def test_delete(stored: Any) -> None:
    assert stored.raw("STREAM.MSG.DELETE.S", b'{"seq":2}') == (
        b'{"type":"io.nats.jetstream.api.v1.stream_msg_delete_response","success":true}'
    )
    assert stored.refusal("STREAM.MSG.GET.S", {"seq": 2})[0] == 10037
    assert stored.refusal("STREAM.MSG.DELETE.S", {"seq": 2}) == (10043, "sequence 2 not found")
    assert stored.refusal("STREAM.MSG.DELETE.S", {"seq": 9}) == (10057, "stream store EOF")
    assert stored.refusal("STREAM.MSG.DELETE.S", {"no_erase": True}) == (
        10057,
        "no message found",
    )


def test_delete_is_refused(stored: Any) -> None:
    assert stored.refusal("STREAM.MSG.DELETE.S", b"{ }") == (10003, "bad request")
    assert stored.refusal("STREAM.MSG.DELETE.S", b"5")[0] == 10025
    assert stored.refusal("STREAM.MSG.DELETE.NOPE", {"seq": 1})[0] == 10059
    stored.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.*"], "deny_delete": True})
    assert stored.refusal("STREAM.MSG.DELETE.S", {"seq": 9}) == (
        10057,
        "message delete not permitted",
    )


def turn(exchange: Any) -> list[Any]:
    """Have a turn; return the answers."""
    exchange.output.sends_after_flush.clear()
    exchange.now += 1_000_000
    for each in exchange.context.deadlines.pop_due(exchange.now):
        each.tick(exchange.now)
    return [json.loads(data) for subject, data in exchange.sent() if subject == b"_INBOX.1"]


@pytest.mark.parametrize("between", ["nothing", "publish", "purge", "delete", "made anew"])
def test_the_next_message_of_a_subject_is_looked_for_in_slices(
    stored: Any, monkeypatch: pytest.MonkeyPatch, between: str
) -> None:
    def in_pieces(store: Any) -> None:
        window = store.window

        def one(wanted: Any, sequence: int, count_max: int, bytes_max: int) -> Any:
            found = window(wanted, sequence, count_max, bytes_max)
            if sequence < 1 or found.sequences[:1] != array("Q", [sequence]):
                found = Window(b"", array("Q"), array("Q"), array("Q"), sequence + 1)
            return found

        monkeypatch.setattr(store, "window", one)

    store = stored.catalog.streams["S"].store
    in_pieces(store)
    asked = json.dumps({"seq": 2, "next_by_subj": "s.c"}).encode()
    if between == "nothing":
        asked = asked.replace(b"s.c", b"s.a")
    assert stored.raw("STREAM.MSG.GET.S", asked) is None
    if between == "publish":
        stored.publish("s.c", b"new")
    elif between == "purge":
        stored.ask("STREAM.PURGE.S")
    elif between in ("delete", "made anew"):
        stored.ask("STREAM.DELETE.S")
        if between == "made anew":
            stored.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s.*"]})
            stored.publish("s.c")
    answers = [answer for _ in range(6) for answer in turn(stored)]
    (answer,) = answers
    match between:
        case "nothing":
            assert answer["message"]["seq"] == 3
        case "publish":
            assert answer["message"]["seq"] == 4
        case "purge":
            assert answer["error"]["err_code"] == 10037
        case _:
            assert answer["error"]["err_code"] == 10059
