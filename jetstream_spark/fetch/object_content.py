"""The content of objects: chunks put together, and checked against digest and size.

An object may be replaced or deleted while it is read, and then its chunks are removed. So when the
chunks do not add up to what was promised, the store is asked again: its answer tells an object that
is gone from one that is damaged.
"""

from __future__ import annotations

import dataclasses
from hashlib import sha256

import pyarrow as pa

from jetstream_spark.client.control import Control, StreamState
from jetstream_spark.client.operation import Host, Operation, consumed
from jetstream_spark.errors import (
    DataLossError,
    ObjectDamagedError,
    ObjectTooLargeError,
    StreamNotFoundError,
)
from jetstream_spark.fetch.fetch import Fetch
from jetstream_spark.fetch.range_fetch import ConsumerWay
from jetstream_spark.fetch.ranges import SequenceRange
from jetstream_spark.fetch.rows import MessageBlock, column
from jetstream_spark.object_info import (
    CHUNK_BYTES,
    STORE_STREAM_PREFIX,
    ObjectInfo,
    chunk_subject,
    digest_text,
    info_subject,
    is_digest,
)
from jetstream_spark.object_store import ObjectStore
from jetstream_spark.options.format_options import SourceOptions

# An object that is replaced faster than it can be read is not read.
_TRIES_MAX = 20


class ObjectContents:
    """The contents of the objects of one store, and of those that its links lead to."""

    def __init__(self, host: Host, options: SourceOptions) -> None:
        self._host = host
        self._options = options
        self._control = Control(host, options.connection, "reader")
        self._streams: dict[str, StreamState | None] = {}

    def target(self, info: ObjectInfo) -> Operation[tuple[str, ObjectInfo] | None]:
        """The object that a link leads to, and the stream of its store.

        None if there is no such object: it is gone, or the link leads to a whole store or another
        link.
        """
        store, _, name = info.link.partition("/")
        stream = f"{STORE_STREAM_PREFIX}{store}"
        if not name or (yield from self._state(stream)) is None:
            return None
        found = yield from ObjectStore(self._control, stream).info(info_subject(store, name))
        return (stream, found) if found is not None and found.has_content else None

    def _state(self, stream: str) -> Operation[StreamState | None]:
        if stream not in self._streams:
            try:
                self._streams[stream] = yield from self._control.stream_state(stream)
            except StreamNotFoundError:
                self._streams[stream] = None
        return self._streams[stream]

    def latest(self, stream: str, info: ObjectInfo) -> Operation[tuple[ObjectInfo, bytes] | None]:
        """An object and its content as they are now; None when it is gone.

        Raises: as `read`.
        """
        store = ObjectStore(self._control, stream)
        current: ObjectInfo | None = info
        for _ in range(_TRIES_MAX):
            if current is None or not current.has_content:
                return None
            content = yield from self.read(stream, current)
            if content is not None:
                return current, content
            current = yield from store.info(info.subject)
        raise ObjectDamagedError(
            f"object '{info.name}' in stream '{stream}' was replaced {_TRIES_MAX} times while it "
            "was read.",
            "Read it when it is written less often.",
        )

    def read(self, stream: str, info: ObjectInfo) -> Operation[bytes | None]:
        """The content of an object; None when it was replaced or deleted since.

        Raises:
            ObjectTooLargeError: it is larger than `maxObjectSize`; nothing of it is read.
            ObjectDamagedError: chunks, size and digest do not fit.
        """
        most = self._options.max_object_bytes
        if info.size > most:
            raise ObjectTooLargeError(
                f"object '{info.name}' in stream '{stream}' has {info.size} bytes, and "
                f"maxObjectSize is {most}.",
                "Raise it as far as a row fits into the memory of executor and driver, or leave "
                "the column bytes out of the schema.",
            )
        try:
            chunks = yield from self._chunks(stream, info)
        except DataLossError:
            chunks = []  # the whole store is gone
        content = b"".join(chunks)
        found = sha256(content).digest()
        if len(content) == info.size and is_digest(info.digest, found):
            return content
        current = yield from ObjectStore(self._control, stream).info(info.subject)
        if current is None or current.is_deleted or current.nuid != info.nuid:
            return None
        raise ObjectDamagedError(
            f"object '{info.name}' in stream '{stream}' is damaged: it should have {info.size} "
            f"bytes with the digest {info.digest or '(none)'}, and its chunks have {len(content)} "
            f"with {digest_text(found)}.",
            "Put it again. Without the column bytes in the schema contents are not read.",
        )

    def _chunks(self, stream: str, info: ObjectInfo) -> Operation[list[bytes]]:
        if not info.size:
            return []
        if info.chunks == 1 and info.size <= 2 * CHUNK_BYTES:
            # One request in place of a consumer, for the small objects that most stores mostly
            # have.
            subject = chunk_subject(info)
            found = yield from ObjectStore(self._control, stream).last(subject)
            return [found[1]] if found is not None else []
        state = yield from self._state(stream)
        if state is None:
            return []
        options = dataclasses.replace(self._options, subjects=(chunk_subject(info),))
        sequences = SequenceRange(stream, state.created, 1, info.revision)
        fetch = Fetch(self._host, options, sequences, ConsumerWay(self._host, options, sequences))
        chunks: list[bytes] = []
        left = info.size

        def take(block: MessageBlock) -> None:
            nonlocal left
            if left < 0:
                return  # nothing beyond the promised size is kept
            for chunk in column(block, stream, "data", pa.binary()):
                part = chunk.as_py()
                left -= len(part)
                chunks.append(part)

        yield from consumed(fetch.blocks(), take)
        return chunks
