"""The options of `format("jetstream")`: typed, checked once, all mistakes in one error.

`SourceOptions` and `SinkOptions` are frozen values that travel to the executors. Defaults and
reasons are those of docs/options.md; the README's tables are written from here. Times are seconds,
sizes bytes. An option that is not here is refused with the closest one that is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from jetstream_spark.errors import OffsetsError, OptionsError
from jetstream_spark.object_info import STORE_STREAM_PREFIX
from jetstream_spark.options.bucket_options import (
    BUCKET_STREAM_PREFIX,
    key_subjects,
    kv_mode,
    read_bucket,
    read_sink_bucket,
)
from jetstream_spark.options.connection_options import ConnectionOptions, read_connection_options
from jetstream_spark.options.object_options import (
    INFO_SUBJECTS,
    OBJECT_BYTES_MAX,
    read_object_store,
)
from jetstream_spark.options.offsets import (
    PointInTime,
    StartingPoint,
    Tasks,
    parse_point_in_time,
    parse_starting_point,
)
from jetstream_spark.options.option_map import OptionMap

T = TypeVar("T")

EARLIEST = "earliest"
LATEST = "latest"

# What a server takes in one batch unless it is configured otherwise.
ATOMIC_ROWS = 1_000

_STREAM_NAME = re.compile(r"[^\s.*>/\\]{1,255}")


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options of a batch or streaming read (docs/options.md#reading).

    Attributes:
        streams: with `bucket` or `object_store`, the stream behind it; empty with `stream_pattern`.
        stream_pattern: a regular expression for the whole name, empty when the streams are named.
        subjects: with `bucket`, the subjects of `keys`; with `object_store`, those that describe
            objects.
        starting: where to begin, None when the user said nothing: `latest` for a streaming query,
            `earliest` for a batch.
        ending: where a batch ends, exclusive; None is the tail at planning time.
    """

    connection: ConnectionOptions
    streams: tuple[str, ...]
    subjects: tuple[str, ...] = ()
    starting: StartingPoint | None = None
    starting_timestamp_ns: PointInTime | None = None
    starting_timestamp_strategy: str = "error"
    ending: StartingPoint | None = None
    ending_timestamp_ns: PointInTime | None = None
    fail_on_data_loss: bool = True
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_s: float = 900.0
    max_offsets_per_partition: int = 1_000_000
    min_partitions: int = 1
    max_partitions: int = 64
    include_headers: bool = False
    fetch_batch: int = 10_000
    fetch_max_bytes: int = 16 << 20
    read_timeout_s: float = 60.0
    poll_interval_s: float = 0.1
    commit_mode: str | None = None
    consumer: str = ""
    eager_commit: bool = True
    fetch_mode: str = "auto"
    bucket: str = ""
    kv_mode: str | None = None
    stream_pattern: str = ""
    object_store: str = ""
    max_object_bytes: int = OBJECT_BYTES_MAX

    def is_about(self, stream: str) -> bool:
        """Whether the options mean a stream of this name."""
        if self.stream_pattern:
            return re.fullmatch(self.stream_pattern, stream) is not None
        return stream in self.streams

    @property
    def tasks(self) -> Tasks:
        """How batches are cut into tasks."""
        return Tasks(self.max_offsets_per_partition, self.min_partitions, self.max_partitions)

    @property
    def expects_removals(self) -> bool:
        """Whether messages may be gone before they were read, and that is no loss.

        A bucket or an object store drops what a later revision replaced; on a stream with interest
        retention others acknowledge messages outside the subjects of this query.
        """
        if self.bucket or self.object_store:
            return True
        return self.commit_mode == "ack" and bool(self.subjects)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Read the map.

        Raises:
            OptionsError: it has mistakes; all of them are listed.
        """
        return _sound(cls.examine(options))

    @classmethod
    def examine(cls, options: Mapping[str, str]) -> tuple[SourceOptions, list[str]]:
        """Read the map; return the options, with defaults for mistakes, and all mistakes."""
        return _examine(options, _read_source, SINK_ONLY)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Options of a batch or streaming write (docs/options.md#writing)."""

    connection: ConnectionOptions
    subject: str = ""
    stream: str = ""
    dedupe: str = "auto"
    ledger: str = "auto"
    ledger_bucket: str = "spark-jetstream-ledger"
    min_duplicate_window_s: float = 120.0
    txn_app_id: str = ""
    txn_version: int | None = None
    max_in_flight: int = 32_768
    ack_timeout_s: float = 5.0
    publish_retries: int = 5
    null_data: str = "error"
    on_error: str = "fail"
    dead_letter_subject: str = ""
    bucket: str = ""
    publish_mode: str = "each"
    atomic_unit: str = "block"
    atomic_rows: int = ATOMIC_ROWS
    object_store: str = ""
    max_object_bytes: int = OBJECT_BYTES_MAX

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """Read the map.

        Raises:
            OptionsError: it has mistakes; all of them are listed.
        """
        return _sound(cls.examine(options))

    @classmethod
    def examine(cls, options: Mapping[str, str]) -> tuple[SinkOptions, list[str]]:
        """Read the map; return the options, with defaults for mistakes, and all mistakes."""
        return _examine(options, _read_sink, SOURCE_ONLY)


