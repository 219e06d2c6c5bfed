"""The CONSUMER verbs: forms, order of checks, answers."""

from __future__ import annotations

import json
import weakref
from array import array
from pathlib import Path
from random import Random
from typing import Any

import pytest
from jetstream_server.base.errors import ApiError
from jetstream_server.jetstream.api import consumers, list_page
from jetstream_server.jetstream.api.request import Request
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.jetstream.configs.consumer_config import ConsumerConfig
from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.consumers import memory_ahead
from jetstream_server.kernels import filters
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.vault import FileVault

STREAM = {"name": "S", "subjects": ["s.>"], "storage": "memory"}
PREFIX = "CONSUMER.CREATE.S"


@pytest.fixture
def api(exchange):
    exchange.ask("STREAM.CREATE.S", STREAM)
    return exchange


def create(api, subject, config, **fields):
    return api.ask(subject, {"stream_name": "S", "config": config, **fields})


def error(answer):
    return answer["error"]["err_code"]


def test_the_answer_shows_the_defaults(api):
    answer = create(api, PREFIX + ".C", {"durable_name": "C", "ack_policy": "explicit"})
    assert list(answer) == [
        "type", "stream_name", "name", "created", "config", "delivered", "ack_floor",
        "num_ack_pending", "num_redelivered", "num_waiting", "num_pending", "ts",
    ]  # fmt: skip
    assert answer["type"] == "consumer_create_response"
    metadata = answer["config"].pop("metadata")
    assert metadata["_nats.req.level"] == "0"
    assert set(metadata) == {"_nats.level", "_nats.req.level", "_nats.ver"}
    assert list(answer["config"].items()) == [
        ("durable_name", "C"),
        ("name", "C"),
        ("deliver_policy", "all"),
        ("ack_policy", "explicit"),
        ("ack_wait", 30_000_000_000),
        ("max_deliver", -1),
        ("replay_policy", "instant"),
        ("max_waiting", 512),
        ("max_ack_pending", 1000),
        ("num_replicas", 0),
    ]


def test_an_unnamed_consumer_gets_a_name_that_its_config_does_not_show(api):
    answer = create(api, PREFIX, {"ack_policy": "explicit"})
    assert len(answer["name"]) == 8
    assert "name" not in answer["config"]
    assert answer["config"]["inactive_threshold"] == 5_000_000_000


def test_creating_again_succeeds_with_the_metadata_sent_back(api):
    config = {"durable_name": "C", "ack_policy": "explicit"}
    first = create(api, PREFIX + ".C", config, action="create")
    again = create(api, PREFIX + ".C", first["config"], action="create")
    assert again["config"] == first["config"]
    assert (
        error(create(api, PREFIX + ".C", config | {"description": "x"}, action="create")) == 10148
    )
    assert create(api, PREFIX + ".C", config | {"description": "x"})["config"]["description"] == "x"


def test_an_ephemeral_with_the_threshold_left_out_exists_already(api):
    create(api, PREFIX + ".E", {"name": "E"}, action="create")
    assert error(create(api, PREFIX + ".E", {"name": "E"}, action="create")) == 10148
    assert "error" not in create(api, PREFIX + ".E", {"name": "E"})


def test_an_update_needs_something_to_update(api):
    assert error(create(api, PREFIX + ".C", {"durable_name": "C"}, action="update")) == 10149


@pytest.mark.parametrize(
    ("subject", "config", "code"),
    [
        ("CONSUMER.DURABLE.CREATE.S.k", {}, 10018),
        ("CONSUMER.DURABLE.CREATE.S.k", {"durable_name": "z"}, 10017),
        (PREFIX, {"durable_name": "C"}, 10020),
        (PREFIX + ".k", {"durable_name": "z"}, 10017),
        (PREFIX + ".a/b", {}, 10127),
        (PREFIX + ".C.s.a", {"filter_subject": "s.b"}, 10131),
        (PREFIX + ".C.s.a", {}, 10131),
        (PREFIX + ".C.s.a", {"filter_subjects": ["s.a"]}, 10137),
        (PREFIX + ".C", {"num_replicas": 3}, 10074),
        (PREFIX + ".C", {"max_deliver": -5}, 0),
    ],
)
def test_forms_and_their_faults(api, subject, config, code):
    answer = create(api, subject, config)
    assert answer.get("error", {}).get("err_code", 0) == code


def test_a_filter_of_several_tokens_in_the_subject(api):
    answer = create(api, PREFIX + ".C.s.a.b", {"filter_subject": "s.a.b"})
    assert answer["config"]["filter_subject"] == "s.a.b"


