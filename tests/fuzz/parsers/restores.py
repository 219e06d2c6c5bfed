"""A backup that is made a stream of: any content, however it is broken."""

from __future__ import annotations

import contextlib
from random import Random
from typing import Any

from jetstream_server.base.errors import ApiError
from jetstream_server.base.nuid import Nuid
from jetstream_server.core.steps import without_pauses
from jetstream_server.core.sublist import Sublist
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.jetstream.configs.stream_config import StreamConfig
from jetstream_server.jetstream.context import Context
from jetstream_server.jetstream.output import Output
from jetstream_server.jetstream.snapshots import archive
from jetstream_server.jetstream.snapshots.archive import END, MAGIC, encode_entry
from jetstream_server.jetstream.snapshots.rebuild import Rebuild, RebuildError
from jetstream_server.store.vault import MemoryVault

NOW = 1_700_000_000 * 10**9
_CONFIGS: tuple[dict[str, Any], ...] = (
    {}, {"allow_atomic": True}, {"sources": [{"name": "O"}]}, {"allow_msg_ttl": True},
    {"allow_msg_counter": True}, {"allow_msg_schedules": True}, {"retention": "workqueue"},
    {"max_msgs": 1, "discard": "new"}, {"mirror": {"name": "O"}, "subjects": []},
    {"max_msgs_per_subject": 1}, {"retention": "interest"}, {"allow_batched": True},
)  # fmt: skip


def _catalog() -> Catalog:
    sublist = Sublist()
    context = Context("$G", "srv", "", sublist, Output(sublist), Nuid(Random(1)))
    return Catalog(context, MemoryVault())


class _Plain:
    """Stands in for what unpacks S2, which has a target of its own."""

    is_complete = True
    cost = 1  # of handing a block out

    def __init__(self) -> None:
        self._blocks: list[bytes] = []

    def feed(self, piece: bytes) -> None:
        self._blocks.append(piece)

    def next_block(self) -> bytes | None:
        return self._blocks.pop() if self._blocks else None


def restored(data: bytes) -> None:
    """A backup made a stream of: it serves and can be removed, or says what was wrong with it."""
    catalog = _catalog()
    wanted = StreamConfig(
        name="R", storage="memory", **{"subjects": ["r.>"], **_CONFIGS[len(data) % len(_CONFIGS)]}
    )
    made = Rebuild(catalog, wanted)
    made._compressed = _Plain()  # type: ignore[assignment]
    try:
        made.feed(MAGIC + data)
        while made.advance():
            pass
        stream = without_pauses(made.finish(NOW))
    except RebuildError:
        made.abandon(NOW)
        assert not catalog.streams and not catalog.restoring
        return
    for sequence in range(stream.store.first_seq, min(stream.store.last_seq, 20) + 1):
        stream.store.load(sequence)
    for _ in range(3):
        stream.tick(NOW + 10**10)
    consumers: list[Any] = list(stream.consumers.values())
    for consumer in consumers:
        consumer.info(NOW)
        consumer.advance(NOW)
    with contextlib.suppress(ApiError):
        catalog.delete("R", NOW)


_CONSUMER = (
    b'{"config":{"durable_name":"C","name":"C","ack_policy":"explicit"},"created":5,"state":'
    b'{"delivered":{"consumer_seq":2,"stream_seq":2},"ack_floor":{"consumer_seq":1,"stream_seq":1},'
    b'"pending":{"2":{"sequence":2,"ts":5}},"redelivered":{"2":1}}}'
)


def _backup(headers: bytes) -> bytes:
    state = b'{"messages":2,"first_seq":1,"last_seq":2,"consumer_count":1}'
    entries = encode_entry(archive.STATE_NAME, 1, state)
    entries += encode_entry(archive.CONSUMER_PREFIX + b"C", 1, _CONSUMER)
    entries += encode_entry(b"r.a", NOW, b"1", sequence=1)
    return entries + encode_entry(b"r.b", NOW, b"2", sequence=2, headers=headers) + END


BACKUPS = (
    _backup(b""),
    _backup(b"NATS/1.0\r\nNats-Batch-Id: b\r\nNats-Batch-Sequence: 2\r\n\r\n"),
    _backup(b"NATS/1.0\r\nNats-Stream-Source: O 5 > > r.b\r\nNats-TTL: 5s\r\n\r\n"),
    _backup(b'NATS/1.0\r\nNats-Counter-Sources: {"O":{"a":"5"}}\r\nNats-Schedule: @daily\r\n\r\n'),
)
