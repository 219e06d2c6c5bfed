"""Object stores of tests: made, written and read by nats-py and by the connector."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pyarrow as pa
from nats.js.object_store import ObjectStore
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

from jetstream_spark.client.blocking import Blocking, run, this_host
from jetstream_spark.client.control import Control
from jetstream_spark.options.format_options import SinkOptions, SourceOptions
from jetstream_spark.sink.columns_of_write import columns_of_write
from jetstream_spark.sink.ledger import Scope, ScopeKind
from jetstream_spark.sink.sink import Sink, WrittenPartition
from jetstream_spark.source.batch_reader import BatchReader
from jetstream_spark.validation import columns
from tests import patient_client

KINDS = {
    "name": StringType(),
    "bytes": BinaryType(),
    "operation": StringType(),
    "description": StringType(),
    "headers": MapType(StringType(), ArrayType(StringType())),
}
ARROW = {"bytes": pa.binary(), "headers": pa.map_(pa.string(), pa.list_(pa.string()))}
_numbers = itertools.count(1)


class Store:
    """A store, as nats-py makes it."""

    def __init__(self, url: str, **config: Any) -> None:
        self.name = f"store{next(_numbers)}"
        self.stream = f"OBJ_{self.name}"
        self.url = url
        self.control = Blocking(Control(this_host(), self.sink_options().connection, "test"))

        async def make(client: Any) -> None:
            await client.jetstream().create_object_store(self.name, **config)

        self._session(make)

    def _session(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            client = await patient_client.connect(self.url)
            try:
                return await work(client)
            finally:
                await client.close()

        return asyncio.run(asyncio.wait_for(main(), 60))

    def ask(self, work: Callable[[ObjectStore], Awaitable[Any]]) -> Any:
        """What nats-py's store answers."""

        async def session(client: Any) -> Any:
            return await work(await client.jetstream().object_store(self.name))

        return self._session(session)

    def put(self, name: str, content: bytes) -> None:
        """Put an object with nats-py."""
        self.ask(lambda store: store.put(name, content))

    def get(self, name: str) -> bytes:
        """Get an object with nats-py, which looks at its digest."""
        return bytes(self.ask(lambda store: store.get(name)).data)

    def chunks(self) -> dict[str, int]:
        """How many chunks there are of each nuid."""
        body = {"subjects_filter": f"$O.{self.name}.C.>"}
        state = self.control.request(f"STREAM.INFO.{self.stream}", body)["state"]
        found = state.get("subjects") or {}
        return {subject.rpartition(".")[2]: count for subject, count in found.items()}

    # --- the connector ----------------------------------------------------------------------

    def sink_options(self, **more: str) -> SinkOptions:
        """Options of a write."""
        named = {"servers": self.url, "objectStore": self.name, "requestTimeout": "2s"}
        return SinkOptions.parse(named | more)

    def source_options(self, **more: str) -> SourceOptions:
        """Options of a read."""
        return SourceOptions.parse({"servers": self.url, "objectStore": self.name} | more)

    def writing(self, *rows: dict[str, Any], version: int = 1, **more: str) -> Any:
        """The write of rows, as an operation."""
        names = [name for name in KINDS if any(name in row for row in rows)]
        schema = StructType()
        for name in names:
            schema = schema.add(name, KINDS[name])
        arrays = [
            pa.array([row.get(name) for row in rows], ARROW.get(name, pa.string()))
            for name in names
        ]
        options = self.sink_options(**more)
        sink = Sink(this_host(), options, columns_of_write(schema, options), list)
        scope = Scope(ScopeKind.QUERY, self.name, version)
        return sink.write_partition([pa.record_batch(arrays, names)], scope, 0)

    def write(self, *rows: dict[str, Any], version: int = 1, **more: str) -> WrittenPartition:
        """Write rows with the connector."""
        written: WrittenPartition = run(self.writing(*rows, version=version, **more))
        return written

    def read(self, *names: str, **more: str) -> list[dict[str, Any]]:
        """The objects as a batch read has them; `names` are the columns, all if there are none."""
        options = {"servers": self.url, "objectStore": self.name, "includeHeaders": "true"}
        schema = columns(options)
        if names:
            schema = StructType([schema[name] for name in names])
        reader = BatchReader(self.source_options(includeHeaders="true", **more), schema)
        found = [
            row
            for partition in reader.partitions()
            for batch in reader.read(partition)
            for row in batch.to_pylist()
        ]
        return sorted(found, key=lambda row: str(row.get("name")))


def put(name: str | None, content: bytes | None = b"", **more: Any) -> dict[str, Any]:
    """A row."""
    return {"name": name, "bytes": content, **more}