def test_faults_of_the_request_come_before_an_unknown_stream(api):
    answer = api.ask("CONSUMER.CREATE.X.C", {"stream_name": "S", "config": {}})
    assert error(answer) == 10056
    answer = api.ask("CONSUMER.CREATE.X.C", {"stream_name": "X", "config": {"bad": 1}})
    assert error(answer) == 10025
    answer = api.ask("CONSUMER.CREATE.X.C", {"stream_name": "X", "config": {}})
    assert error(answer) == 10059
    assert error(api.ask("CONSUMER.CREATE.S.C", {})) == 10056


def test_a_body_without_config_makes_a_default_consumer(api):
    answer = api.ask("CONSUMER.CREATE.S.C", {"stream_name": "S"})
    assert answer["config"]["ack_policy"] == "none"


def test_bad_actions_are_json_errors(api):
    answer = create(api, PREFIX + ".C", {}, action="zzz")
    assert answer["error"]["description"] == 'invalid JSON: unknown consumer action: "zzz"'


def test_info_names_list_and_delete(api):
    for name in ("b", "a"):
        create(api, f"{PREFIX}.{name}", {"name": name})
    info = api.ask("CONSUMER.INFO.S.a", {})
    assert info["type"].endswith("consumer_info_response")
    assert info["config"]["metadata"]["_nats.level"]
    names = api.ask("CONSUMER.NAMES.S")
    assert (names["total"], names["limit"], names["consumers"]) == (2, 1024, ["a", "b"])
    listed = api.ask("CONSUMER.LIST.S", {"offset": 1})
    assert (listed["offset"], listed["limit"], len(listed["consumers"])) == (1, 256, 1)
    assert listed["consumers"][0]["config"]["metadata"] == {"_nats.req.level": "0"}
    assert api.ask("CONSUMER.DELETE.S.a")["success"] is True
    assert error(api.ask("CONSUMER.DELETE.S.a")) == 10014
    assert api.ask("CONSUMER.NAMES.S")["consumers"] == ["b"]


def test_info_and_delete_want_no_body(api):
    assert error(api.ask("CONSUMER.INFO.X.c", {"x": 1})) == 10038
    assert error(api.ask("CONSUMER.DELETE.X.c", {"x": 1})) == 10038
    assert error(api.ask("CONSUMER.INFO.X.c", {})) == 10059
    assert error(api.ask("CONSUMER.INFO.S.c")) == 10014


def test_lists_of_an_unknown_stream_carry_empty_pages(api):
    answer = api.ask("CONSUMER.NAMES.X")
    assert error(answer) == 10059
    assert answer["consumers"] == []


def test_a_pause_without_end_is_as_long_as_a_duration_can_be(api):
    """Probed with the genuine server: what does not fit into 64 bits ended the request."""
    far = {"pause_until": "9999-12-31T23:59:59Z"}
    made = create(api, PREFIX + ".C", {"durable_name": "C"} | far)
    assert made["pause_remaining"] == 2**63 - 1
    assert api.ask("CONSUMER.PAUSE.S.C", far)["pause_remaining"] == 2**63 - 1
    assert api.ask("CONSUMER.INFO.S.C")["pause_remaining"] == 2**63 - 1


def test_pause_and_resume(api):
    create(api, PREFIX + ".C", {"durable_name": "C"})
    paused = api.ask("CONSUMER.PAUSE.S.C", {"pause_until": "2099-01-01T00:00:00Z"})
    assert (paused["paused"], paused["pause_until"]) == (True, "2099-01-01T00:00:00Z")
    assert paused["pause_remaining"] > 0
    assert api.ask("CONSUMER.INFO.S.C")["paused"] is True
    resumed = api.ask("CONSUMER.PAUSE.S.C")
    assert (resumed["paused"], resumed["pause_until"]) == (False, "0001-01-01T00:00:00Z")
    assert "paused" not in api.ask("CONSUMER.INFO.S.C")
    refused = api.ask("CONSUMER.PAUSE.S.x")
    assert (error(refused), refused["paused"]) == (10014, False)


def test_unpin_checks_the_group_first(api):
    create(api, PREFIX + ".P", {"priority_groups": ["g"], "priority_policy": "pinned_client"})
    assert error(api.ask("CONSUMER.UNPIN.S.P")) == 10025
    assert error(api.ask("CONSUMER.UNPIN.S.P", {"group": ""})) == 10025
    assert error(api.ask("CONSUMER.UNPIN.X.P", {"group": "a b"})) == 10162
    assert error(api.ask("CONSUMER.UNPIN.X.P", {"group": "g"})) == 10059
    assert error(api.ask("CONSUMER.UNPIN.S.P", {"group": "h"})) == 10160
    answer = api.ask("CONSUMER.UNPIN.S.P", {"group": "g", "unknown": 1})
    assert answer == {"type": "consumer_unpin_response"}


