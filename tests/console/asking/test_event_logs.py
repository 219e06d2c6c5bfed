"""Event logs as Spark writes them: whole, in pieces, compressed; and as nobody should."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from jetstream_console.asking import event_logs
from jetstream_console.asking.errors import RefusedError
from jetstream_console.asking.event_logs import EventLogs

NAMES = "org.apache.spark.sql.streaming.StreamingQueryListener$Query"


def event(kind: str, **fields) -> bytes:
    said = {"Event": f"{NAMES}{kind}Event", **fields}
    return json.dumps(said, separators=(",", ":")).encode() + b"\n"


def started(run: str, minute: int, query: str = "q", name: str = "shop") -> bytes:
    at = f"2026-11-23T14:{minute:02}:00.500Z"
    return event("Started", id=query, runId=run, name=name, timestamp=at)


def progress(run: str, minute: int) -> bytes:
    at = f"2026-11-23T14:{minute:02}:30.500Z"
    return event("Progress", progress={"id": "q", "runId": run, "timestamp": at, "batchId": 1})


def ended(run: str, error: str | None = None, query: str = "q") -> bytes:
    return event("Terminated", id=query, runId=run, exception=error)


def frame(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


OTHER = b'{"Event":"SparkListenerJobEnd","Job ID":0,"text":"StreamingQueryListener$Query"}\n'
ERROR = "org.Exception: no\n\tat a.b(C.scala:1)"


@pytest.mark.parametrize("packed", [True, False])
def test_a_log_is_read_while_it_grows(run, tmp_path, packed):
    async def work():
        folder = tmp_path / "eventlog_v2_app-1"
        folder.mkdir()
        log = folder / f"events_1_app-1{'.zstd' if packed else ''}"
        (folder / ".events_1_app-1.crc").write_bytes(b"crc")
        wrapped = frame if packed else bytes
        logs = EventLogs(f"file://{tmp_path}")
        first = wrapped(OTHER + started("1", 1) + progress("1", 2)) + wrapped(progress("1", 3))
        second = wrapped(OTHER + ended("1", ERROR))
        log.write_bytes(first)
        [row] = (await logs.look()).rows
        assert (row.query, row.run, row.name, row.has_ended, row.error) == ("q", "1", "shop", 0, "")
        assert row.began.minute == 1 and row.last_batch.minute == 3
        # Every place at which a flush may not have come further.
        for cut in (1, 3, 4, 20, len(second) - 1):
            log.write_bytes(first + second[:cut])
            [row] = (await logs.look()).rows
            assert not row.has_ended, cut
        log.write_bytes(first + second)
        found = await logs.look()
        assert (found.rows[0].error, found.last_error("q")) == (ERROR, "org.Exception: no")
        assert found.rows[0].last_batch.minute == 3 and found.last_error("p") == ""
        again = wrapped(started("2", 5))
        log.write_bytes(first + second + again)
        found = await logs.look()
        assert [each.run for each in found.rows] == ["2", "1"] and found.words == ()
        assert found.last_error("q") == "org.Exception: no"
        assert (found.named("q"), found.named("p")) == ("shop (q)", "p")
        log.write_bytes(first + second + again + wrapped(ended("2")))
        found = await logs.look()
        assert [(each.run, each.has_ended) for each in found.rows] == [("2", True), ("1", True)]

    run(work())


def test_of_a_long_log_the_end_is_read_and_of_many_the_newest(run, tmp_path, monkeypatch):
    monkeypatch.setattr(event_logs, "END_BYTES", 2_000)
    monkeypatch.setattr(event_logs, "LOOK_BYTES", 4_000)

    async def work():
        log = tmp_path / "app-1"
        log.write_bytes(started("1", 1) + OTHER * 100 + ended("1", ERROR, query="begun before"))
        logs = EventLogs(str(tmp_path))
        [row] = (await logs.look()).rows
        assert (row.query, row.name, row.began, row.has_ended) == ("begun before", "", None, True)
        with log.open("ab") as file:
            file.write(b"x" * 9_000 + b"\n" + started("2", 2, "later"))
        for _ in range(4):
            found = await logs.look()
        assert {each.query for each in found.rows} == {"begun before", "later"}
        log.write_bytes(started("3", 3, "another log of this name"))
        assert (await logs.look()).rows[0].run == "3"
        monkeypatch.setattr(event_logs, "FILES_MAX", 1)
        (tmp_path / "app-2").write_bytes(started("4", 4, "newer"))
        found = await logs.look()
        assert found.words == ("Only the newest 1 of 2 event logs are looked at.",)
        monkeypatch.setattr(event_logs, "RUNS_MAX", 2)
        (tmp_path / "app-2").write_bytes(started("4", 4) + started("5", 5) + started("6", 6))
        assert len((await logs.look()).rows) <= 2

    run(work())


def test_what_cannot_be_read_is_said_and_hides_nothing_else(run, tmp_path):
    async def work():
        for name, content in (
            ("a.lz4", b"x"),
            ("b.zstd", b"\x28\xb5\x2f\xfd" + b"x" * 100),
            ("c", b"\xff\n" + event("Started") + event("Terminated", exception=5)),
            ("d", NAMES.encode() + b"[" * 100_000),
            ("e", b'{"Event":"' + NAMES.encode() + b'StartedEvent"' + b"[" * 100_000 + b"\n"),
            ("f.zstd.inprogress", frame(started("1", 1) + event("Progress") + ended("1", ERROR))),
        ):
            (tmp_path / name).write_bytes(content)
        found = await EventLogs(str(tmp_path)).look()
        assert found.rows[0].error == ERROR
        assert found.words == ("'a.lz4' is compressed in a way that is not read here.",)
        for folder in ("/none", "s3a://bucket/x"):
            with pytest.raises(RefusedError):
                await EventLogs(folder).look()

    run(work())
