"""Defaults, checks in order, updates; texts as recorded from the genuine server."""

from __future__ import annotations

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import ApiError
from jetstream_server.jetstream.consumers.consumer_config import (
    ConsumerBounds,
    ConsumerConfig,
    check,
    check_update,
    check_workqueue_filters,
    with_defaults,
    with_pause,
)
from jetstream_server.jetstream.streams.stream_config import StreamConfig, StreamConsumerLimits
from jetstream_server.jetstream.wire.go_time import ZERO, Instant, parse_time

STREAM = StreamConfig(name="S", subjects=["s.>"])
QUEUE = StreamConfig(name="W", subjects=["w.>"], retention="workqueue")
TIME = parse_time("2020-01-01T00:00:00Z")


def resolve(stream=STREAM, bounds=ConsumerBounds(), pedantic=False, **fields):  # noqa: B008
    config = with_defaults(ConsumerConfig(**fields), stream, bounds, pedantic=pedantic)
    check(config, stream, bounds)
    return config


def refusal(**fields):
    with pytest.raises(ApiError) as caught:
        resolve(**fields)
    return caught.value.err_code, caught.value.description


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
        ({"stream": QUEUE, "ack_policy": "all"}, 10098, "workqueue stream requires explicit ack"),
        ({"stream": QUEUE, "ack_policy": "explicit", "deliver_policy": "new"}, 10101, None),
    ],
)
def test_refusals(fields, code, text):
    found = refusal(**fields)
    assert found[0] == code
    if text is not None:
        assert found[1] == text


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"max_deliver": -7}, "max_deliver must be set to -1"),
        ({"max_ack_pending": -7}, "max_ack_pending must be set to -1"),
        ({"max_waiting": -7}, "max_waiting must not be negative"),
        ({"inactive_threshold": -7}, "inactive_threshold must not be negative"),
        ({"ack_wait": 5, "backoff": [1]}, "first backoff value has to equal batch AckWait"),
    ],
)
def test_pedantic_refusals(fields, text):
    assert refusal(pedantic=True, **fields) == (10157, f"pedantic mode: {text}")


def test_defaults_of_a_pull_consumer():
    config = resolve(durable_name="C", ack_policy="explicit")
    assert (config.ack_wait, config.max_deliver, config.max_waiting) == (30 * SECOND, -1, 512)
    assert (config.max_ack_pending, config.inactive_threshold) == (1000, 0)
    assert resolve(ack_policy="none").max_ack_pending == 0
    assert resolve().inactive_threshold == 5 * SECOND


def test_negatives_become_defaults():
    config = resolve(max_waiting=-7, max_batch=-7, max_expires=-7, max_bytes=-7, idle_heartbeat=-7)
    assert (config.max_waiting, config.max_batch, config.max_expires) == (512, 0, 0)
    assert resolve(ack_policy="all", max_ack_pending=-7).max_ack_pending == -1


def test_backoff_replaces_the_ack_wait():
    assert resolve(ack_policy="none", backoff=[SECOND]).ack_wait == SECOND


def test_flow_control_acks_fill_in_what_they_need():
    config = resolve(**FLOW_ACK)
    assert (config.flow_control, config.idle_heartbeat, config.max_ack_pending) == (
        True,
        SECOND,
        1000,
    )
    assert (config.ack_wait, config.metadata["_nats.req.level"]) == (0, "4")


def test_limits_of_stream_and_server_are_defaults_and_bounds():
    limits = StreamConsumerLimits(max_ack_pending=50, inactive_threshold=9 * SECOND)
    stream = StreamConfig(name="S", consumer_limits=limits)
    config = resolve(stream, durable_name="C", ack_policy="explicit")
    assert (config.max_ack_pending, config.inactive_threshold) == (50, 9 * SECOND)
    assert resolve(stream, ack_policy="all", max_ack_pending=-1).max_ack_pending == -1
    assert refusal(stream=stream, ack_policy="all", max_ack_pending=51)[0] == 10121
    assert refusal(stream=stream, inactive_threshold=10 * SECOND) == (
        10153,
        "consumer inactive threshold exceeds system limit of 9s",
    )
    bounds = ConsumerBounds(max_request_batch=10)
    assert resolve(bounds=bounds).max_batch == 10
    assert refusal(bounds=bounds, max_batch=11)[0] == 10125


def test_the_level_and_metadata_of_clients():
    assert resolve(pause_until=TIME).metadata["_nats.req.level"] == "1"
    metadata = {"_nats.ver": "9", "_nats.level": "9", "_nats.req.level": "9", "_nats.foo": "1"}
    assert resolve(metadata=metadata).metadata == {"_nats.foo": "1", "_nats.req.level": "0"}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"deliver_policy": "new"}, "deliver policy can not be updated"),
        ({"ack_policy": "all"}, "ack policy can not be updated"),
        ({"replay_policy": "original"}, "replay policy can not be updated"),
        ({"max_waiting": 5}, "max waiting can not be updated"),
        ({"mem_storage": True}, "storage type can not be updated"),
        ({"deliver_subject": "d"}, "can not update pull consumer to push based"),
    ],
)
def test_what_an_update_can_not_change(change, text):
    old = resolve(durable_name="C", ack_policy="explicit")
    with pytest.raises(ApiError) as caught:
        check_update(old, old.model_copy(update=change))
    assert (caught.value.err_code, caught.value.description) == (10012, text)


def test_an_update_may_change_the_rest():
    old = resolve(durable_name="C", ack_policy="explicit")
    check_update(old, old.model_copy(update={"ack_wait": 5, "filter_subject": "a"}))


@pytest.mark.parametrize(
    ("new", "other", "code"),
    [
        ("", "", 10099),
        ("", "w.a", 10099),
        ("w.a", "", 10100),
        ("w.*", "w.a", 10100),
        ("w.b", "w.a", 0),
    ],
)
def test_each_message_of_a_work_queue_has_one_consumer(new, other, code):
    configs = ConsumerConfig(filter_subject=new), [ConsumerConfig(filter_subject=other)]
    if not code:
        check_workqueue_filters(*configs)
        return
    with pytest.raises(ApiError) as caught:
        check_workqueue_filters(*configs)
    assert caught.value.err_code == code


def test_the_streams_limit_is_filled_in_even_without_acks():
    limits = StreamConsumerLimits(max_ack_pending=50)
    stream = STREAM.model_copy(update={"consumer_limits": limits})
    assert resolve(stream, ack_policy="none").max_ack_pending == 50


def test_a_pause_needs_its_level_as_long_as_it_is_remembered():
    config = resolve(ack_policy="explicit")
    paused = with_pause(config, TIME)
    assert (paused.pause_until, paused.metadata["_nats.req.level"]) == (TIME, "1")
    for never in (None, Instant(ZERO)):
        resumed = with_pause(paused, never)
        assert (resumed.pause_until, resumed.metadata["_nats.req.level"]) == (None, "0")
