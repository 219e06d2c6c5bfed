"""STREAM verbs: answers and the order of refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jetstream_server.jetstream.api import list_page, streams
from jetstream_server.jetstream.streams.reads import subject_page

NAME_TEXT = r"stream name is required and can not contain '.', '*', '>', '\', '/'"


def test_create_answers_with_the_whole_stream(exchange: Any) -> None:
    answer = exchange.ask("STREAM.CREATE.ORDERS", {"name": "ORDERS", "subjects": ["orders.*"]})
    assert list(answer) == ["type", "config", "created", "state", "ts", "did_create"]
    assert answer["type"] == "stream_create_response"
    assert answer["created"] == answer["ts"] == "2023-11-14T22:13:20Z"
    assert answer["state"] == {
        "messages": 0,
        "bytes": 0,
        "first_seq": 0,
        "first_ts": "0001-01-01T00:00:00Z",
        "last_seq": 0,
        "last_ts": "0001-01-01T00:00:00Z",
        "consumer_count": 0,
    }


def test_creating_it_again_succeeds_with_the_same_config_only(exchange: Any) -> None:
    first = exchange.ask("STREAM.CREATE.S", {"name": "S", "max_msgs": 0})
    exchange.now += 5
    again = exchange.ask("STREAM.CREATE.S", {"name": "S", "max_msgs": -1})
    assert again["created"] == first["created"] and again["did_create"]
    echoed = exchange.ask("STREAM.CREATE.S", first["config"])
    assert "error" not in echoed
    assert exchange.refusal("STREAM.CREATE.S", {"name": "S", "max_msgs": 5}) == (
        10058,
        "stream name already in use with a different configuration",
    )


@pytest.mark.parametrize(
    ("token", "body", "err_code"),
    [
        ("S", b"{bad", 10025),
        ("S", b"", 10056),
        ("S", b'{"name":"T"}', 10056),
        ("a/b", b'{"name":"a/b","sealed":true}', 10128),
        ("a\\b", b'{"name":"a\\\\b"}', 10128),
        ("S", b'{"name":"S","sealed":true,"mirror_direct":true}', 10052),
        ("S", b'{"name":"S","mirror_direct":true,"num_replicas":3}', 10052),
        ("S", b'{"name":"S","num_replicas":3,"subjects":["taken"]}', 10074),
        ("S", b'{"name":"S","subjects":["*"]}', 10065),
        ("S", b'{"name":"S","subjects":[">"],"no_ack":true}', 10065),
    ],
)
def test_create_is_refused(exchange: Any, token: str, body: bytes, err_code: int) -> None:
    exchange.ask("STREAM.CREATE.T", {"name": "T", "subjects": ["taken"]})
    assert exchange.refusal(f"STREAM.CREATE.{token}", body)[0] == err_code
    assert exchange.ask("STREAM.NAMES")["streams"] == ["T"]


def test_own_subjects_are_looked_at_before_those_of_others(exchange: Any) -> None:
    exchange.ask("STREAM.CREATE.T", {"name": "T", "subjects": ["taken"]})
    refusal = exchange.refusal("STREAM.CREATE.S", {"name": "S", "subjects": ["taken", "*"]})
    assert refusal == (10052, 'subject "taken" overlaps with "*"')


def test_an_existing_stream_is_compared_before_overlaps(exchange: Any) -> None:
    exchange.ask("STREAM.CREATE.T", {"name": "T", "subjects": ["taken"]})
    exchange.ask("STREAM.CREATE.S", {"name": "S"})
    refusal = exchange.refusal("STREAM.CREATE.S", {"name": "S", "subjects": ["taken"]})
    assert refusal[0] == 10058


def test_update_changes_and_shows_the_domain(make_exchange: Any) -> None:
    exchange = make_exchange(domain="D")
    assert "domain" not in exchange.ask("STREAM.CREATE.S", {"name": "S"})
    answer = exchange.ask("STREAM.UPDATE.S", {"name": "S", "max_msgs": 5})
    assert list(answer) == ["type", "config", "created", "state", "domain", "ts"]
    assert answer["config"]["max_msgs"] == 5
    assert exchange.ask("STREAM.LIST")["streams"][0]["domain"] == "D"


@pytest.mark.parametrize(
    ("token", "body", "err_code", "text"),
    [
        ("S", {}, 10052, NAME_TEXT),
        ("a/b", {"name": "a/b"}, 10052, NAME_TEXT),
        ("S", {"name": "T"}, 10056, "stream name in subject does not match request"),
        ("S", {"name": "T", "max_age": -1}, 10052, "max age can not be negative"),
        ("X", {"name": "X"}, 10059, "stream not found"),
        (
            "S",
            {"name": "S", "num_replicas": 2, "storage": "memory"},
            10074,
            "replicas > 1 not supported in non-clustered mode",
        ),
        (
            "S",
            {"name": "S", "storage": "memory", "subjects": ["T"]},
            10052,
            "stream configuration update can not change storage type",
        ),
        (
            "S",
            {"name": "S", "subjects": ["T"]},
            10065,
            "subjects overlap with an existing stream",
        ),
    ],
)
def test_update_is_refused(
    exchange: Any, token: str, body: dict[str, Any], err_code: int, text: str
) -> None:
    for name in "ST":
        exchange.ask(f"STREAM.CREATE.{name}", {"name": name})
    before = exchange.ask("STREAM.INFO.S")["config"]
    assert exchange.refusal(f"STREAM.UPDATE.{token}", body) == (err_code, text)
    assert exchange.ask("STREAM.INFO.S")["config"] == before


def test_update_takes_effect(exchange: Any) -> None:
    exchange.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["a"]})
    for _ in range(5):
        exchange.publish("a")
    state = exchange.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["b"], "max_msgs": 2})[
        "state"
    ]
    assert (state["messages"], state["first_seq"]) == (2, 4)
    exchange.publish("a")
    exchange.publish("b")
    assert exchange.ask("STREAM.INFO.S")["state"]["last_seq"] == 6


def test_sealing_by_update(exchange: Any) -> None:
    exchange.ask("STREAM.CREATE.S", {"name": "S", "max_age": 10**12})
    config = exchange.ask("STREAM.UPDATE.S", {"name": "S", "sealed": True})["config"]
    sealed = ("sealed", "discard", "deny_delete", "deny_purge", "max_age")
    assert [config[name] for name in sealed] == [True, "new", True, True, 0]
    assert exchange.refusal("STREAM.PURGE.S")[0] == 10109
    assert exchange.refusal("STREAM.UPDATE.S", {"name": "S", "sealed": True}) == (
        10052,
        "stream configuration update can not cancel deny message deletes",
    )
    assert "error" not in exchange.ask("STREAM.UPDATE.S", config)


def test_info_shows_subjects_in_pages_and_missing_sequences(exchange: Any) -> None:
    exchange.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s.*"]})
    for token in ("a", "b", "c", "b"):
        exchange.publish(f"s.{token}")
    exchange.ask("STREAM.MSG.DELETE.S", {"seq": 2})
    plain = exchange.ask("STREAM.INFO.S", b"not json")
    assert list(plain)[:4] == ["type", "total", "offset", "limit"]
    assert [plain[name] for name in ("total", "offset", "limit")] == [0, 0, 0]
    assert plain["cluster"] == {"leader": "srv"}
    assert "subjects" not in plain["state"] and "deleted" not in plain["state"]
    asked = exchange.ask("STREAM.INFO.S", {"subjects_filter": ">", "deleted_details": True})
    assert [asked[name] for name in ("total", "offset", "limit")] == [3, 0, 100_000]
    assert asked["state"]["subjects"] == {"s.a": 1, "s.b": 1, "s.c": 1}
    assert asked["state"]["deleted"] == [2]
    paged = exchange.ask("STREAM.INFO.S", {"subjects_filter": "s.*", "offset": 2})
    assert paged["state"]["subjects"] == {"s.c": 1}
    beyond = exchange.ask("STREAM.INFO.S", {"subjects_filter": "s.*", "offset": 100})
    assert (beyond["total"], beyond["offset"]) == (3, 100)
    assert "subjects" not in beyond["state"]
    nothing = exchange.ask("STREAM.INFO.S", {"subjects_filter": "zz", "offset": 4})
    assert (nothing["total"], nothing["offset"]) == (0, 0)


def test_names_and_list(exchange: Any) -> None:
    for name, subject in (("B", "b.*"), ("A", "a.>"), ("C", "c")):
        exchange.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": [subject]})
    assert exchange.ask("STREAM.NAMES") == {
        "type": "stream_names_response",
        "total": 3,
        "offset": 0,
        "limit": 1024,
        "streams": ["A", "B", "C"],
    }
    assert exchange.ask("STREAM.NAMES", {"offset": 2})["streams"] == ["C"]
    clamped = exchange.ask("STREAM.NAMES", {"offset": 100})
    assert (clamped["total"], clamped["offset"], clamped["streams"]) == (3, 3, None)
    for pattern, found in (("b.x", ["B"]), ("*.x", ["A", "B"]), ("b*", None), ("b..x", None)):
        assert exchange.ask("STREAM.NAMES", {"subject": pattern})["streams"] == found
    listed = exchange.ask("STREAM.LIST", {"subject": "c", "offset": -5})
    assert (listed["total"], listed["offset"], listed["limit"]) == (1, 0, 256)
    assert listed["streams"][0]["config"]["metadata"] == {"_nats.req.level": "0"}
    assert exchange.ask("STREAM.LIST", {"subject": "zz"})["streams"] == []
    refused = exchange.ask("STREAM.LIST", {"offset": "x"})
    assert refused["streams"] == [] and refused["error"]["err_code"] == 10025
    assert "JSApiStreamNamesRequest.offset" in exchange.refusal("STREAM.NAMES", {"offset": "x"})[1]


def test_offline_streams_are_listed_with_the_reason(exchange: Any) -> None:
    exchange.ask("STREAM.CREATE.S", {"name": "S"})
    exchange.ask("STREAM.CREATE.T", {"name": "T"})
    exchange.catalog.offline["S"] = type("Offline", (), {"reason": "checksum mismatch"})()
    del exchange.catalog.streams["S"]
    listed = exchange.ask("STREAM.LIST")
    assert listed["total"] == 2 and len(listed["streams"]) == 1
    assert listed["missing"] == ["S"]
    assert listed["offline"] == {"S": "checksum mismatch"}
    assert exchange.refusal("STREAM.INFO.S") == (10194, "stream is offline: checksum mismatch")


@pytest.mark.parametrize("body", [b"x", b"null", b"[]", b" ", b'{"a":1}', b"{}{}"])
def test_delete_wants_an_empty_request(exchange: Any, body: bytes) -> None:
    exchange.ask("STREAM.CREATE.S", {"name": "S"})
    assert exchange.refusal("STREAM.DELETE.S", body) == (
        10038,
        "expected an empty request payload",
    )
    assert exchange.ask("STREAM.DELETE.S", b" { } ")["success"] is True
    assert exchange.refusal("STREAM.DELETE.S")[0] == 10059


def test_purge(exchange: Any) -> None:
    exchange.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s.*"]})
    for _ in range(3):
        exchange.publish("s.a")
        exchange.publish("s.b")
    assert exchange.refusal("STREAM.PURGE.S", {"seq": 2, "keep": 1}) == (10003, "bad request")
    assert exchange.refusal("STREAM.PURGE.S", b"{bad")[0] == 10025
    assert exchange.ask("STREAM.PURGE.S", {"filter": "s..a"})["purged"] == 0
    assert exchange.ask("STREAM.PURGE.S", {"filter": "s.a", "keep": 1})["purged"] == 2
    assert exchange.ask("STREAM.PURGE.S", {"seq": 5})["purged"] == 2
    assert exchange.ask("STREAM.PURGE.S", b"bad") == {
        "type": "stream_purge_response",
        "success": True,
        "purged": 2,
    }
    exchange.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.*"], "deny_purge": True})
    assert exchange.refusal("STREAM.PURGE.S") == (10110, "stream purge not permitted")


def test_a_purge_does_not_move_the_sequence_to_its_end(exchange: Any) -> None:
    exchange.ask("STREAM.CREATE.S", {"name": "S"})
    assert exchange.refusal("STREAM.PURGE.S", {"seq": 2**64 - 1}) == (
        10110,
        "sequence is too large, maximum allowed is 9223372036854775807",
    )
    assert exchange.ask("STREAM.PURGE.S", {"seq": 2**63 - 1})["purged"] == 0
    exchange.publish("S")
    exchange.publish("S")
    assert exchange.ask("STREAM.INFO.S")["state"]["last_seq"] == 2**63


@pytest.fixture
def many(exchange: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A stream whose subjects are looked at in slices of three."""
    exchange.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "max_msgs": 100})
    for number in [*range(20), 3, 4, 4]:
        exchange.publish(f"s.{number * 7 % 20}.{'x' if number % 3 else 'y'}")
    exchange.ask("STREAM.MSG.DELETE.S", {"seq": 2})
    monkeypatch.setattr(streams, "SUBJECTS_AT_ONCE", 5)
    monkeypatch.setattr(streams, "SUBJECTS_MAX", 6)
    monkeypatch.setattr(subject_page, "SLICE_NAMES", 3)
    return exchange