def _examine(
    options: Mapping[str, str], read: Callable[[OptionMap], T], of_other_side: tuple[str, ...]
) -> tuple[T, list[str]]:
    option_map = OptionMap(options)
    parsed = read(option_map)
    option_map.check_unknown(of_other_side)
    return parsed, option_map.problems


def _sound(examined: tuple[T, list[str]]) -> T:
    parsed, problems = examined
    if problems:
        raise OptionsError(problems)
    return parsed


# --- the source -----------------------------------------------------------------------------


def _read_source(options: OptionMap) -> SourceOptions:
    bucket, keys = read_bucket(options)
    store, object_bytes_max = read_object_store(options, is_sink=False)
    streams, subjects = options.words("stream"), _subject_patterns(options)
    pattern = options.read("streamPattern", _regular_expression, "")
    if pattern and options.has("stream"):
        options.add_problem("streamPattern", "cannot be combined with stream; give one of them")
    if not any(options.has(key) for key in ("stream", "streamPattern", "bucket", "objectStore")):
        options.add_problem(
            "stream",
            "is required: the stream to read, or several as a,b; or streamPattern; or bucket or "
            "objectStore, to read one",
        )
    for stream in streams:
        _check_stream_name(options, stream)
    if bucket:
        streams, subjects = (f"{BUCKET_STREAM_PREFIX}{bucket}",), key_subjects(bucket, keys)
    elif store:
        streams, subjects = (f"{STORE_STREAM_PREFIX}{store}",), INFO_SUBJECTS
    source = SourceOptions(
        connection=read_connection_options(options),
        streams=streams,
        subjects=subjects,
        starting=_starting_point(options, "startingOffsets", streams),
        starting_timestamp_ns=_point_in_time(options, "startingTimestamp", streams),
        starting_timestamp_strategy=options.choice(
            "startingTimestampStrategy", ("error", LATEST), "error"
        ),
        ending=_starting_point(options, "endingOffsets", streams),
        ending_timestamp_ns=_point_in_time(options, "endingTimestamp", streams),
        fail_on_data_loss=options.flag("failOnDataLoss", True),
        max_offsets_per_trigger=options.maybe_number("maxOffsetsPerTrigger"),
        max_bytes_per_trigger=options.maybe_size("maxBytesPerTrigger"),
        min_offsets_per_trigger=options.maybe_number("minOffsetsPerTrigger"),
        max_trigger_delay_s=options.seconds("maxTriggerDelay", "15m"),
        max_offsets_per_partition=options.number(
            options.name_given("maxOffsetsPerPartition", "maxRecordsPerPartition"), 1_000_000
        ),
        min_partitions=options.number("minPartitions", 1),
        max_partitions=options.number("maxPartitions", 64),
        include_headers=options.flag("includeHeaders", False),
        fetch_batch=options.number("fetchBatch", 10_000),
        fetch_max_bytes=options.size("fetchMaxBytes", "16MiB"),
        read_timeout_s=options.seconds("readTimeout", "60s"),
        poll_interval_s=options.seconds("pollInterval", "100ms"),
        commit_mode=_commit_mode(options),
        consumer=_consumer_name(options),
        eager_commit=options.flag("eagerCommit", True),
        fetch_mode=options.choice("fetchMode", ("auto", "consumer", "direct"), "auto"),
        bucket=bucket,
        kv_mode=options.read("kvMode", kv_mode, None),
        stream_pattern=pattern,
        object_store=store,
        max_object_bytes=object_bytes_max,
    )
    _check_source_pairs(options, source)
    return source


