"""Defaults, and what pedantic requests refuse of them."""

from __future__ import annotations

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.jetstream.configs.consumer_config import ConsumerBounds, with_pause
from jetstream_server.jetstream.configs.stream_config import StreamConfig, StreamConsumerLimits
from jetstream_server.jetstream.wire.go_time import ZERO, Instant, parse_time

STREAM = StreamConfig(name="S", subjects=["s.>"])
TIME = parse_time("2020-01-01T00:00:00Z")
PUSH = {"deliver_subject": "d"}
FLOW_ACK = {"ack_policy": "flow_control", **PUSH}


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
def test_pedantic_refusals(fields, text, refusal):
    assert refusal(pedantic=True, **fields) == (10157, f"pedantic mode: {text}")


def test_defaults_of_a_pull_consumer(resolve):
    config = resolve(durable_name="C", ack_policy="explicit")
    assert (config.ack_wait, config.max_deliver, config.max_waiting) == (30 * SECOND, -1, 512)
    assert (config.max_ack_pending, config.inactive_threshold) == (1000, 0)
    assert resolve(ack_policy="none").max_ack_pending == 0
    assert resolve().inactive_threshold == 5 * SECOND


def test_negatives_become_defaults(resolve):
    config = resolve(max_waiting=-7, max_batch=-7, max_expires=-7, max_bytes=-7, idle_heartbeat=-7)
    assert (config.max_waiting, config.max_batch, config.max_expires) == (512, 0, 0)
    assert resolve(ack_policy="all", max_ack_pending=-7).max_ack_pending == -1


def test_backoff_replaces_the_ack_wait(resolve):
    assert resolve(ack_policy="none", backoff=[SECOND]).ack_wait == SECOND


def test_flow_control_acks_fill_in_what_they_need(resolve):
    config = resolve(**FLOW_ACK)
    assert (config.flow_control, config.idle_heartbeat, config.max_ack_pending) == (
        True,
        SECOND,
        1000,
    )
    assert (config.ack_wait, config.metadata["_nats.req.level"]) == (0, "4")


def test_limits_of_stream_and_server_are_defaults_and_bounds(resolve, refusal):
    limits = StreamConsumerLimits(max_ack_pending=50, inactive_threshold=9 * SECOND)
    stream = StreamConfig(name="S", consumer_limits=limits)
    config = resolve(stream, durable_name="C", ack_policy="explicit")
    assert (config.max_ack_pending, config.inactive_threshold) == (50, 9 * SECOND)
    assert resolve(stream, ack_policy="all", max_ack_pending=-1).max_ack_pending == -1
    assert refusal(stream=stream, ack_policy="all", max_ack_pending=51)[0] == 10121
    unlimited = stream.model_copy(
        update={"consumer_limits": StreamConsumerLimits(max_ack_pending=-1)}
    )
    assert resolve(unlimited, ack_policy="none").max_ack_pending == -1
    assert resolve(unlimited, ack_policy="all").max_ack_pending == -1
    assert resolve(unlimited, ack_policy="all", max_ack_pending=7).max_ack_pending == 7
    assert refusal(stream=stream, inactive_threshold=10 * SECOND) == (
        10153,
        "consumer inactive threshold exceeds system limit of 9s",
    )
    bounds = ConsumerBounds(max_request_batch=10)
    assert resolve(bounds=bounds).max_batch == 10
    assert refusal(bounds=bounds, max_batch=11)[0] == 10125


def test_the_level_and_metadata_of_clients(resolve):
    assert resolve(pause_until=TIME).metadata["_nats.req.level"] == "1"
    metadata = {"_nats.ver": "9", "_nats.level": "9", "_nats.req.level": "9", "_nats.foo": "1"}
    assert resolve(metadata=metadata).metadata == {"_nats.foo": "1", "_nats.req.level": "0"}


def test_the_streams_limit_is_filled_in_even_without_acks(resolve):
    limits = StreamConsumerLimits(max_ack_pending=50)
    stream = STREAM.model_copy(update={"consumer_limits": limits})
    assert resolve(stream, ack_policy="none").max_ack_pending == 50


def test_a_pause_needs_its_level_as_long_as_it_is_remembered(resolve):
    config = resolve(ack_policy="explicit")
    paused = with_pause(config, TIME)
    assert (paused.pause_until, paused.metadata["_nats.req.level"]) == (TIME, "1")
    for never in (None, Instant(ZERO)):
        resumed = with_pause(paused, never)
        assert (resumed.pause_until, resumed.metadata["_nats.req.level"]) == (never, "0")