def test_reset(api):
    create(api, PREFIX + ".C", {"durable_name": "C"})
    create(api, PREFIX + ".N", {"durable_name": "N", "deliver_policy": "new"})
    answer = api.ask("CONSUMER.RESET.S.C", {"seq": 7})
    assert list(answer)[-1] == "reset_seq"
    assert (answer["reset_seq"], answer["delivered"]["stream_seq"]) == (7, 6)
    refused = api.ask("CONSUMER.RESET.S.N", {"seq": 1})
    assert refused["error"]["description"] == "invalid reset: not allowed"
    assert refused["reset_seq"] == 0
    assert api.ask("CONSUMER.RESET.S.N")["reset_seq"] == 1
    assert api.raw("CONSUMER.RESET.S.x") is None
    assert api.raw("CONSUMER.RESET.X.x") is None


def test_a_reset_that_needs_a_newer_server(api):
    create(api, PREFIX + ".C", {"durable_name": "C"})
    level = b"NATS/1.0\r\nNats-Required-Api-Level: 99\r\n\r\n"
    assert error(api.ask("CONSUMER.RESET.S.C", b"{bad", headers=level)) == 10185
    assert api.raw("CONSUMER.RESET.S.x", headers=level) is None
    assert api.raw("CONSUMER.RESET.X.x", headers=level) is None


def test_limits_of_the_stream(api):
    api.ask("STREAM.CREATE.L", {"name": "L", "storage": "memory", "max_consumers": 1})
    body = {"stream_name": "L", "config": {"durable_name": "a"}}
    assert "error" not in api.ask("CONSUMER.CREATE.L.a", body)
    assert "error" not in api.ask("CONSUMER.CREATE.L.a", body)
    body = {"stream_name": "L", "config": {"durable_name": "b"}}
    assert error(api.ask("CONSUMER.CREATE.L.b", body)) == 10026


