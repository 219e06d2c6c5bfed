"""Objects that a query reads: put, replaced and deleted while it does."""

from __future__ import annotations

from hashlib import sha256
from random import Random

from jetstream_spark.client.operation import Operation
from jetstream_spark.object_info import (
    ObjectInfo,
    chunk_subject,
    digest_text,
    info_json,
    info_subject,
)
from jetstream_spark.object_store import ObjectStore
from tests.connector_sim.scenes import Keeper
from tests.connector_sim.truth import Life

NAMES = 5
CHUNK_BYTES = 100
_DELETE_CHANCE = 0.15


class ObjectOrigin:
    """Somebody who writes into the object store IN."""

    stream = "OBJ_IN"

    def __init__(self, keeper: Keeper, random: Random) -> None:
        self._keeper = keeper
        self._random = random
        self._there: dict[str, ObjectInfo] = {}
        self._count = 0

    def change(self, life: Life, data: bytes) -> Operation[None]:
        """Give an object another content, or delete it; note when what was before may be gone."""
        name = f"n{self._random.randrange(NAMES)}"
        before = self._there.get(name)
        self._count += 1
        subject = info_subject("IN", name)
        info = ObjectInfo(name, subject, f"nuid{self._count}", is_deleted=True)
        control = self._keeper.control
        if before is None or before.is_deleted or self._random.random() >= _DELETE_CHANCE:
            chunks = [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]
            digest = digest_text(sha256(data).digest())
            info = ObjectInfo(name, subject, info.nuid, len(data), len(chunks), digest)
            for number, chunk in enumerate(chunks):
                headers = b"NATS/1.0\r\nNats-Msg-Id: %b.%d\r\n\r\n" % (info.nuid.encode(), number)
                yield from control.request_message(chunk_subject(info), chunk, headers)
        if before is not None:
            life.replaced[before.revision] = control.host.now()
        headers = b"NATS/1.0\r\nNats-Rollup: sub\r\nNats-Msg-Id: %b\r\n\r\n" % info.nuid.encode()
        ack = yield from control.request_message(subject, info_json(info, "IN"), headers)
        revision = int(ack["seq"])
        life.stored[revision] = None if info.is_deleted else data
        self._there[name] = ObjectInfo(
            name, subject, info.nuid, is_deleted=info.is_deleted, revision=revision
        )
        if before is not None and not before.is_deleted:
            yield from ObjectStore(control, self.stream).purge(chunk_subject(before))
