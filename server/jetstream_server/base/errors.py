"""Every exception of the server: four families, each of which says whose fault it was.

    JetStreamServerError
     +-- ProtocolError           the peer broke the wire rules: an exact `-ERR` text, and whether
     |                           to close. Raised by `protocol/parser` and `node/session`'s parts
     |                           by way of the rows of `protocol/errors`.
     +-- ApiError                a JetStream request was refused: code, err_code, description.
     |                           Raised by way of the rows of `jetstream/errors`, anywhere in
     |                           `jetstream`; answered in `api/dispatch`, and for publishes in
     |                           `streams/publishing`.
     +-- StoreError              the disk disagreed: corrupt, full, closed. Raised in `store`, and
     |   |                       where what is stored does not mean anything.
     |   +-- LostConfigError     a stream without its config file: `configs/stream_file`.
     +-- ConfigError             the operator made a mistake: file, line, column. Raised in
         |                       `config`, and where files that it names are opened.
         +-- EmptyConfigError    there is nothing in the file: `config/lexer`.

Others stay on the floor that raises them, whose callers make something of them:

    ValueError
     +-- TransformError          `core/transform`: a mapping that makes no subject
     +-- TooManyMeetError        `core/pattern_tree`: it takes too long to say which overlap
     +-- TemplateError           `node/auth/permission_template`
     +-- ClaimsError             `config/claims`: a JWT that is not to be trusted
     +-- JsonSyntaxError         `wire/json_syntax`
     +-- ArchiveError, S2Error   `snapshots/archive`, `snapshots/s2`: no snapshot of anything
     +-- DamagedError            `structures/snappy`
    Exception
     +-- RefusedUserError        `node/auth/operator`: who signs in is not let in
     +-- RebuildError            `snapshots/rebuild`: what to answer to a restore
     +-- LayerError              `net/layer`: TLS or WebSocket below a connection ended
     +-- BrokenFrameError, RefusedUpgradeError   `net/websocket_frames`, `net/websocket_upgrade`
     +-- TooLongError            `monitor/long_view`: an answer that nobody could take
     +-- BadQueryError           `monitor/query`: a query that monitoring does not answer
         +-- UnreadableError     a parameter is not of its type

Our own mistakes are `assert`s.
"""

from __future__ import annotations


class JetStreamServerError(Exception):
    """Root of every error this package raises on purpose."""


class ProtocolError(JetStreamServerError):
    """The peer broke the wire rules.

    Args:
        text: what goes between the quotes of `-ERR '...'`; empty closes without a word.
        closes: whether the connection ends.
        reason: the close reason shown by monitoring.
    """

    def __init__(self, text: str, *, closes: bool = True, reason: str = "Protocol Violation"):
        super().__init__(text or reason)
        self.text = text
        self.closes = closes
        self.reason = reason


class ApiError(JetStreamServerError):
    """A JetStream request was refused; becomes the `error` object of a JSON reply."""

    def __init__(self, code: int, err_code: int, description: str):
        super().__init__(description)
        self.code = code
        self.err_code = err_code
        self.description = description


class StoreError(JetStreamServerError):
    """The disk disagreed; the asset concerned goes offline and says why.

    Args:
        reason: one sentence for log, STREAM.INFO and healthz.
        path: the file or folder concerned, empty when there is none.
        offset: byte position in it, -1 when it does not apply.
    """

    def __init__(self, reason: str, path: str = "", offset: int = -1):
        where = f" ({path}" + (f" at byte {offset})" if offset >= 0 else ")") if path else ""
        super().__init__(reason + where)
        self.reason = reason
        self.path = path
        self.offset = offset


class ConfigError(JetStreamServerError):
    """The operator made a mistake; printed as `nats-server: <text>`, exit code 1."""

    def __init__(self, text: str, path: str = "", line: int = 0, column: int = 0):
        super().__init__(f"{path}:{line}:{column}: {text}" if path and line else text)
        self.text = text
        self.path = path
        self.line = line
        self.column = column
