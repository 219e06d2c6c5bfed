"""Everything the connector raises: one class per condition, each with what happened and what to do.

The text is what a user finds at the end of a long Java stack trace, so it starts with the name of
the condition in brackets, names the option or the stream, and ends with the remedy. Secrets never
appear in it. Every error survives pickling, because Spark moves errors between processes.

Retryable conditions (the same task may succeed when Spark runs it again) have the base class
`RetryableError`; all others fail in the same way until somebody acts.

The class tree, and the files that raise each class (a file without a folder is in the folder of the
one before it):

ConnectorError
    RetryableError
        BatchLostError            sink/refusals
        ConnectionFailedError     client/addresses, flow, handshake
        ConnectionLostError       client/flow, sink/covered_rows, object_publisher
        CredentialsOutdatedError  client/pool
        RequestTimeoutError       client/flow, sink/claim, ledger, object_publisher
        NoRespondersError         client/flow
        UnavailableError          client/control, sink/covered_rows, fast_publisher, kv,
                                  late_frames, stored_ids
        StreamOfflineError        client/control
        ProtocolViolationError    client/control, flow, handshake, fetch/range_fetch,
                                  sink/atomic_batch, fast_batch, refusals
        ReadTimeoutError          fetch/fetch, sink/stored_ids
        NotAcknowledgedError      sink/inquiry, object_publisher, recovery
        AttemptSupersededError    sink/ledger
    OptionsError                  data_source, options/format_options, sink/sink,
                                  source/batch_reader, stream_reader
    SchemaError                   fetch/rows, sink/bucket_columns, object_columns, sink_columns
    OffsetsError                  options/offsets, source/stream_source, stream_watch
    SecretUnreadableError         client/handshake, options/option_values
    AuthenticationFailedError     client/flow, handshake
    PermissionDeniedError         client/flow
    RequestRefusedError           client/control, fetch/direct_fetch, range_fetch
    StreamNotFoundError           client/control, sink/late_frames, source/stream_watch
    SubjectsDoNotOverlapError     source/stream_watch
    RetentionRefusedError         fetch/direct_fetch, source/anchor, stream_watch
    DataLossError
        StreamDeletedError        fetch/data_loss
        StreamRecreatedError      fetch/data_loss, sink/inquiry, sink
        StreamRestoredError       fetch/data_loss
        MessagesExpiredError      fetch/data_loss
        StreamTruncatedError      fetch/data_loss
        MessagesAcknowledgedError fetch/data_loss, source/anchor
        ConsumerDeletedError      source/anchor
    ReplicaLagsError              fetch/kv_latest
    MessageTooLargeError          fetch/range_fetch
    ObjectDamagedError            object_info, fetch/object_content
    ObjectTooLargeError           fetch/object_content
    ServerNotStartedError         embedded
    PackageMissingError           observation/observation
    RowRefusedError               sink/batch_publisher, bucket_columns, covered_rows,
                                  object_columns, object_publisher, outgoing_rows, sink_columns
    PublishRefusedError           sink/refusals
    LedgerError                   command/ledger, sink/ledger, writer
        WriterFencedError         sink/ledger

`OptionsError`, `SchemaError`, `OffsetsError` and `RowRefusedError` are `ValueError`s as well. Two
more never reach a user: `fetch/range_fetch` and `fetch/direct_fetch` tell themselves with a private
`RetryableError` to begin again.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "AttemptSupersededError",
    "AuthenticationFailedError",
    "BatchLostError",
    "ConnectionFailedError",
    "ConnectionLostError",
    "ConnectorError",
    "ConsumerDeletedError",
    "CredentialsOutdatedError",
    "DataLossError",
    "LedgerError",
    "MessageTooLargeError",
    "MessagesAcknowledgedError",
    "MessagesExpiredError",
    "NoRespondersError",
    "NotAcknowledgedError",
    "ObjectDamagedError",
    "ObjectTooLargeError",
    "OffsetsError",
    "OptionsError",
    "PackageMissingError",
    "PermissionDeniedError",
    "ProtocolViolationError",
    "PublishRefusedError",
    "ReadTimeoutError",
    "ReplicaLagsError",
    "RequestRefusedError",
    "RequestTimeoutError",
    "RetentionRefusedError",
    "RetryableError",
    "RowRefusedError",
    "SchemaError",
    "SecretUnreadableError",
    "ServerNotStartedError",
    "StreamDeletedError",
    "StreamNotFoundError",
    "StreamOfflineError",
    "StreamRecreatedError",
    "StreamRestoredError",
    "StreamTruncatedError",
    "SubjectsDoNotOverlapError",
    "UnavailableError",
    "WriterFencedError",
]


class ConnectorError(Exception):
    """An error of the connector: `condition`, what happened and what to do about it."""

    condition = "CONNECTOR_ERROR"

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what, remedy)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"[{self.condition}] {self.what} {self.remedy}".rstrip()


class RetryableError(ConnectorError):
    """A passing condition: running the task or the query again may succeed."""

    condition = "RETRYABLE"


class OptionsError(ConnectorError, ValueError):
    """The option map has mistakes; all of them are listed, one per line."""

    condition = "INVALID_OPTIONS"

    def __init__(self, problems: Sequence[str], remedy: str = "") -> None:
        super().__init__("\n  - ".join(["the options are not usable:", *problems]), remedy)
        self.args = (tuple(problems), remedy)
        self.problems = tuple(problems)


class SchemaError(ConnectorError, ValueError):
    """The schema asks for columns or types that the connector does not have."""

    condition = "INVALID_SCHEMA"


class OffsetsError(ConnectorError, ValueError):
    """An offset from the checkpoint or from an option cannot be understood."""

    condition = "INVALID_OFFSETS"


class SecretUnreadableError(ConnectorError):
    """A credential named by an option cannot be read in this process."""

    condition = "SECRET_UNREADABLE"


# --- the connection -------------------------------------------------------------------------


class ConnectionFailedError(RetryableError):
    """No server of the list could be reached; every address is listed with its reason."""

    condition = "CONNECTION_FAILED"


class ConnectionLostError(RetryableError):
    """An established connection broke, or the server closed it."""

    condition = "CONNECTION_LOST"


class AuthenticationFailedError(ConnectorError):
    """The server was reached and refused the credentials."""

    condition = "AUTHENTICATION_FAILED"


class CredentialsOutdatedError(RetryableError):
    """Credentials in a file were refused after they had been accepted: they are being changed."""

    condition = "CREDENTIALS_OUTDATED"


class PermissionDeniedError(ConnectorError):
    """The user may not publish or subscribe to a subject that the connector needs."""

    condition = "PERMISSION_DENIED"


class RequestTimeoutError(RetryableError):
    """A request got no answer in time."""

    condition = "REQUEST_TIMEOUT"


class NoRespondersError(RetryableError):
    """Nobody listens on the subject of a request: JetStream is off, or has no leader just now."""

    condition = "NO_RESPONDERS"


class RequestRefusedError(ConnectorError):
    """The JetStream API answered with an error: `code` (HTTP-like), `err_code` and its text."""

    condition = "REQUEST_REFUSED"

    def __init__(self, subject: str, code: int, err_code: int, description: str) -> None:
        super().__init__(
            f"JetStream refused '{subject}': {description} (code {code}, error {err_code})."
        )
        self.args = (subject, code, err_code, description)
        self.subject = subject
        self.code = code
        self.err_code = err_code
        self.description = description


class UnavailableError(RetryableError):
    """JetStream is there and cannot answer just now: no leader, or the cluster is being formed."""

    condition = "UNAVAILABLE"


class StreamOfflineError(RetryableError):
    """The server knows the stream and cannot serve it just now; its reason is in the text."""

    condition = "STREAM_OFFLINE"


class ProtocolViolationError(RetryableError):
    """The peer sent bytes that are not the NATS protocol."""

    condition = "PROTOCOL_VIOLATION"


# --- reading --------------------------------------------------------------------------------


class StreamNotFoundError(ConnectorError):
    """A stream named by the options does not exist, or does not collect what is written to it any
    more."""

    condition = "STREAM_NOT_FOUND"


class SubjectsDoNotOverlapError(ConnectorError):
    """The option `subjects` can never match anything in the stream."""

    condition = "SUBJECTS_DO_NOT_OVERLAP"


class RetentionRefusedError(ConnectorError):
    """Reading would interfere with the retention policy of the stream."""

    condition = "RETENTION_REFUSED"


class DataLossError(ConnectorError):
    """Messages that the query was going to read are gone."""

    condition = "DATA_LOSS"


class StreamDeletedError(DataLossError):
    """A stream of the checkpoint no longer exists."""

    condition = "STREAM_DELETED"


class StreamRecreatedError(DataLossError):
    """The stream was deleted and made again: its sequences now mean other messages."""

    condition = "STREAM_RECREATED"


class StreamRestoredError(DataLossError):
    """The stream was made again with messages from before: from a snapshot, or as a mirror."""

    condition = "STREAM_RESTORED"


class MessagesExpiredError(DataLossError):
    """Messages were removed (age, limits, purge) before the query read them."""

    condition = "MESSAGES_EXPIRED"


class StreamTruncatedError(DataLossError):
    """The stream ends before the position that the query had reached."""

    condition = "STREAM_TRUNCATED"


class MessagesAcknowledgedError(DataLossError):
    """Messages that the query has not read were acknowledged or purged, by itself further on or by
    others."""

    condition = "MESSAGES_ALREADY_ACKNOWLEDGED"


class ConsumerDeletedError(DataLossError):
    """The consumer that held a query's unread messages no longer exists."""

    condition = "CONSUMER_DELETED"


