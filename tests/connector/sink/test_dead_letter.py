"""Frames on their way to the dead-letter subject, and what brings rows there."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from jetstream_spark.sink.dead_letter import dead_letter_frame
from jetstream_spark.sink.ledger import Scope, ScopeKind
from jetstream_spark.sink.sink_columns import SinkColumns
from jetstream_spark.sink.writer import write_partition

ADDED = b"Dead-Letter-Subject: a.b\r\nDead-Letter-Reason: too large\r\n\r\n"


def test_a_frame_without_headers_gets_some() -> None:
    frame = dead_letter_frame(b"PUB a.b r.1 7\r\ndata\r\nx\r\n", b"dead", "too  large")
    block = b"NATS/1.0\r\n" + ADDED
    sizes = (len(block), len(block) + 7)
    assert frame == b"HPUB dead r.1 %d %d\r\n%bdata\r\nx\r\n" % (*sizes, block)


def test_headers_stay_except_what_was_expected_of_the_stream() -> None:
    kept = b"Nats-Msg-Id: 7\r\nTrace: 1\r\nTrace: 2\r\n"
    block = b"NATS/1.0\r\nNats-Expected-Stream: S\r\nNats-TTL: 9\r\n" + kept + b"\r\n"
    original = b"HPUB a.b r.1 %d %d\r\n%b\r\n" % (len(block), len(block), block)
    frame = dead_letter_frame(original, b"dead", "too large")
    block = b"NATS/1.0\r\n" + kept + ADDED
    assert frame == b"HPUB dead r.1 %d %d\r\n%b\r\n" % (len(block), len(block), block)


@pytest.mark.genuine
@pytest.mark.parametrize("mode", ["each", "atomic"])
@pytest.mark.parametrize(
    ("config", "row", "reason"),
    [
        ({}, {"expectedLastSeq": 7}, "wrong last sequence: 1 (error 10071)"),
        ({}, {"expectedLastSubjectSeq": 7}, "wrong last sequence: 1 (error 10071)"),
        ({"max_msg_size": 300}, {"data": b"x" * 500}, "exceeds maximum allowed (error 10054)"),
        ({}, {"subject": "nowhere.at.all"}, "no stream collects this subject, or JetStream is off"),
        ({}, {"subject": "other"}, "(error 10060)"),
        ({"max_msgs": 1}, {}, "maximum messages exceeded (error 10077)"),
        ({"max_bytes": 1000}, {"data": b"x" * 2000}, "maximum bytes exceeded (error 10077)"),
        (
            {"max_msgs_per_subject": 1, "discard_new_per_subject": True},
            {},
            "maximum messages per subject exceeded (error 10077)",
        ),
        ({}, {"ttl": "1h"}, "per-message TTL is disabled (error 10166)"),
        ({"allow_msg_ttl": True}, {"ttl": "1ms"}, "invalid per-message TTL (error 10165)"),
        ({}, {"headers": [("Nats-Rollup", ["sub"])]}, "rollup not permitted (error 10111)"),
        ({"sealed": True}, {}, "sealed"),
    ],
)
def test_every_kind_of_refusal_is_a_dead_letter_with_its_reason(
    make_stream, genuine, mode, config, row, reason
) -> None:
    dead, other = make_stream(genuine.url), make_stream(genuine.url)
    sealed, config = config.get("sealed"), {one: config[one] for one in config if one != "sealed"}
    stream = make_stream(genuine.url, discard="new", allow_atomic=True, **config)
    stream.control.request_message(f"{stream.subject}.a", b"there")
    if sealed:
        body = {"name": stream.name, "subjects": [f"{stream.subject}.>"], "sealed": True}
        body |= {"allow_atomic": True, "discard": "new"}
        stream.control.request(f"STREAM.UPDATE.{stream.name}", body)
    named = {"subject": f"{stream.subject}.a", "data": b"refused"} | row
    if named["subject"] == "other":
        named["subject"] = f"{other.subject}.a"
    kinds = {"ttl": StringType(), "headers": MapType(StringType(), ArrayType(StringType()))}
    schema = StructType().add("subject", StringType()).add("data", BinaryType())
    for name in named:
        if name not in schema.names:
            schema = schema.add(name, kinds.get(name, LongType()))
    arrow = {
        "headers": pa.map_(pa.string(), pa.list_(pa.string())),
        "data": pa.binary(),
        "ttl": pa.string(),
        "subject": pa.string(),
    }
    arrays = [pa.array([named[name]], arrow.get(name, pa.int64())) for name in schema.names]
    options = stream.sink(
        publishMode=mode,
        publishRetries=1,
        onError="deadLetter",
        deadLetterSubject=f"{dead.subject}.x",
    )
    batches = [pa.record_batch(arrays, schema.names)]
    scope = Scope(ScopeKind.QUERY, stream.name, 1)
    written = write_partition(options, SinkColumns(schema, options), batches, scope, 0)
    assert (written.rows, written.dead_letters, stream.count, other.count) == (1, 1, 1, 0)
    ((_, block, data),) = dead.messages()
    assert data == named["data"]
    (said,) = (line for line in block.split(b"\r\n") if line.startswith(b"Dead-Letter-Reason: "))
    assert reason in said.decode()
    assert f"Dead-Letter-Subject: {named['subject']}\r\n".encode() in block
