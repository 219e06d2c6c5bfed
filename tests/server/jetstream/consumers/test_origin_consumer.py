"""Which consumer a mirror or source gets at its origin."""

from __future__ import annotations

from typing import Any

import pytest
from jetstream_server.base.errors import ApiError
from jetstream_server.jetstream.configs.consumer_config import ConsumerConfig
from jetstream_server.jetstream.consumers.consumer_creation import create_consumer
from jetstream_server.jetstream.consumers.origin_consumer import (
    check_identity,
    stream_identity,
    suited,
    take_over,
)


def asked(**fields: Any) -> ConsumerConfig:
    return ConsumerConfig(
        name="JS_MIRROR_x",
        deliver_subject="d",
        max_deliver=1,
        ack_wait=5,
        inactive_threshold=10,
        flow_control=True,
        idle_heartbeat=1_000_000_000,
        direct=True,
        sourcing=True,
    ).model_copy(update=fields)


def test_a_stream_with_limits_gives_a_new_one_each_time(bench: Any) -> None:
    stream = bench.stream()
    first, second = suited(stream, asked()), suited(stream, asked())
    assert first.name != second.name
    assert first.name.startswith("JS_MIRROR_x-") and len(first.name) == 20
    assert first.model_copy(update={"name": "JS_MIRROR_x"}) == asked()


def test_a_work_queue_gives_a_durable_one_that_is_acknowledged(bench: Any) -> None:
    stream = bench.stream(retention="workqueue")
    config = suited(stream, asked(deliver_policy="by_start_sequence", opt_start_seq=7))
    assert (config.name, config.durable_name) == ("JS_MIRROR_x", "JS_MIRROR_x")
    assert (config.ack_policy, config.direct, config.sourcing) == ("flow_control", False, True)
    assert (config.deliver_policy, config.opt_start_seq) == ("all", 0)
    assert (config.ack_wait, config.inactive_threshold) == (0, 0)


def test_an_interest_stream_lets_it_start_later(bench: Any) -> None:
    stream = bench.stream(retention="interest")
    config = suited(stream, asked(deliver_policy="by_start_sequence", opt_start_seq=7))
    assert (config.deliver_policy, config.opt_start_seq) == ("by_start_sequence", 7)


@pytest.mark.parametrize("fields", [{"direct": False}, {"sourcing": False}, {"name": ""}])
def test_other_requests_are_left_alone(bench: Any, fields: dict[str, Any]) -> None:
    stream = bench.stream(retention="workqueue")
    assert suited(stream, asked(**fields)) == asked(**fields)


def test_taking_over_starts_behind_the_ack_floor(bench: Any) -> None:
    stream = bench.stream(retention="workqueue")
    consumer = create_consumer(stream, suited(stream, asked()), bench.now)
    consumer.progress.floor_stream_seq = 4
    take_over(consumer, bench.now)  # just made: nothing to take over
    assert consumer.progress.cursor.next_seq == 1
    consumer.progress.consumer_seq = 9
    again = suited(stream, asked(deliver_policy="by_start_sequence", opt_start_seq=7))
    assert again.deliver_policy == consumer.config.deliver_policy
    take_over(consumer, bench.now)  # also if no time has passed
    assert (consumer.progress.consumer_seq, consumer.progress.cursor.next_seq) == (0, 5)


def test_identity(bench: Any) -> None:
    stream = bench.stream()
    identity = stream_identity(stream)
    assert len(identity) == 8 and stream_identity(stream) == identity
    check_identity(stream, b"")
    check_identity(stream, b"NATS/1.0\r\nNats-Stream-Identity: \r\n\r\n")
    check_identity(stream, b"NATS/1.0\r\nNats-Stream-Identity: %b\r\n\r\n" % identity)
    with pytest.raises(ApiError) as caught:
        check_identity(stream, b"NATS/1.0\r\nNats-Stream-Identity: other\r\n\r\n")
    assert caught.value.err_code == 10225
    assert caught.value.description.endswith(": " + identity.decode())
    bench.now += 1
    assert stream_identity(bench.stream()) != identity
