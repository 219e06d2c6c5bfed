"""Checks in order, and updates; texts as recorded from the genuine server."""

from __future__ import annotations

import itertools

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import ApiError
from jetstream_server.core.steps import without_pauses
from jetstream_server.core.subject import SUBJECT_BYTES_MAX
from jetstream_server.jetstream.configs.consumer_checks import (
    check_filters,
    check_update,
    check_workqueue,
)
from jetstream_server.jetstream.configs.consumer_config import ConsumerConfig
from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.wire.go_time import parse_time

STREAM = StreamConfig(name="S", subjects=["s.>"])
QUEUE = StreamConfig(name="W", subjects=["w.>"], retention="workqueue")
TIME = parse_time("2020-01-01T00:00:00Z")
PUSH = {"deliver_subject": "d"}
FLOW_ACK = {"ack_policy": "flow_control", **PUSH}
START = "consumer delivery policy is "
START_ALL = START + "deliver all, but optional start sequence is also set"
METADATA = "consumer metadata exceeds maximum size of 128KB"


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"name": "a b"}, 10052, r"consumer name can not contain '.', '*', '>', '\', '/'"),
        ({"name": "a/b"}, 10127, "Consumer name can not contain path separators"),
        ({"durable_name": "x" * 256}, 10102, "consumer name is too long, maximum allowed is 255"),
        ({"num_replicas": -1}, 10133, "replicas count cannot be negative"),
        ({"num_replicas": 2}, 10074, "replicas > 1 not supported in non-clustered mode"),
        ({"ack_wait": -1, "description": "x" * 4097}, 10183, None),
        ({"backoff": [-1]}, 10184, "consumer backoff needs to be positive"),
        (
            {"max_deliver": 1, "backoff": [1, 2]},
            10116,
            "max deliver is required to be > length of backoff values",
        ),
        ({"description": "x" * 4097}, 10107, None),
        ({"deliver_subject": "d.*", "idle_heartbeat": 1}, 10079, None),
        ({"deliver_subject": "d..a"}, 10112, "invalid push consumer deliver subject"),
        ({"deliver_subject": "s.a"}, 10081, "consumer deliver subject forms a cycle"),
        ({**PUSH, "max_waiting": 1}, 10080, None),
        ({**PUSH, "max_ack_pending": 5}, 10082, None),
        ({**PUSH, "idle_heartbeat": 1000}, 10083, "consumer idle heartbeat needs to be >= 100ms"),
        ({**PUSH, "flow_control": True}, 10108, None),
        ({"rate_limit_bps": 1}, 10086, None),
        ({"idle_heartbeat": SECOND}, 10088, None),
        ({"flow_control": True}, 10089, None),
        ({"max_expires": 1000}, 10115, "consumer max request expires needs to be >= 1ms"),
        ({"direct": True}, 10090, None),
        ({"direct": True, "durable_name": "D", **PUSH}, 10091, None),
        ({"filter_subject": "a", "filter_subjects": ["b"]}, 10136, None),
        ({"filter_subject": "a..b"}, 10052, "invalid subject"),
        ({"filter_subjects": ["a", ""]}, 10139, None),
        ({"filter_subjects": ["a.*", "a.b"]}, 10138, "consumer subject filters cannot overlap"),
        (
            {"opt_start_seq": 3},
            10094,
            START_ALL,
        ),
        (
            {"deliver_policy": "last", "opt_start_time": TIME},
            10094,
            START + "deliver last, but optional start time is also set",
        ),
        (
            {"deliver_policy": "by_start_sequence"},
            10094,
            START + "deliver by start sequence, but optional start sequence is not set",
        ),
        (
            {"deliver_policy": "by_start_sequence", "opt_start_seq": 1, "opt_start_time": TIME},
            10094,
            START + "deliver by start sequence, but optional start time is also set",
        ),
        (
            {"deliver_policy": "by_start_time"},
            10094,
            START + "deliver by start time, but optional start time is not set",
        ),
        (
            {"deliver_policy": "by_start_time", "opt_start_seq": 1, "opt_start_time": TIME},
            10094,
            START + "deliver by start time, but optional start start sequence is also set",
        ),
        (
            {"deliver_policy": "last_per_subject"},
            10094,
            START + "deliver last per subject, but optional filter subject is not set",
        ),
        (
            {"sample_freq": "zz", "priority_policy": "overflow"},
            10095,
            'failed to parse consumer sampling configuration: strconv.Atoi: parsing "zz": '
            "invalid syntax",
        ),
        (
            {"sample_freq": "-3"},
            10095,
            "failed to parse consumer sampling configuration: <nil>",
        ),
        ({"durable_name": "a", "name": "b"}, 10132, None),
        (
            {"metadata": {"a": "x" * 131_073}},
            10135,
            METADATA,
        ),
        ({"priority_groups": ["g"]}, 10196, None),
        ({"priority_timeout": 5}, 10197, None),
        ({"priority_policy": "overflow"}, 10159, None),
        ({"priority_policy": "overflow", "priority_groups": [""]}, 10161, None),
        ({"priority_policy": "overflow", "priority_groups": ["a b"]}, 10162, None),
        ({"priority_policy": "overflow", "priority_groups": ["g"], **PUSH}, 10178, None),
        ({"ack_policy": "flow_control"}, 10218, None),
        ({**FLOW_ACK, "pedantic": True}, 10219, None),
        ({**FLOW_ACK, "max_ack_pending": -1}, 10220, None),
        ({**FLOW_ACK, "ack_wait": 5}, 10221, None),
        ({**FLOW_ACK, "max_deliver": 5}, 10222, None),
        ({"stream": QUEUE}, 10084, None),
    ],
)
def test_refusals(fields, code, text, refusal):
    found = refusal(**fields)
    assert found[0] == code
    if text is not None:
        assert found[1] == text


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"deliver_policy": "new"}, "deliver policy can not be updated"),
        ({"ack_policy": "all"}, "ack policy can not be updated"),
        ({"replay_policy": "original"}, "replay policy can not be updated"),
        ({"max_waiting": 5}, "max waiting can not be updated"),
        ({"mem_storage": True}, "storage type can not be updated"),
        ({"sourcing": True, "direct": True}, "sourcing can not be updated"),
        ({"direct": True, "ack_policy": "all"}, "direct can not be updated"),
        ({"deliver_subject": "d"}, "can not update pull consumer to push based"),
    ],
)
def test_what_an_update_can_not_change(change, text, resolve):
    old = resolve(durable_name="C", ack_policy="explicit")
    with pytest.raises(ApiError) as caught:
        check_update(old, old.model_copy(update=change))
    assert (caught.value.err_code, caught.value.description) == (10012, text)


