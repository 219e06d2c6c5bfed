"""The origin's side of mirroring and sourcing: the consumers that mirrors and sources ask for.

A request says `direct` and `sourcing`. On a stream with limits it gets a consumer that nobody else
sees, under a name of its own each time. On a stream that removes what is consumed it gets a durable
consumer with acks by flow control, so that nothing goes before it is stored elsewhere; a request of
the same name takes that one over, from right after its ack floor. Either way the answer names the
identity of the stream, so that a source notices when a stream of the same name is another one.

Specification: docs/reference/mirrors.md#consumers-at-the-origin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetstream_server.jetstream import errors
from jetstream_server.jetstream.configs.consumer_config import ConsumerConfig
from jetstream_server.jetstream.consumers.consumer import Consumer
from jetstream_server.jetstream.consumers.consumer_creation import reset_consumer
from jetstream_server.jetstream.origins.feed import IDENTITY
from jetstream_server.jetstream.wire.name_hash import name_hash
from jetstream_server.protocol import headers as header_block

if TYPE_CHECKING:
    from jetstream_server.jetstream.stream import Stream


def stream_identity(stream: Stream) -> bytes:
    """Return what tells a stream apart from others that had its name before."""
    return name_hash(f"{stream.name} {stream.context.account} {stream.created}").encode()


def check_identity(stream: Stream, headers: bytes) -> None:
    """Refuse a request that is meant for another stream of this name.

    Raises:
        ApiError: 10225.
    """
    meant = header_block.get(headers, IDENTITY) if headers else None
    own = stream_identity(stream)
    if meant and meant != own:
        raise errors.CONSUMER_STREAM_IDENTITY_MISMATCH(own.decode())


def suited(stream: Stream, config: ConsumerConfig) -> ConsumerConfig:
    """Return the config of the consumer that a mirror or source gets for its request."""
    if not (config.direct and config.sourcing and config.name):
        return config
    if stream.config.retention == "limits":
        return config.model_copy(update={"name": f"{config.name}-{stream.context.nuid.short()}"})
    changes = {
        "durable_name": config.name,
        "direct": False,
        "ack_policy": "flow_control",
        "ack_wait": 0,
        "max_deliver": 0,
        "inactive_threshold": 0,
    }
    existing = stream.consumers.get(config.name)
    if isinstance(existing, Consumer):
        start = existing.config  # where it once started cannot be changed, and does not matter
    else:
        start = (
            ConsumerConfig.model_construct() if stream.config.retention == "workqueue" else config
        )
    for field in ("deliver_policy", "opt_start_seq", "opt_start_time"):
        changes[field] = getattr(start, field)
    return config.model_copy(update=changes)


def take_over(consumer: Consumer, now: int) -> None:
    """Have a durable consumer send everything that was not acknowledged again."""
    has_sent = consumer.progress.consumer_seq > 0
    if consumer.config.sourcing and consumer.config.is_durable and has_sent:
        reset_consumer(consumer, 0, now)
