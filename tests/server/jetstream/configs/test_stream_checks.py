"""Refused stream configs: texts and codes as the genuine server gives them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import ApiError
from jetstream_server.jetstream.configs import stream_checks
from jetstream_server.jetstream.configs.account_limits import AccountLimits, ServerLimits
from jetstream_server.jetstream.configs.stream_config import (
    StreamConfig,
    StreamConfigRequest,
    sealed,
    with_defaults,
)
from jetstream_server.jetstream.wire import go_json

NO_ACK_JS = "subjects that overlap with jetstream api require no-ack to be true"
NO_ACK_SYS = "subjects that overlap with system api require no-ack to be true"
NAME = r"stream name is required and can not contain '.', '*', '>', '\', '/'"
CYCLE = "stream configuration for republish destination forms a cycle"
DEST = "stream transform: invalid mapping destination: "


def decoded(**fields: Any) -> StreamConfig:
    return go_json.decode(go_json.encode({"name": "S", **fields}), StreamConfigRequest).config()


def refusal(
    config: StreamConfig,
    limits: AccountLimits | None = None,
    server: ServerLimits | None = None,
    *,
    pedantic: bool = False,
) -> tuple[int, str] | None:
    try:
        stream_checks.check_config(
            config, limits or AccountLimits(), server or ServerLimits(), pedantic=pedantic
        )
        stream_checks.check_replicas(config)
    except ApiError as error:
        return error.err_code, error.description
    return None


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"name": ""}, 10052, NAME),
    ({"name": "a b"}, 10052, NAME),
    ({"name": "a.b"}, 10052, NAME),
    ({"name": "a/b"}, 10052, NAME),
    ({"name": "x" * 256}, 10052, "stream name is too long, maximum allowed is 255"),
    (
        {"description": "x" * 4097},
        10052,
        "stream description is too long, maximum allowed is 4096",
    ),
    (
        {"metadata": {"a": "x" * 131072}},
        10052,
        "stream metadata exceeds maximum size of 131072 bytes",
    ),
    ({"num_replicas": 6}, 10052, "maximum replicas is 5"),
    ({"num_replicas": -1}, 10133, "replicas count cannot be negative"),
    ({"num_replicas": 3}, 10074, "replicas > 1 not supported in non-clustered mode"),
    ({"max_age": -1}, 10052, "max age can not be negative"),
    ({"max_age": 99999999}, 10052, "max age needs to be >= 100ms"),
    ({"duplicate_window": -1}, 10052, "duplicates window can not be negative"),
    ({"duplicate_window": 1}, 10052, "duplicates window needs to be >= 100ms"),
    (
        {"max_age": SECOND, "duplicate_window": 2 * SECOND},
        10052,
        "duplicates window can not be larger then max age",
    ),
    (
        {"deny_purge": True, "allow_rollup_hdrs": True},
        10052,
        "roll-ups require the purge permission",
    ),
    (
        {"allow_msg_counter": True, "discard": "new"},
        10052,
        "counter stream cannot use discard new",
    ),
    (
        {"allow_msg_counter": True, "allow_msg_ttl": True},
        10052,
        "counter stream cannot use message TTLs",
    ),
    (
        {"allow_msg_counter": True, "allow_msg_schedules": True},
        10052,
        "counter stream cannot use message schedules",
    ),
    (
        {"allow_msg_counter": True, "retention": "interest"},
        10052,
        "counter stream can only use limits retention",
    ),
    (
        {"discard_new_per_subject": True},
        10052,
        "discard new per subject requires discard new policy to be set",
    ),
    (
        {"discard_new_per_subject": True, "discard": "new"},
        10052,
        "discard new per subject requires max msgs per subject > 0",
    ),
    (
        {"subject_delete_marker_ttl": -1},
        10052,
        "subject delete marker TTL must not be negative",
    ),
    (
        {"subject_delete_marker_ttl": 1},
        10052,
        "subject delete marker TTL must be at least 1 second",
    ),
    (
        {"allow_msg_schedules": True, "discard": "new"},
        10052,
        "message scheduling cannot use discard new",
    ),
    (
        {"persist_mode": "async", "storage": "memory"},
        10052,
        "async persist mode is only supported on file storage",
    ),
    (
        {"persist_mode": "async", "allow_atomic": True},
        10052,
        "async persist mode is not supported with atomic batch publish",
    ),
    (
        {"persist_mode": "async", "num_replicas": 2},
        10052,
        "async persist mode is not supported on replicated streams",
    ),
    ({"subjects": [">"]}, 10052, "capturing all subjects requires no-ack to be true"),
    (
        {"subjects": [">"], "num_replicas": 2},
        10052,
        "capturing all subjects requires no-ack to be true",
    ),
    (
        {"subjects": [">"], "no_ack": True, "num_replicas": 2},
        10052,
        "capturing all subjects requires replicas of 1",
    ),
    ({"subjects": ["$JS.>"]}, 10052, NO_ACK_JS),
    ({"subjects": ["$JS.EVENT"]}, 10052, NO_ACK_JS),
    ({"subjects": ["*.>"]}, 10052, NO_ACK_JS),
    ({"subjects": ["$JSC.>"]}, 10052, NO_ACK_JS),
    ({"subjects": ["$NRG.a"]}, 10052, NO_ACK_JS),
    ({"subjects": ["$SYS.>"]}, 10052, NO_ACK_SYS),
    ({"subjects": ["$SYS.ACCOUNT.a.b", "$SYS.x"]}, 10052, NO_ACK_SYS),
    ({"subjects": ["a..b"]}, 10052, "invalid subject"),
    ({"subjects": ["a b"]}, 10052, "invalid subject"),
    ({"subjects": [""]}, 10052, "invalid subject"),
    ({"subjects": ["q", "q"]}, 10052, 'subject "q" overlaps with "q"'),
    ({"subjects": ["q.*", "q.a"]}, 10052, 'subject "q.*" overlaps with "q.a"'),
    ({"subjects": ["a", ">"]}, 10052, 'subject "a" overlaps with ">"'),
    (
        {"subject_transform": {"src": "a..b", "dest": "b"}},
        10155,
        "stream transform source: invalid subject a..b",
    ),
    ({"subject_transform": {"src": "a", "dest": "b..c"}}, 10156, DEST + "invalid transform"),
    (
        {"subject_transform": {"src": "a.*", "dest": "b.$2"}},
        10156,
        DEST + "wildcard index out of range in $2: [2]",
    ),
    (
        {"subject_transform": {"src": "a.*", "dest": "b.{{foo(1)}}"}},
        10156,
        DEST + "unknown function in {{foo(1)}}",
    ),
    (
        {"subject_transform": {"src": "a.>", "dest": "b"}},
        10156,
        "stream transform: invalid subject",
    ),
    ({"subject_transform": {"dest": "x"}}, 10156, "stream transform: invalid subject"),
    (
        {"republish": {"src": "a", "dest": "b.$1"}},
        10052,
        "stream configuration for republish with transform from 'a' to 'b.$1' not valid",
    ),
    (
        {"republish": {"src": "a..b", "dest": "c"}},
        10052,
        "stream configuration for republish with transform from 'a..b' to 'c' not valid",
    ),
    ({"subjects": ["rp.>"], "republish": {"src": "rp.>", "dest": "rp.x.>"}}, 10052, CYCLE),
    ({"subjects": ["rp.*"], "republish": {"src": "other", "dest": "rp.x"}}, 10052, CYCLE),
    ({"republish": {"src": ">", "dest": ">"}}, 10052, CYCLE),
    (
        {"placement": {"preferred": "x"}},
        10052,
        "preferred server not permitted in placement",
    ),
]


@pytest.mark.parametrize(("fields", "err_code", "text"), REFUSED, ids=range(len(REFUSED)))
def test_refused(fields: dict[str, Any], err_code: int, text: str) -> None:
    assert refusal(decoded(**fields)) == (err_code, text)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"name": "é"},
        {"max_msgs": -2, "max_bytes": -2, "max_consumers": -2},
        {"num_replicas": 0},
        {"subjects": ["$JS.EVENT.>"]},
        {"subjects": ["$SYS.ACCOUNT.>"]},
        {"subjects": ["$JS.API.x"], "no_ack": True},
        {"subjects": [">"], "no_ack": True},
        {"subjects": ["$KV.bucket.>"], "republish": {"src": ">", "dest": "$RP.>"}},
        {"subject_transform": {}},
        {"subject_transform": {"src": "a.*", "dest": ""}},
        {"republish": {"dest": ""}},
        {"subject_delete_marker_ttl": SECOND, "deny_purge": True},
        {"placement": {"cluster": "c"}},
    ],
)
def test_accepted(fields: dict[str, Any]) -> None:
    assert refusal(decoded(**fields)) is None


def test_sequences_stay_far_from_their_end() -> None:
    assert refusal(decoded(first_seq=2**63 - 1)) is None
    assert refusal(decoded(first_seq=2**63)) == (
        10052,
        "first sequence is too large, maximum allowed is 9223372036854775807",
    )


PEDANTIC: list[tuple[dict[str, Any], int, str]] = [
    ({"max_msgs": -2}, 10157, "pedantic mode: max_msgs must be set to -1"),
    ({"max_msg_size": -2}, 10157, "pedantic mode: max_msg_size must be set to -1"),
    ({"max_consumers": -2}, 10157, "pedantic mode: max_consumers must be set to -1"),
    (
        {"max_age": SECOND},
        10157,
        "pedantic mode: duplicate window cannot be bigger than max age",
    ),
    (
        {"subject_delete_marker_ttl": SECOND},
        10052,
        "subject delete marker cannot be set if message TTLs are disabled",
    ),
    (
        {"subject_delete_marker_ttl": SECOND, "allow_msg_ttl": True},
        10052,
        "subject delete marker cannot be set if roll-ups are disabled",
    ),
    (
        {"allow_msg_schedules": True},
        10052,
        "message scheduling cannot be set if roll-ups are disabled",
    ),
]


@pytest.mark.parametrize(("fields", "err_code", "text"), PEDANTIC, ids=range(len(PEDANTIC)))
def test_what_only_pedantic_requests_are_refused(
    fields: dict[str, Any], err_code: int, text: str
) -> None:
    assert refusal(decoded(**fields), pedantic=True) == (err_code, text)
    plain = refusal(decoded(**fields))
    assert plain is None or "not supported by this server" in plain[1]


def test_limits_of_account_and_server() -> None:
    required = AccountLimits(max_bytes_required=True, storage_max_stream_bytes=5000)
    assert refusal(decoded(), required) == (
        10113,
        "account requires a stream config to have max bytes set",
    )
    assert refusal(decoded(max_bytes=6000), required) == (
        10122,
        "stream max bytes exceeds account limit max stream bytes",
    )
    assert refusal(decoded(max_bytes=5000), required) is None
    assert refusal(decoded(max_bytes=6000, storage="memory"), required) is None
    window = ServerLimits(duplicate_window_ns=300 * SECOND)
    assert refusal(decoded(duplicate_window=301 * SECOND), server=window) == (
        10052,
        "duplicates window can not be larger then server limit of 5m0s",
    )


ORDER: list[tuple[dict[str, Any], str]] = [
    ({"name": "", "num_replicas": 6}, NAME),
    ({"num_replicas": 6, "max_age": -1}, "maximum replicas is 5"),
    ({"max_age": -1, "duplicate_window": -1}, "max age can not be negative"),
    (
        {"discard_new_per_subject": True, "subjects": ["a..b"]},
        "discard new per subject requires discard new policy to be set",
    ),
    ({"subjects": ["a..b"], "placement": {"preferred": "x"}}, "invalid subject"),
    (
        {"placement": {"preferred": "x"}, "num_replicas": 3},
        "preferred server not permitted in placement",
    ),
]


@pytest.mark.parametrize(("fields", "text"), ORDER, ids=range(len(ORDER)))
def test_the_first_mistake_wins(fields: dict[str, Any], text: str) -> None:
    found = refusal(decoded(**fields))
    assert found is not None
    assert found[1] == text


UPDATES: list[tuple[dict[str, Any], dict[str, Any], int, str]] = [
    ({}, {"name": "T"}, 10052, "stream configuration name must match original"),
    (
        {},
        {"storage": "memory", "retention": "workqueue"},
        10052,
        "stream configuration update can not change storage type",
    ),
    (
        {},
        {"retention": "workqueue"},
        10052,
        "stream configuration update can not change retention policy to/from workqueue",
    ),
    (
        {"retention": "workqueue"},
        {"retention": "limits"},
        10052,
        "stream configuration update can not change retention policy to/from workqueue",
    ),
    (
        {"deny_delete": True, "deny_purge": True},
        {},
        10052,
        "stream configuration update can not cancel deny message deletes",
    ),
    (
        {"deny_delete": True, "deny_purge": True},
        {"deny_delete": True},
        10052,
        "stream configuration update can not cancel deny purge",
    ),
    (
        {},
        {"mirror": {"name": "M"}},
        10055,
        "stream mirror configuration can not be updated",
    ),
    ({"allow_msg_ttl": True}, {}, 10052, "message TTL status can not be disabled"),
    (
        {},
        {"allow_msg_counter": True},
        10052,
        "stream configuration update can not change message counter setting",
    ),
    ({"allow_msg_schedules": True}, {}, 10052, "message schedules can not be disabled"),
    (
        {},
        {"persist_mode": "async"},
        10052,
        "stream configuration update can not change persist mode",
    ),
]


@pytest.mark.parametrize(("old", "new", "err_code", "text"), UPDATES, ids=range(len(UPDATES)))
def test_refused_updates(
    old: dict[str, Any], new: dict[str, Any], err_code: int, text: str
) -> None:
    with pytest.raises(ApiError) as caught:
        stream_checks.check_update(with_defaults(decoded(**old)), with_defaults(decoded(**new)))
    assert (caught.value.err_code, caught.value.description) == (err_code, text)


def test_a_sealed_stream_stays_sealed() -> None:
    old = sealed(with_defaults(decoded(sealed=True)))
    with pytest.raises(ApiError, match="can not unseal a sealed stream"):
        stream_checks.check_update(old, old.changed(sealed=False))
    stream_checks.check_update(old, old.changed(description="still"))


@pytest.mark.parametrize(
    "new",
    [
        {"retention": "interest"},
        {"subjects": ["other"]},
        {"first_seq": 5},
        {"persist_mode": "default"},
        {"allow_msg_ttl": True},
        {"discard": "new", "max_msgs": 5},
    ],
)
def test_free_updates(new: dict[str, Any]) -> None:
    stream_checks.check_update(with_defaults(decoded()), with_defaults(decoded(**new)))


def test_subjects_that_meet_in_too_many_ways_are_refused() -> None:
    ways = itertools.product("*x", repeat=11)
    subjects = [".".join((*way, str(n))) for n, way in enumerate(ways)]
    assert refusal(decoded(subjects=subjects)) == (10052, stream_checks.TOO_MANY_MEET)


@pytest.mark.parametrize(
    ("last", "text"),
    [
        ("a..b", "invalid subject"),
        ("$JS.API.>", NO_ACK_JS),
        ("s.1999", 'subject "s.1999" overlaps with "s.1999"'),
    ],
)
def test_the_last_of_many_subjects_is_looked_at_in_steps(last: str, text: str) -> None:
    config = decoded(subjects=[*(f"s.{n}" for n in range(2000)), last])
    pauses = 0
    with pytest.raises(ApiError) as caught:
        for _ in stream_checks.check_subjects(config):
            pauses += 1
    assert (caught.value.err_code, caught.value.description) == (10052, text)
    assert pauses > 2


def test_many_subjects_are_looked_at_in_one_way_in_each_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 80,000, the ways take 5 to 9 ms each."""
    looked: list[tuple[int, str]] = []
    pauses = 0

    def noted(name: str) -> None:
        real = getattr(stream_checks, name)

        def look(subjects: Any) -> Any:
            looked.append((pauses, name))
            return real(subjects)

        monkeypatch.setattr(stream_checks, name, look)

    ways = ["subjects_of", "first_overlap", "_are_unreserved", "are_valid_subjects"]
    for each in ways:
        noted(each)
    steps = stream_checks.check_subjects(decoded(subjects=[f"s.{n}" for n in range(2000)]))
    while next(steps, steps) is None:
        pauses += 1
    assert looked == [*enumerate(ways)]
    looked.clear()
    few = stream_checks.check_subjects(decoded(subjects=["s.1", "s.2"]))
    assert [*few] == []
    assert looked == [(pauses, each) for each in ways]
