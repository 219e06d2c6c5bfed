"""The two sides of the comparison: how each makes, counts and drops what is read and written.

Runs in the process that has Spark's session. Kafka's own client is on its driver's class path, so
topics are made and messages published with it, by way of py4j.
"""

from __future__ import annotations

from typing import Any, Protocol

from benchmarks.wire import Wire

ROWS_MAX = 1 << 40


class Side(Protocol):
    """A server and its connector.

    Attributes:
        name: in reports.
        format: of `spark.read` and `df.write`.
        payload: the column that holds the bytes of a message.
    """

    name: str
    format: str
    payload: str

    def make(self, place: str) -> None:
        """Make an empty stream or topic."""

    def drop(self, place: str) -> None:
        """Delete it."""

    def count(self, place: str) -> int:
        """How many messages it holds."""

    def source(self, place: str, *, is_one_task: bool) -> dict[str, str]:
        """The options of a read of all of it."""

    def sink(self, place: str) -> dict[str, str]:
        """The options of a write."""

    def publish(self, place: str, payload: bytes) -> None:
        """Store one message; return when it is stored."""

    def position(self, end_offset: Any, place: str) -> int:
        """How many messages of a new stream or topic lie before an offset of Spark's progress."""


class JetStream:
    """The bundled server and this project's connector."""

    name = "ours"
    format = "jetstream"
    payload = "data"

    def __init__(self, port: int) -> None:
        self._servers = f"nats://127.0.0.1:{port}"
        self._wire = Wire(port, timeout_s=120.0)
        self._wire.subscribe_inbox()

    def make(self, place: str) -> None:
        body = {"name": place, "subjects": [f"{place}.>"], "storage": "file"}
        self._wire.api(f"STREAM.CREATE.{place}", body)

    def drop(self, place: str) -> None:
        self._wire.api(f"STREAM.DELETE.{place}")

    def count(self, place: str) -> int:
        return int(self._wire.api(f"STREAM.INFO.{place}")["state"]["messages"])

    def source(self, place: str, *, is_one_task: bool) -> dict[str, str]:
        options = {"servers": self._servers, "stream": place, "startingOffsets": "earliest"}
        if is_one_task:
            options |= {"maxOffsetsPerPartition": str(ROWS_MAX), "maxPartitions": "1"}
        return options

    def sink(self, place: str) -> dict[str, str]:
        return {"servers": self._servers, "stream": place, "subject": f"{place}.a"}

    def publish(self, place: str, payload: bytes) -> None:
        self._wire.request(f"{place}.a", payload)

    def position(self, end_offset: Any, place: str) -> int:
        return int(end_offset["streams"][place]["next"]) - 1


class Kafka:
    """The broker and the connector that Spark has for it.

    A topic has one partition, which is the broker's default.
    """

    name = "Kafka"
    format = "kafka"
    payload = "value"

    def __init__(self, session: Any, port: int) -> None:
        self._servers = f"127.0.0.1:{port}"
        self._jvm = session._jvm
        settings = self._jvm.java.util.HashMap()
        settings["bootstrap.servers"] = self._servers
        clients = self._jvm.org.apache.kafka.clients
        self._admin = clients.admin.AdminClient.create(settings)
        serializer = "org.apache.kafka.common.serialization.ByteArraySerializer"
        settings["key.serializer"] = settings["value.serializer"] = serializer
        self._producer = clients.producer.KafkaProducer(settings)

    def make(self, place: str) -> None:
        topic = self._jvm.org.apache.kafka.clients.admin.NewTopic(place, 1, 1)
        self._admin.createTopics([topic]).all().get()

    def drop(self, place: str) -> None:
        self._admin.deleteTopics([place]).all().get()

    def count(self, place: str) -> int:
        partition = self._jvm.org.apache.kafka.common.TopicPartition(place, 0)
        latest = self._jvm.org.apache.kafka.clients.admin.OffsetSpec.latest()
        found = self._admin.listOffsets({partition: latest}).partitionResult(partition).get()
        return int(found.offset())

    def source(self, place: str, *, is_one_task: bool) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self._servers,
            "subscribe": place,
            "startingOffsets": "earliest",
        }

    def sink(self, place: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self._servers, "topic": place}

    def publish(self, place: str, payload: bytes) -> None:
        record = self._jvm.org.apache.kafka.clients.producer.ProducerRecord(place, payload)
        self._producer.send(record).get()

    def position(self, end_offset: Any, place: str) -> int:
        return int(end_offset[place]["0"])