class ReadTimeoutError(RetryableError):
    """A range of the stream made no progress for `readTimeout`."""

    condition = "READ_TIMEOUT"


class ReplicaLagsError(ConnectorError):
    """A list of current values came from a replica that lacks some; the task has to start again."""

    condition = "REPLICA_LAGS"


class MessageTooLargeError(ConnectorError):
    """One message is larger than `fetchMaxBytes` allows a pull request to carry."""

    condition = "MESSAGE_TOO_LARGE"


class ObjectDamagedError(ConnectorError):
    """An object is not what its store says of it: its digest, size or message is wrong."""

    condition = "OBJECT_DAMAGED"


class ObjectTooLargeError(ConnectorError):
    """An object is larger than `maxObjectSize`."""

    condition = "OBJECT_TOO_LARGE"


class ServerNotStartedError(ConnectorError):
    """The bundled server did not become ready; its own words are in the text."""

    condition = "SERVER_NOT_STARTED"


class PackageMissingError(ConnectorError):
    """What was asked for needs a Python package that is not installed here."""

    condition = "PACKAGE_MISSING"


# --- writing --------------------------------------------------------------------------------


class RowRefusedError(ConnectorError, ValueError):
    """A row cannot be published; `row` counts from 0 within its Spark partition."""

    condition = "ROW_REFUSED"

    def __init__(self, row: int, subject: str, reason: str, remedy: str = "") -> None:
        to = f" to '{subject}'" if subject else ""
        super().__init__(f"row {row} of the partition{to} was not published: {reason}.", remedy)
        self.args = (row, subject, reason, remedy)
        self.row = row
        self.subject = subject