def _check_stream_name(options: OptionMap, stream: str) -> None:
    if not _STREAM_NAME.fullmatch(stream):
        options.add_problem(
            "stream", f"has the entry '{stream}': a stream name has no '.', '*', '>', '/', '\\'"
        )


def _subject_patterns(options: OptionMap) -> tuple[str, ...]:
    patterns = options.words("subjects")
    for pattern in patterns:
        tokens = pattern.split(".")
        if not all(tokens) or any(character.isspace() for character in pattern):
            options.add_problem("subjects", f"has the entry '{pattern}' with an empty token")
        elif ">" in tokens[:-1]:
            options.add_problem("subjects", f"has the entry '{pattern}': '>' must come last")
    return patterns


def _starting_point(options: OptionMap, key: str, streams: tuple[str, ...]) -> StartingPoint | None:
    def parse(text: str) -> StartingPoint | None:
        try:
            return parse_starting_point(text, streams)
        except OffsetsError as error:
            raise ValueError(error.what) from None

    return options.read(key, parse, None)


def _point_in_time(options: OptionMap, key: str, streams: tuple[str, ...]) -> PointInTime | None:
    def parse(text: str) -> PointInTime | None:
        try:
            return parse_point_in_time(text, streams)
        except OffsetsError as error:
            raise ValueError(error.what) from None

    return options.read(key, parse, None)


def _regular_expression(text: str) -> str:
    try:
        re.compile(text.strip())
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"is no regular expression: {error}") from None
    return text.strip()


def _commit_mode(options: OptionMap) -> str | None:
    mode = options.choice("commitMode", ("none", "ack", "purge"), "none")
    return mode if options.has("commitMode") else None


def _consumer_name(options: OptionMap) -> str:
    name = options.text("consumer")
    if name and not _STREAM_NAME.fullmatch(name):
        options.add_problem("consumer", "is no name: it has no '.', '*', '>', '/', '\\'")
    return name


def _check_source_pairs(options: OptionMap, source: SourceOptions) -> None:
    if source.min_partitions > source.max_partitions:
        options.add_problem(
            "minPartitions", f"is more than maxPartitions ({source.max_partitions})"
        )
    if (source.commit_mode == "ack") != bool(source.consumer):
        options.add_problem(
            "consumer",
            "and commitMode=ack go together: it names the durable consumer that keeps what this "
            "query has not committed; no two queries may share one",
        )
    if len(source.subjects) > 1 and source.fetch_mode == "direct":
        options.add_problem(
            "fetchMode", "cannot be direct with several subjects; direct get has one"
        )
    least, most = source.min_offsets_per_trigger, source.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        options.add_problem("minOffsetsPerTrigger", f"is more than maxOffsetsPerTrigger ({most})")
    if source.ending == EARLIEST:
        options.add_problem("endingOffsets", "cannot be earliest; that range is always empty")
    if options.has("endingOffsets") and options.has("endingTimestamp"):
        options.add_problem("endingOffsets", "cannot be combined with endingTimestamp")
    start, stop = source.starting_timestamp_ns, source.ending_timestamp_ns
    for name in source.streams or ("",):
        begin, end = _time_of(start, name), _time_of(stop, name)
        if begin is not None and end is not None and end < begin:
            where = f" in stream '{name}'" if name and len(source.streams) > 1 else ""
            options.add_problem("endingTimestamp", f"is before startingTimestamp{where}")
            break
    if isinstance(source.starting, dict) and isinstance(source.ending, dict):
        for stream, first in source.starting.items():
            final = source.ending[stream]
            if isinstance(first, int) and isinstance(final, int) and final < first:
                options.add_problem(
                    "endingOffsets",
                    f"ends stream '{stream}' at {final}, before startingOffsets ({first})",
                )