def turn(exchange: Any) -> list[Any]:
    """Have a turn; return the answers."""
    exchange.output.sends_after_flush.clear()
    exchange.now += 1_000_000
    for each in exchange.context.deadlines.pop_due(exchange.now):
        each.tick(exchange.now)
    return [json.loads(data) for subject, data in exchange.sent() if subject == b"_INBOX.1"]


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_more_missing_sequences_than_anybody_could_take_are_not_listed(
    exchange: Any, storage: str
) -> None:
    """Of a quintillion the server would have made a list for as long as it had memory."""
    exchange.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s"], "storage": storage})
    store = exchange.catalog.streams["S"].store
    store.append(b"s", b"", b"", 1)
    store.skip(1_000_000, 2)
    store.append(b"s", b"", b"", 3)
    body = b'{"deleted_details":true}'
    assert exchange.raw("STREAM.INFO.S", body) is None
    answers = [answer for _ in range(40) for answer in turn(exchange)]
    assert [len(each["state"]["deleted"]) for each in answers] == [1_000_000]
    store.skip(10**18, 4)
    store.append(b"s", b"", b"", 5)
    refused = exchange.ask("STREAM.INFO.S", {"deleted_details": True})["error"]
    assert (refused["code"], refused["err_code"]) == (500, 10051)
    assert refused["description"] == (
        "1000000000001000000 messages are missing, too many to be listed: "
        "ask without deleted_details"
    )
    state = exchange.ask("STREAM.INFO.S")["state"]
    assert state["num_deleted"] == 10**18 + 1_000_000