def test_a_filter_over_very_many_subjects_is_looked_at_in_slices(
    exchange: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
    store = exchange.catalog.streams["S"].store
    asked: list[int] = []

    def decide(wanted: Any, names_max: int) -> bool:
        asked.append(names_max)
        return len(asked) > 4

    monkeypatch.setattr(store, "decide", decide)
    body = {"stream_name": "S", "config": {"durable_name": "c", "filter_subject": "s.*"}}
    assert exchange.raw("CONSUMER.CREATE.S.c.s.*", json.dumps(body).encode()) is None
    answers = []
    for _ in range(6):
        exchange.now += 1_000_000
        exchange.output.sends_after_flush.clear()
        for each in exchange.context.deadlines.pop_due(exchange.now):
            each.tick(exchange.now)
        answers += [json.loads(data) for name, data in exchange.sent() if name == b"_INBOX.1"]
    assert [answer["name"] for answer in answers] == ["c"]
    assert len(asked) == 5 and max(asked) < 1.1 * min(asked), "slices, though none is there"
    assert exchange.refusal("CONSUMER.CREATE.NONE.c", body | {"stream_name": "NONE"})[0] == 10059


@pytest.mark.parametrize("policy", ["last_per_subject", "all"])
def test_memory_for_very_many_last_sequences_is_found_in_slices(
    exchange: Any, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """A host that had yet to find 8 MB took 20 to 40 ms for that."""
    monkeypatch.setattr(memory_ahead, "FOUND_AT_ONCE", 10)
    monkeypatch.setattr(memory_ahead, "_ZEROS", array("Q", bytes(80)))
    exchange.ask("STREAM.CREATE.S", STREAM)
    for number in range(35):
        exchange.publish(f"s.{number}")
    found: list[weakref.ref[array[int]]] = []
    room, store = filters.room, exchange.catalog.streams["S"].store
    last_sequences = store.last_sequences

    def make_room(count: int) -> array[int]:
        made = room(count)
        if count == 35:
            found.append(weakref.ref(made))
        return made

    def look(*asked: Any) -> array[int]:
        assert [each() for each in found] == [None], "it is let go, for what needs it now"
        return last_sequences(*asked)

    monkeypatch.setattr(filters, "room", make_room)
    monkeypatch.setattr(store, "last_sequences", look)
    config = {"durable_name": "c", "deliver_policy": policy, "filter_subject": "s.*"}
    body = json.dumps({"stream_name": "S", "config": config}).encode()
    answer, slices = exchange.raw("CONSUMER.CREATE.S.c.s.*", body), 0
    while answer is None:
        slices += 1
        exchange.now += 1_000_000
        exchange.output.sends_after_flush.clear()
        for each in exchange.context.deadlines.pop_due(exchange.now):
            each.tick(exchange.now)
        answer = next((data for name, data in exchange.sent() if name == b"_INBOX.1"), None)
    assert json.loads(answer)["num_pending"] == 35
    assert (slices, len(found)) == ((5, 1) if policy == "last_per_subject" else (0, 0))


def test_a_page_of_long_consumers_is_shorter_and_says_so(api, monkeypatch):
    monkeypatch.setattr(list_page, "TEXTS_MAX", 20)
    filters = [f"s.{number}" for number in range(12)]
    for name in "abcd":
        create(api, f"{PREFIX}.{name}", {"name": name, "filter_subjects": filters})
    create(api, f"{PREFIX}.e", {"name": "e"})
    seen, offset = [], 0
    for limit in (1, 1, 1, 256):
        page = api.ask("CONSUMER.LIST.S", {"offset": offset})
        assert (page["total"], page["limit"]) == (5, limit)
        seen.append([each["name"] for each in page["consumers"]])
        offset += page["limit"]
    assert seen == [["a"], ["b"], ["c"], ["d", "e"]]
    assert api.ask("CONSUMER.NAMES.S")["consumers"] == list("abcde")


@pytest.mark.parametrize("by_limit", [True, False])
def test_a_page_of_consumers_with_long_texts_is_shorter_and_says_so(api, monkeypatch, by_limit):
    monkeypatch.setattr(list_page, "PAGE_BYTES_MAX", 15_000)
    for name in "abcd":
        create(api, f"{PREFIX}.{name}", {"name": name, "metadata": {"a": "<" * 1000}})
    seen, offset = [], 0
    for limit in (2, 256):
        page = api.ask("CONSUMER.LIST.S", {"offset": offset})
        assert (page["total"], page["offset"], page["limit"]) == (4, offset, limit)
        seen.append([each["name"] for each in page["consumers"]])
        offset += page["limit"] if by_limit else len(page["consumers"])
    assert seen == [["a", "b"], ["c", "d"]]


def test_very_many_filters_are_compiled_in_a_step_of_their_own(api, monkeypatch):
    """50,000 with wildcards took 40 ms together with what was done first with them."""
    steps, decided = [], []
    monkeypatch.setattr(consumers, "FILTERS_AT_ONCE", 10)
    stream = api.catalog.stream("S")
    monkeypatch.setattr(stream.store, "decide", lambda *_: decided.append(len(steps)) or True)
    config = ConsumerConfig(name="C", filter_subjects=[f"s.*.{n}" for n in range(20)])
    body = consumers.CreateConsumerRequest(stream_name="S", config=config)
    request = Request(b"", [], b"", b"", b"", None, api.now)
    for answer in consumers._creation(api.catalog, request, body, config):
        steps.append(answer)
    assert steps[-1]["name"] == "C"
    assert decided[0] == 1


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_stream_that_is_deleted_before_its_filters_are_looked_at(
    exchange, sim_disk_module, is_made_again, monkeypatch
):
    """Its store answered that it is removed, which was told the client as an error of the stream,
    even if there was another one of that name by then."""
    monkeypatch.setattr(consumers, "FILTERS_AT_ONCE", 10)
    disk = sim_disk_module.SimDisk(Random(1))
    vault = FileVault(Path("/data"), "$G", GroupCommit(disk), disk)
    catalog = Catalog(exchange.context, vault)
    of_stream = StreamConfig(name="S", subjects=["s.>"])
    catalog.create(of_stream, exchange.now)
    config = ConsumerConfig(
        name="C",
        filter_subjects=[f"s.{n}" for n in range(20)],
        deliver_policy="by_start_sequence",
        opt_start_seq=5,
    )
    body = consumers.CreateConsumerRequest(stream_name="S", config=config)
    request = Request(b"", [], b"", b"", b"", None, exchange.now)
    steps = consumers._creation(catalog, request, body, config)
    assert next(steps) is None
    catalog.delete("S", exchange.now)
    if is_made_again:
        catalog.create(of_stream, exchange.now)
        assert [step["name"] for step in steps if step] == ["C"]
    else:
        with pytest.raises(ApiError) as refused:
            list(steps)
        assert refused.value.err_code == 10059