def test_an_update_may_change_the_rest(resolve):
    old = resolve(durable_name="C", ack_policy="explicit")
    check_update(old, old.model_copy(update={"ack_wait": 5, "filter_subject": "a"}))


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"ack_policy": "all"}, 10098),
        ({"ack_policy": "none", "deliver_policy": "new"}, 10098),
        ({"ack_policy": "explicit", "deliver_policy": "new"}, 10101),
        ({"ack_policy": "flow_control", "deliver_policy": "last"}, 10101),
        ({"ack_policy": "explicit"}, 0),
        ({"ack_policy": "flow_control"}, 0),
    ],
)
def test_what_a_work_queue_wants_of_a_new_consumer(fields, code):
    if not code:
        check_workqueue(ConsumerConfig(**fields))
        return
    with pytest.raises(ApiError) as caught:
        check_workqueue(ConsumerConfig(**fields))
    assert caught.value.err_code == code


def test_a_filter_is_no_longer_than_a_subject(refusal):
    longest = "b" * SUBJECT_BYTES_MAX
    assert refusal(filter_subjects=["a", longest + "b"]) == (10052, "invalid subject")
    without_pauses(check_filters(ConsumerConfig(filter_subjects=["a", longest])))


def test_filters_that_meet_in_too_many_ways_overlap(refusal):
    ways = itertools.product("*x", repeat=11)
    filters = [".".join((*way, str(n))) for n, way in enumerate(ways)]
    overlap = 10138, "consumer subject filters cannot overlap"
    assert refusal(filter_subjects=filters) == overlap


@pytest.mark.parametrize(("last", "code"), [("", 10139), ("a..b", 10052), ("f.1999", 10138)])
def test_the_last_of_many_filters_is_looked_at_in_steps(last, code):
    steps = check_filters(ConsumerConfig(filter_subjects=[*(f"f.{n}" for n in range(2000)), last]))
    pauses = 0
    with pytest.raises(ApiError) as caught:
        for _ in steps:
            pauses += 1
    assert caught.value.err_code == code and pauses > 2
