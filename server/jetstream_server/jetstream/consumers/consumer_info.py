"""What CONSUMER.INFO, CONSUMER.LIST and monitoring show of a consumer."""

from __future__ import annotations

from typing import Any

from jetstream_server import API_LEVEL, NATS_VERSION
from jetstream_server.jetstream.consumers.consumer_context import ConsumerContext
from jetstream_server.jetstream.consumers.priority import Pin
from jetstream_server.jetstream.consumers.pull import Pull
from jetstream_server.jetstream.consumers.push import Push
from jetstream_server.jetstream.wire.go_duration import DURATION_NS_MAX
from jetstream_server.jetstream.wire.go_time import ZERO_TEXT, format_time


def consumer_info(
    consumer: ConsumerContext,
    created: int,
    pull: Pull,
    push: Push | None,
    paused_until: int,
    now: int,
) -> dict[str, Any]:
    """Return ConsumerInfo, without `type`."""
    progress = consumer.progress
    config = consumer.config.to_wire()
    if "metadata" in config:
        added = {"_nats.level": str(API_LEVEL), "_nats.ver": NATS_VERSION}
        config["metadata"] = dict(sorted((config["metadata"] | added).items()))
    info: dict[str, Any] = {
        "stream_name": consumer.stream.name,
        "name": consumer.name,
        "created": format_time(created),
        "config": config,
        "delivered": _position(progress.consumer_seq, progress.stream_seq, consumer.delivered_at),
        "ack_floor": _position(
            progress.floor_consumer_seq, progress.floor_stream_seq, consumer.acked_at
        ),
        "num_ack_pending": len(progress.pending),
        "num_redelivered": progress.num_redelivered,
        "num_waiting": pull.num_waiting,
        "num_pending": progress.cursor.num_pending(),
    }
    if push is not None and push.has_interest():
        info["push_bound"] = True
    if consumer.is_paused:
        info["paused"] = True
        info["pause_remaining"] = pause_left_ns(paused_until, now)
    info["ts"] = format_time(now)
    if consumer.config.priority_groups:
        info["priority_groups"] = [_group_info(consumer.config.priority_groups[0], pull.pin)]
    return info


def pause_left_ns(until: int, now: int) -> int:
    """Return how long a pause still lasts, at most as long as a duration can be."""
    return min(max(until - now, 0), DURATION_NS_MAX)


def _group_info(name: str, pin: Pin) -> dict[str, Any]:
    group: dict[str, Any] = {"group": name}
    if pin.id:
        group["pinned_client_id"] = pin.id
    group["pinned_ts"] = format_time(pin.pinned_at) if pin.pinned_at else ZERO_TEXT
    return group


def _position(consumer_seq: int, stream_seq: int, active_at: int) -> dict[str, Any]:
    position: dict[str, Any] = {"consumer_seq": consumer_seq, "stream_seq": stream_seq}
    if active_at:
        position["last_active"] = format_time(active_at)
    return position
