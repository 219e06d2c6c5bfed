"""Consumers of a stream: how they are configured, and how far they have come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jetstream_console.asking.answers import flag, moment, number, part, parts, text, texts
from jetstream_console.asking.api import Api, token

CONSUMERS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Consumer:
    """One consumer.

    Attributes:
        filters: subjects that it delivers; none for all of them.
        pending: messages that it has not delivered yet: how far it lags behind.
        unacknowledged: delivered and not acknowledged.
        waiting_pulls: requests for messages that are waiting.
        delivered_sequence: the last sequence of the stream that was delivered.
        floor_sequence: the sequence of the stream up to which everything is acknowledged.
        paused_until: None while it is not paused.
        config: as the server has it.
    """

    stream: str
    name: str
    is_pull: bool
    is_durable: bool
    filters: tuple[str, ...]
    ack_policy: str
    pending: int
    unacknowledged: int
    redelivered: int
    waiting_pulls: int
    delivered_sequence: int
    floor_sequence: int
    is_bound: bool
    last_active: datetime | None
    paused_until: datetime | None
    config: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Consumers:
    """The consumers of a stream, or as many of them as are looked at.

    Attributes:
        total: how many there are.
    """

    rows: tuple[Consumer, ...]
    total: int


async def consumers_of(api: Api, stream: str, at_most: int = CONSUMERS_MAX) -> Consumers:
    """Return the consumers of a stream in the order of their names."""
    pages, total = await api.ask_all(
        f"CONSUMER.LIST.{token(stream)}",
        {},
        lambda page: len(parts(page, "consumers")) + len(texts(page, "missing")),
        at_most,
    )
    rows = [read_consumer(each) for page in pages for each in parts(page, "consumers")]
    return Consumers(tuple(sorted(rows, key=lambda row: row.name)), total)


async def consumer_detail(api: Api, stream: str, name: str) -> Consumer:
    """Return one consumer as it is now."""
    return read_consumer(await api.ask(f"CONSUMER.INFO.{token(stream)}.{token(name)}"))


async def pause_consumer(api: Api, stream: str, name: str, until: datetime) -> None:
    """Have a consumer deliver nothing until a moment; if that is past, it goes on."""
    body = {"pause_until": until.isoformat().replace("+00:00", "Z")}
    await api.ask(f"CONSUMER.PAUSE.{token(stream)}.{token(name)}", body)


async def reset_consumer(api: Api, stream: str, name: str, sequence: int) -> None:
    """Have a consumer start over at a sequence of its stream; 0 means right after its floor."""
    body = {"seq": sequence} if sequence else None
    await api.ask(f"CONSUMER.RESET.{token(stream)}.{token(name)}", body)


async def delete_consumer(api: Api, stream: str, name: str) -> None:
    """Remove a consumer, and its progress with it."""
    await api.ask(f"CONSUMER.DELETE.{token(stream)}.{token(name)}")


def read_consumer(answer: Mapping[str, Any]) -> Consumer:
    """Return a consumer from what `CONSUMER.INFO` says."""
    config, delivered = part(answer, "config"), part(answer, "delivered")
    one = text(config, "filter_subject")
    moments = (moment(delivered, "last_active"), moment(part(answer, "ack_floor"), "last_active"))
    return Consumer(
        stream=text(answer, "stream_name"),
        name=text(answer, "name"),
        is_pull=not text(config, "deliver_subject"),
        is_durable=bool(text(config, "durable_name")),
        filters=(one,) if one else texts(config, "filter_subjects"),
        ack_policy=text(config, "ack_policy"),
        pending=number(answer, "num_pending"),
        unacknowledged=number(answer, "num_ack_pending"),
        redelivered=number(answer, "num_redelivered"),
        waiting_pulls=number(answer, "num_waiting"),
        delivered_sequence=number(delivered, "stream_seq"),
        floor_sequence=number(part(answer, "ack_floor"), "stream_seq"),
        is_bound=flag(answer, "push_bound"),
        last_active=max((each for each in moments if each is not None), default=None),
        paused_until=moment(config, "pause_until") if flag(answer, "paused") else None,
        config=config,
    )