def _time_of(point: PointInTime | None, stream: str) -> int | None:
    return point.get(stream) if isinstance(point, dict) else point


# --- the sink -------------------------------------------------------------------------------


def _read_sink(options: OptionMap) -> SinkOptions:
    stream, bucket = options.text("stream"), read_sink_bucket(options)
    store, object_bytes_max = read_object_store(options, is_sink=True)
    if stream:
        _check_stream_name(options, stream)
    if store:
        stream = f"{STORE_STREAM_PREFIX}{store}"
    if bucket:
        stream = f"{BUCKET_STREAM_PREFIX}{bucket}"
    sink = SinkOptions(
        connection=read_connection_options(options),
        subject=_publish_subject(options, "subject"),
        stream=stream,
        dedupe=options.choice("dedupe", ("auto", "column", "none"), "auto"),
        ledger=options.choice("ledger", ("auto", "none"), "auto"),
        ledger_bucket=options.text("ledgerBucket", "spark-jetstream-ledger"),
        min_duplicate_window_s=options.seconds("minDuplicateWindow", "2m"),
        txn_app_id=options.text("txnAppId"),
        txn_version=options.read("txnVersion", lambda text: int(text.strip()), None),
        max_in_flight=options.number("maxInFlight", 32_768),
        ack_timeout_s=options.seconds("ackTimeout", "5s"),
        publish_retries=options.number("publishRetries", 5, minimum=0),
        null_data=options.choice("nullData", ("error", "empty"), "error"),
        on_error=options.choice("onError", ("fail", "deadLetter"), "fail"),
        dead_letter_subject=_publish_subject(options, "deadLetterSubject"),
        bucket=bucket,
        publish_mode=options.choice("publishMode", ("each", "atomic", "fast"), "each"),
        atomic_unit=options.choice("atomicUnit", ("block", "partition"), "block"),
        atomic_rows=options.number("atomicRows", ATOMIC_ROWS),
        object_store=store,
        max_object_bytes=object_bytes_max,
    )
    if store and sink.dedupe == "column":
        options.add_problem("dedupe", "cannot be column with objectStore: ids are made of content")
    if bool(sink.txn_app_id) != (sink.txn_version is not None):
        options.add_problem("txnAppId", "and txnVersion go together; give both or neither")
    if (sink.on_error == "deadLetter") != bool(sink.dead_letter_subject):
        options.add_problem("deadLetterSubject", "and onError=deadLetter go together")
    if sink.publish_mode != "each" and not stream:
        options.add_problem(
            "publishMode",
            "needs the option stream: a batch goes to one stream, which must allow it",
        )
    for key in ("atomicUnit", "atomicRows"):
        if options.has(key) and sink.publish_mode != "atomic":
            options.add_problem(key, "is about publishMode=atomic")
    if not re.fullmatch(r"[A-Za-z0-9_-]+", sink.ledger_bucket):
        options.add_problem("ledgerBucket", "must be letters, digits, '-' and '_'")
    return sink


def _publish_subject(options: OptionMap, key: str) -> str:
    subject = options.text(key)
    if subject:
        tokens = subject.split(".")
        if not all(tokens) or any(character.isspace() for character in subject):
            options.add_problem(key, "has an empty token or a space")
        elif "*" in tokens or ">" in tokens:
            options.add_problem(key, "has a wildcard; a message is published to one subject")
    return subject


def _keys_of(read: Callable[[OptionMap], object]) -> tuple[str, ...]:
    option_map = OptionMap({})
    read(option_map)
    return option_map.known


SOURCE_KEYS = _keys_of(_read_source)
SINK_KEYS = _keys_of(_read_sink)
SOURCE_ONLY = tuple(key for key in SOURCE_KEYS if key not in SINK_KEYS)
SINK_ONLY = tuple(key for key in SINK_KEYS if key not in SOURCE_KEYS)