@pytest.mark.parametrize("offset", [0, 4, 15, 100])
@pytest.mark.parametrize("pattern", [">", "s.*.x", "s.7.*", "zz", "s.*"])
def test_very_many_subjects_are_shown_as_few_are(
    many: Any, monkeypatch: pytest.MonkeyPatch, pattern: str, offset: int
) -> None:
    asked = {"subjects_filter": pattern, "offset": offset, "deleted_details": True}
    assert many.raw("STREAM.INFO.S", json.dumps(asked).encode()) is None
    answers = [turn(many) for _ in range(20)]
    assert not any(answers[: 19 // 3])
    ((answer,),) = filter(None, answers)
    monkeypatch.setattr(streams, "SUBJECTS_AT_ONCE", 1000)
    expected = many.ask("STREAM.INFO.S", asked)
    assert list(answer) == list(expected)
    assert list(answer["state"]) == list(expected["state"])
    for each in (answer, expected):
        del each["type"], each["ts"]
    assert answer == expected
    names = list(answer["state"].get("subjects", {}))
    assert names == sorted(names)


def test_what_is_shown_is_of_one_moment(many: Any) -> None:
    many.raw("STREAM.INFO.S", b'{"subjects_filter":">"}')
    before = many.catalog.streams["S"].store.state()
    answers = []
    for number in range(30):
        answers += turn(many)
        if number == 2:
            many.catalog.streams["S"].store.append(b"s.00", b"", b"", many.now)
            many.catalog.streams["S"].store.purge(None, 6, 0)
    (answer,) = answers
    assert answer["state"]["messages"] == before.messages
    assert answer["total"] == before.num_subjects == 19
    assert "s.00" not in answer["state"]["subjects"]


def test_a_stream_that_goes_meanwhile_is_not_found(many: Any) -> None:
    many.raw("STREAM.INFO.S", b'{"subjects_filter":">"}')
    many.ask("STREAM.DELETE.S")
    assert [answer["error"]["err_code"] for answer in turn(many)] == [10059]


def test_a_page_of_long_streams_is_shorter_and_says_so(
    exchange: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_page, "TEXTS_MAX", 20)
    for name in "abc":
        subjects = [f"{name}.{number}" for number in range(12)]
        exchange.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": subjects})
    exchange.ask("STREAM.CREATE.d", {"name": "d"})
    seen, offset = [], 0
    for limit in (1, 1, 256):
        page = exchange.ask("STREAM.LIST", {"offset": offset})
        assert (page["total"], page["limit"]) == (4, limit)
        seen.append([each["config"]["name"] for each in page["streams"]])
        offset += page["limit"]
    assert seen == [["a"], ["b"], ["c", "d"]]


@pytest.mark.parametrize("by_limit", [True, False])
def test_a_page_of_streams_with_long_texts_is_shorter_and_says_so(
    exchange: Any, monkeypatch: pytest.MonkeyPatch, by_limit: bool
) -> None:
    """256 with 127,000 letters to escape each were a page of 190 megabytes. Clients go on by the
    number of entries, or by what the page says."""
    monkeypatch.setattr(list_page, "PAGE_BYTES_MAX", 15_000)
    for name in "abcd":
        described = {"description": name, "metadata": {"a": "<" * 1000 if name != "c" else ""}}
        exchange.ask(f"STREAM.CREATE.{name}", {"name": name, **described})
    seen, offset = [], 0
    while True:
        answer = exchange.raw("STREAM.LIST", json.dumps({"offset": offset}).encode())
        assert len(answer) < 15_200
        page = json.loads(answer)
        assert (page["total"], page["offset"]) == (4, offset)
        seen.append([each["config"]["name"] for each in page["streams"]])
        offset += page["limit"] if by_limit else len(page["streams"])
        if offset >= page["total"]:
            break
        assert page["limit"] == len(page["streams"])
    assert seen == [["a", "b", "c"], ["d"]] and page["limit"] == 256


def test_streams_are_found_by_what_they_capture(exchange: Any) -> None:
    for name, subjects in (("A", ["a.*", "b"]), ("B", ["c.>"]), ("C", ["y.d.*"]), ("D", ["x.a"])):
        exchange.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": subjects})
    for subject, names in (
        ("a.b", ["A"]),
        ("y.d.e", ["C"]),
        ("c.d", ["B"]),
        ("*.a", ["A", "B", "D"]),
        (">", ["A", "B", "C", "D"]),
        ("b", ["A"]),
        ("a", None),
    ):
        assert exchange.ask("STREAM.NAMES", {"subject": subject})["streams"] == names, subject