class PublishRefusedError(ConnectorError):
    """The server received a row and refused it: `code` (HTTP-like), `err_code` and its text."""

    condition = "PUBLISH_REFUSED"

    def __init__(
        self, row: int, subject: str, code: int, err_code: int, text: str, remedy: str = ""
    ) -> None:
        super().__init__(
            f"row {row} of the partition to '{subject}' was refused: {text} "
            f"(code {code}, error {err_code}).",
            remedy,
        )
        self.args = (row, subject, code, err_code, text, remedy)
        self.row = row
        self.subject = subject
        self.code = code
        self.err_code = err_code


class NotAcknowledgedError(RetryableError):
    """Rows were published and the server never acknowledged them."""

    condition = "NOT_ACKNOWLEDGED"


class BatchLostError(RetryableError):
    """A batch was not stored, and none of its rows is at fault: there was no room for it, or not
    all of it reached the stream in time."""

    condition = "BATCH_LOST"


class AttemptSupersededError(RetryableError):
    """Another attempt at the same partition has begun, and this one has to stop."""

    condition = "ATTEMPT_SUPERSEDED"


class LedgerError(ConnectorError):
    """The ledger of finished batches cannot be used, or contradicts this write."""

    condition = "LEDGER"


class WriterFencedError(LedgerError):
    """Another run of the same query has written a later batch already."""

    condition = "WRITER_FENCED"
