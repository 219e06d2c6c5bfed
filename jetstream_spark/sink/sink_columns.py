"""The columns a write takes, checked before they are sent: `data`, and optionally `subject`,
`headers`, `msgId`, `ttl`, `expectedLastSeq`, `expectedLastSubjectSeq`.

`SinkColumns` is made once from the schema and the options and says everything that is wrong with
them in one error. `take` turns one Arrow batch into the columns that the encoder needs and
refuses, with its number, the first row that cannot be published. What the sink itself writes into
a message's headers (its id, the expected stream) replaces what a row brings under that name, so
that messages read with their headers can be written on.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    StructType,
)

from jetstream_spark.errors import RowRefusedError, SchemaError
from jetstream_spark.kernels.arrow_to_wire import BytesColumn, header_lines
from jetstream_spark.options.format_options import SinkOptions
from jetstream_spark.sink.column_types import HEADERS, wrong_columns
from jetstream_spark.sink.outgoing_rows import OutgoingRows

# The server takes 4,096 bytes of command line; the reply and the sizes take up to 100 of them.
SUBJECT_BYTES_MAX = 4096 - 100

_ALLOWED: dict[str, tuple[str, ...]] = {
    "data": ("binary", "string"),
    "subject": ("string", "string"),
    "headers": (HEADERS, HEADERS),
    "msgId": ("string", "string"),
    "ttl": ("string", "bigint", "int"),
    "expectedLastSeq": ("bigint", "int"),
    "expectedLastSubjectSeq": ("bigint", "int"),
}
# Columns that become a header of the message, by their lower-cased name; null means no header.
_HEADER_COLUMNS = {
    "ttl": b"Nats-TTL",
    "expectedlastseq": b"Nats-Expected-Last-Sequence",
    "expectedlastsubjectseq": b"Nats-Expected-Last-Subject-Sequence",
}
# A message stored as part of a batch keeps these headers; written on, it is not part of that batch.
_BATCH_HEADERS = (b"Nats-Batch-Id", b"Nats-Batch-Sequence", b"Nats-Batch-Commit")
# What the server takes: seconds, a Go duration, or never.
_TTL = r"^(?:never|[1-9][0-9]*|(?:[0-9]+(?:\.[0-9]+)?(?:h|m|s|ms|us|ns))+)$"
# One dot between tokens, no blank in them, no token that is a wildcard.
_LITERAL = r"^(?:[^.\s*>][^.\s]*|[*>][^.\s]+)(?:\.(?:[^.\s*>][^.\s]*|[*>][^.\s]+))*$"
_SERVER_SPACE = r"^(?:\$JS|\$SYS|_INBOX)\."
_HEADER_NAME = r"^[!-9;-~]+$"
_LINE_END = r"[\r\n]"


class SinkColumns:
    """Which columns a write has, and how to read them.

    Args:
        dropped: further names of headers that are left out.

    Raises:
        SchemaError: the columns do not fit; every reason is listed.
    """

    def __init__(
        self, schema: StructType, options: SinkOptions, dropped: Collection[bytes] = ()
    ) -> None:
        self._options = options
        self._names = [field.name.lower() for field in schema.fields]
        problems = [*wrong_columns(schema, _ALLOWED, "a message"), *self._missing_problems()]
        if problems:
            raise SchemaError(
                "the DataFrame cannot be written: " + "; ".join(problems) + ".",
                "Shape it with select(), e.g. select('subject', 'data').",
            )
        self._fixed = b""
        self._dropped = [*_BATCH_HEADERS, *dropped]
        if options.stream:
            self._fixed = b"Nats-Expected-Stream: %b\r\n" % options.stream.encode()
            self._dropped.append(b"Nats-Expected-Stream")
        if options.dedupe != "none":
            self._dropped.append(b"Nats-Msg-Id")
        self._dropped += [_HEADER_COLUMNS[name] for name in self._names if name in _HEADER_COLUMNS]

    def _missing_problems(self) -> list[str]:
        problems = []
        if "data" not in self._names:
            problems.append("it has no column 'data' (binary or string), the payload")
        if "subject" not in self._names and not self._options.subject:
            problems.append(
                "there is neither a column 'subject' nor the option 'subject', "
                "so the rows have no subject to go to"
            )
        has_ids, wants_ids = "msgid" in self._names, self._options.dedupe == "column"
        if wants_ids and not has_ids:
            problems.append("dedupe=column needs the column 'msgId' (string)")
        if has_ids and not wants_ids:
            problems.append(
                f"the column 'msgId' would be ignored with dedupe={self._options.dedupe}; "
                "set dedupe=column"
            )
        return problems

    def take(self, batch: pa.RecordBatch, first_row: int) -> OutgoingRows:
        """Return the columns of a batch whose first row is number `first_row` of the partition.

        Raises:
            RowRefusedError: a row cannot be published; the first such row is named.
        """
        columns = dict(zip(self._names, batch.columns, strict=True))
        subjects = self._subjects(columns, first_row)
        payloads = columns["data"].cast(pa.binary())
        if payloads.null_count:
            if self._options.null_data != "empty":
                row = _first_true(pc.is_null(payloads))
                raise RowRefusedError(
                    first_row + row,
                    _subject_at(subjects, row),
                    "its data is null",
                    "Filter such rows out, or set nullData=empty to publish empty messages.",
                )
            payloads = pc.fill_null(payloads, b"")
        lines: BytesColumn = b""
        if "headers" in columns:
            _check_headers(columns["headers"], subjects, first_row)
            lines = header_lines(columns["headers"], self._dropped)
        for name, header in _HEADER_COLUMNS.items():
            if name in columns:
                _check_header_column(name, columns[name], subjects, first_row)
                lines = pc.binary_join_element_wise(lines, _lines_of(header, columns[name]), b"")
        ids = self._ids(columns, subjects, first_row)
        return OutgoingRows(subjects, lines, payloads, ids, self._fixed)

    def _subjects(self, columns: dict[str, pa.Array], first_row: int) -> BytesColumn:
        if self._options.subject:
            return self._options.subject.encode()
        subjects = columns["subject"]
        if subjects.null_count:
            raise RowRefusedError(
                first_row + _first_true(pc.is_null(subjects)), "", "its subject is null"
            )
        distinct = pc.unique(subjects)  # thousands of rows share a few subjects
        good = pc.match_substring_regex(distinct, _LITERAL)
        good = pc.and_(good, pc.invert(pc.match_substring_regex(distinct, _SERVER_SPACE)))
        good = pc.and_(good, pc.less_equal(pc.binary_length(distinct), SUBJECT_BYTES_MAX))
        if not pc.all(good, min_count=0).as_py():
            bad = distinct.filter(pc.invert(good))
            row = _first_true(pc.is_in(subjects, bad))
            subject = str(subjects[row])
            raise RowRefusedError(first_row + row, subject, _subject_mistake(subject))
        return subjects.cast(pa.binary())

    def _ids(
        self, columns: dict[str, pa.Array], subjects: BytesColumn, first_row: int
    ) -> pa.BinaryArray | None:
        if "msgid" not in columns:
            return None
        ids = columns["msgid"]
        bad = pc.or_(pc.equal(pc.binary_length(ids), 0), pc.match_substring_regex(ids, _LINE_END))
        bad = pc.fill_null(bad, True)
        if pc.any(bad, min_count=0).as_py():
            row = _first_true(bad)
            raise RowRefusedError(
                first_row + row,
                _subject_at(subjects, row),
                f"its msgId is {ids[row].as_py()!r}",
                "Every row needs a msgId of one line, or set dedupe=auto.",
            )
        return ids.cast(pa.binary())


def _check_headers(headers: pa.MapArray, subjects: BytesColumn, first_row: int) -> None:
    names, values = pc.unique(headers.keys), headers.items.flatten()
    good_names = pc.all(pc.match_substring_regex(names, _HEADER_NAME), min_count=0).as_py()
    bad_values = pc.any(pc.match_substring_regex(values, _LINE_END), min_count=0).as_py()
    if good_names and not bad_values:
        return
    for row, entries in enumerate(headers.to_pylist()):
        for name, row_values in entries or ():
            mistake = ""
            if not name or not all("!" <= letter <= "~" and letter != ":" for letter in name):
                mistake = f"its header name {name!r} has a character that a name cannot have"
            elif any("\r" in value or "\n" in value for value in row_values or () if value):
                mistake = f"its header {name!r} has a value of more than one line"
            if mistake:
                raise RowRefusedError(first_row + row, _subject_at(subjects, row), mistake)


def _check_header_column(
    name: str, column: pa.Array, subjects: BytesColumn, first_row: int
) -> None:
    if name == "ttl" and pa.types.is_string(column.type):
        good = pc.match_substring_regex(column, _TTL)
        reason = "its ttl is {!r}, and must be seconds, a duration like '90s' or '1h', or 'never'"
    else:
        good = pc.greater_equal(column, 1 if name == "ttl" else 0)
        word = "a ttl" if name == "ttl" else "an expected sequence"
        reason = f"{word} cannot be {{}}"
    good = pc.fill_null(good, True)
    if not pc.all(good, min_count=0).as_py():
        row = _first_true(pc.invert(good))
        reason = reason.format(column[row].as_py())
        raise RowRefusedError(first_row + row, _subject_at(subjects, row), reason)


def _lines_of(header: bytes, column: pa.Array) -> pa.BinaryArray:
    """One header line for each row, nothing where the column is null."""
    values = column.cast(pa.string()).cast(pa.binary())
    return pc.fill_null(pc.binary_join_element_wise(header + b": ", values, b"\r\n", b""), b"")


def _subject_mistake(subject: str) -> str:
    tokens = subject.split(".")
    if not all(tokens):
        return "its subject has an empty token"
    if any(letter.isspace() for letter in subject):
        return "its subject has a blank"
    if "*" in tokens or ">" in tokens:
        return "its subject has a wildcard, and a message goes to one subject"
    if len(subject.encode()) > SUBJECT_BYTES_MAX:
        return f"its subject is longer than {SUBJECT_BYTES_MAX} bytes"
    return "its subject belongs to the server itself"


def _subject_at(subjects: BytesColumn, row: int) -> str:
    subject = subjects if isinstance(subjects, bytes) else bytes(subjects[row].as_py())
    return subject.decode("utf-8", "replace")


def _first_true(mask: pa.BooleanArray) -> int:
    return int(pc.index(mask, True).as_py())
