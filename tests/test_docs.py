"""The documentation says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from jetstream_server.jetstream import open_batches
from jetstream_server.jetstream.api import list_page
from jetstream_server.jetstream.streams.schedules.schedule_timing import TIMING_BYTES_MAX
from jetstream_server.kernels.record_format import SUBJECT_BYTES_MAX
from jetstream_server.monitor.system_services import ANSWER_BYTES_MAX
from pyspark.sql.types import BinaryType, StructField, StructType

import jetstream_spark
from jetstream_spark.client.blocking import this_host
from jetstream_spark.options.format_options import (
    SINK_ONLY,
    SOURCE_ONLY,
    SinkOptions,
    SourceOptions,
)
from jetstream_spark.sink.ledger import Scope, ScopeKind
from jetstream_spark.sink.sink import Sink
from jetstream_spark.sink.sink_columns import SinkColumns

ROOT = Path(__file__).parents[1]
KERNELS = Path(jetstream_spark.__file__).parent / "kernels"


def camel(attribute: str) -> str:
    head, *tail = re.sub(r"_(s|ns)$", "", attribute).split("_")
    return head + "".join(word.capitalize() for word in tail)


def test_every_option_is_documented():
    text = (ROOT / "docs/options.md").read_text()
    documented = set(re.findall(r"`([a-z][A-Za-z]+)`", text))
    known = {*SOURCE_ONLY, *SINK_ONLY}
    assert known, "the lists of options are empty"
    assert known <= documented, sorted(known - documented)
    assert SourceOptions.__doc__ and SinkOptions.__doc__


# Whether it was chosen counts as well: streams that lose what is consumed ask for a choice.
TOLD_APART = {"commitMode", "connectionName"}


def test_defaults_are_those_documented():
    sections = (ROOT / "docs/options.md").read_text().split("\n## ")
    checked = 0
    for kind, title, names in (
        (SourceOptions, "Reading", SOURCE_ONLY),
        (SinkOptions, "Writing", SINK_ONLY),
        (SourceOptions, "Connection", None),
    ):
        (section,) = (each for each in sections if each.startswith(f"{title}\n"))
        given = {"servers": "nats://127.0.0.1:1", "stream": "S", "subject": "s"}
        if kind is SourceOptions:
            del given["subject"]
        for left, right in re.findall(r"^\| ([^|]+) \| ([^|]+) \|", section, flags=re.M):
            options, defaults = (re.findall(r"`([^`]+)`", cell) for cell in (left, right))
            if len(options) != len(defaults) or re.sub(r"`[^`]+`|[, ]", "", right):
                continue  # the default is told in words
            for name, default in zip(options, defaults, strict=True):
                if name in TOLD_APART or (names is not None and name not in names):
                    continue
                assert kind.parse(given | {name: default}) == kind.parse(given), name
                checked += 1
    assert checked > 20


def test_every_test_that_the_page_on_clusters_names_exists():
    text = (ROOT / "docs/clusters.md").read_text()
    named = re.findall(r"`(tests/[a-z_/]+\.py): (test_[a-z_0-9]+)`", text)
    assert len(named) > 10
    for file, test in named:
        assert f"def {test}(" in (ROOT / file).read_text(), (file, test)


def test_every_test_that_the_page_on_guarantees_names_exists():
    pages = ("docs/guarantees.md", "docs/objects.md")
    text = "".join((ROOT / page).read_text() for page in pages)
    sources = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"`(test_[a-z_0-9]+)`", text))
    assert len(named) > 20
    assert [one for one in sorted(named) if f"def {one}(" not in sources] == []
    for file in re.findall(r"`(tests/[a-z_/]+\.py)`", text):
        assert (ROOT / file).is_file(), file


def test_each_cell_of_the_guarantees_names_a_test_or_says_that_there_is_none():
    text = (ROOT / "docs/guarantees.md").read_text().partition("## What the simulator plays")[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    cells = [(row[0], cell) for row in rows for cell in row[1:] if row[0].strip()]
    assert len(cells) > 60
    said = re.compile(r"`tests?[_/]|the same|no test|no entries|not tried")
    headings = re.compile(
        r"Streams with limits|Work queue, `|Interest stream, `|`dedupe=|without the ledger$"
    )
    bare = [one for one in cells if not said.search(one[1]) and not headings.match(one[1])]
    assert bare == []


def test_the_readme_names_only_options_that_exist():
    text = (ROOT / "README.md").read_text() + (ROOT / "docs/options.md").read_text()
    rows = re.findall(r"^\| ((?:`[A-Za-z]+`(?:, )?)+) \|", text, flags=re.M)
    named = {name for row in rows for name in re.findall(r"`([A-Za-z]+)`", row)}
    connection = set(
        re.findall(
            r'"([a-z][A-Za-z]+)"',
            (ROOT / "jetstream_spark/options/connection_options.py").read_text(),
        )
    )
    both = {"bucket", "stream", "servers", "objectStore", "maxObjectSize"}
    unknown = named - {*SOURCE_ONLY, *SINK_ONLY} - connection - both
    assert not unknown


def test_the_ledger_needs_the_stream_as_documented():
    text = (ROOT / "docs/options.md").read_text()
    (row,) = re.findall(r"^\| `ledger` \|.*$", text, flags=re.M)
    assert "with the option `stream`" in row
    schema = StructType([StructField("data", BinaryType())])
    scope = Scope(ScopeKind.TRANSACTION, "app", 1)
    for extra, has_ledger in (({"stream": "S"}, True), ({}, False)):
        options = {"servers": "nats://127.0.0.1:1", "subject": "s"} | extra
        parsed = SinkOptions.parse(options)
        sink = Sink(this_host(), parsed, SinkColumns(schema, parsed), spool=list)
        assert (sink.ledger(scope) is not None) == has_ledger


def test_the_version_info_names_every_kernel():
    kernels = {path.parent.name for path in KERNELS.glob("*/pure.py")}
    info = jetstream_spark.__version_info__
    assert info["version"] == jetstream_spark.__version__
    assert set(info["kernels"]) == kernels
    assert set(info["kernels"].values()) <= {"pure", "compiled"}


def test_options_of_the_server_are_documented_and_work():
    text = (ROOT / "docs/server.md").read_text()
    source = (ROOT / "server/jetstream_server/config/load.py").read_text()
    read = re.findall(r'^    "(\w+)": \("(\w+)"', source, flags=re.M)
    fields: dict[str, list[str]] = {}
    for name, field in read:
        fields.setdefault(field, []).append(name)
    assert len(fields) > 25
    named = set(re.findall(r"`(\w+)`", text))
    assert [names for names in fields.values() if not named.intersection(names)] == []


def test_the_bounds_of_the_server_are_those_of_the_code():
    text = (ROOT / "docs/server.md").read_text()
    (section,) = re.findall(r"^### What is bounded$(.*?)^##", text, flags=re.M | re.S)
    for told in (
        f"`Nats-Schedule` has at most {TIMING_BYTES_MAX:,} bytes",
        f"subject of a message has at most {SUBJECT_BYTES_MAX:,} bytes",
        f"at most {open_batches.HELD_OF_STREAM_MAX_BYTES >> 20} MiB of a stream",
        f"{open_batches.HELD_MAX_BYTES >> 30} GiB of the server",
        f"after {list_page.PAGE_BYTES_MAX:,} bytes or {list_page.TEXTS_MAX:,} subjects",
        f"`$SYS.REQ.>` has at most {ANSWER_BYTES_MAX >> 20} MiB",
    ):
        assert told in section, told
