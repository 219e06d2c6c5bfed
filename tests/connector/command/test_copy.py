"""`jetstream-spark copy`, there and back, cut off and gone on with."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jetstream_spark.command import copy
from jetstream_spark.command.copy_plan import CopyError, CopyPlan
from jetstream_spark.command.copy_streams import StreamOrigin


@pytest.fixture
def filled(stream):
    """Ten messages with headers."""
    for number in range(10):
        headers = b"NATS/1.0\r\ntraceparent: 00-%032d-01\r\n\r\n" % number
        stream.control.request_message(f"{stream.subject}.a", b"%d" % number, headers)
    return stream


@pytest.fixture
def run(command, genuine):
    def run(source: str, target: str, *words: str):
        options = [f"--from=servers={genuine.url}"] if source.startswith("stream:") else []
        options += [f"--to=servers={genuine.url}"] if target.startswith("stream:") else []
        return command("copy", source, target, "--chunk", "3", *options, *words)

    return run


def contents(stream, subject: str) -> list[tuple]:
    """What is in a stream, without the ids that writes give."""
    return [
        (
            name.replace(stream.subject, subject),
            [one for one in block.split(b"\r\n") if one.startswith(b"traceparent: 00-")],
            data,
        )
        for name, block, data in stream.messages()
    ]


def test_a_stream_to_files_and_back_and_to_another(filled, make_stream, genuine, run, tmp_path):
    folder = str(tmp_path / "files")
    said = json.loads(run(f"stream:{filled.name}", folder, "--json").output)
    assert (said["rows"], said["expected"]) == (10, 10)
    table = pq.read_table(folder)
    assert table["seq"].to_pylist() == list(range(1, 11))
    for source in (folder, f"stream:{filled.name}"):
        other = make_stream(genuine.url)
        rename = f"{filled.subject}={other.subject}"
        result = run(source, f"stream:{other.name}", "--rename", rename)
        assert result.exit_code == 0, result.output
        assert "10 rows are there, all of them" in result.output
        assert contents(other, "x") == contents(filled, "x")
        again = run(source, f"stream:{other.name}", "--rename", rename)
        assert (again.exit_code, other.count) == (0, 10)
        assert "10/10" in again.stderr, "the bar says what was copied before"


def test_a_copy_that_is_cut_off_goes_on(filled, make_stream, genuine, run, tmp_path, monkeypatch):
    read, left = StreamOrigin.read, [0]

    def breaking(self, plan, chunk):
        for batch in read(self, plan, chunk):
            yield batch.slice(0, 1)
            left[0] -= 1
            if left[0] == 0:
                raise CopyError("cut off.")
            yield batch.slice(1)

    monkeypatch.setattr(StreamOrigin, "read", breaking)
    other = make_stream(genuine.url)
    rename = ("--rename", f"{filled.subject}={other.subject}")
    for target, words in ((f"stream:{other.name}", rename), (str(tmp_path / "files"), ())):
        for limit in (2, 1):
            left[0] = limit
            result = run(f"stream:{filled.name}", target, *words)
            assert (result.exit_code, "cut off" in result.stderr) == (1, True)
        filled.control.request_message(f"{filled.subject}.a", b"late")
        left[0] = 0
        said = json.loads(run(f"stream:{filled.name}", target, "--json", *words).output)
        assert said["rows"] == said["expected"]
    assert contents(other, "x") == contents(filled, "x")[:10]


def test_a_copy_that_is_interrupted_says_that_it_can_go_on(filled, run, tmp_path, monkeypatch):
    def interrupted(self, plan, chunk):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(StreamOrigin, "read", interrupted)
        result = run(f"stream:{filled.name}", str(tmp_path / "files"))
        said = json.loads(run(f"stream:{filled.name}", str(tmp_path / "files"), "--json").stdout)
    assert result.exit_code == 130
    assert "[COPY] interrupted. Give the command again" in result.stderr
    assert said["error"]["what"] == "interrupted."
    assert run(f"stream:{filled.name}", str(tmp_path / "files")).exit_code == 0


@pytest.mark.parametrize(
    ("found", "said"), [(9, "1 of 10 rows are not in"), (12, "somebody else writes there")]
)
def test_counts_that_differ_are_said(found, said):
    plan = CopyPlan({"chunks": 1, "rows": 10, "name": "a"}, {})
    with pytest.raises(CopyError, match=said):
        copy.check_count(plan, found, "t")
    copy.check_count(plan, 10, "t")
    copy.check_count(CopyPlan({"chunks": 1, "name": "a"}, {}), found, "t")


@pytest.mark.parametrize(("done", "told"), [(0, [3, 3, 3]), (1, [3, 3, 3]), (3, [9])])
def test_rows_that_were_copied_before_are_told_first(done, told):
    class Ends:
        def __init__(self) -> None:
            self.written: list[int] = []

        def read(self, plan, chunk):
            yield pa.record_batch({"seq": [1, 2, 3]})

        def done(self):
            return done

        def write(self, chunk, batches):
            self.written.append(chunk)
            return sum(batch.num_rows for batch in batches)

    ends, heard = Ends(), []
    copy.copy_all(CopyPlan({"chunks": 3, "rows": 9}, {}), ends, ends, heard.append)
    assert (heard, ends.written) == (told, list(range(done, 3)))


def test_a_stream_is_not_copied_into_itself(filled, run):
    result = run(f"stream:{filled.name}", f"stream:{filled.name}")
    assert result.exit_code == 1 and "is the source and the target" in result.stderr
    assert filled.count == 10


def test_subjects_that_the_target_does_not_collect_are_to_be_renamed(
    filled, make_stream, genuine, run
):
    other = make_stream(genuine.url)
    result = run(f"stream:{filled.name}", f"stream:{other.name}")
    assert result.exit_code == 1 and "--rename OLD=NEW" in result.stderr
    assert (filled.count, other.count) == (10, 0)


@pytest.mark.parametrize("rename", ["a", "=b", "a.*=b", "a=b c", "a=b\\1"])
def test_renames_that_are_none(run, rename):
    assert run("files", "stream:A", "--rename", rename).exit_code == 2


def test_a_rename_in_files_is_refused(run, tmp_path):
    assert run("stream:A", str(tmp_path), "--rename", "a=b").exit_code == 2
