"""The values of options, from text: durations, sizes, switches, times, addresses, secrets.

Pure functions. Each raises `ValueError` whose text is the reason followed by the allowed form; the
caller (`option_map.py`) puts the name of the option and the value before it.
"""

from __future__ import annotations

import datetime
import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from jetstream_spark.errors import SecretUnreadableError

NANOSECONDS = 1_000_000_000

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|ms|s|m|h|d)", re.IGNORECASE)
_DURATION_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600, "d": 86400}
_SIZE = re.compile(r"(\d+)\s*([kmgt]?)(i?b)?", re.IGNORECASE)
_SIZE_SHIFT = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
# The years 1 to 9999, which is what a `datetime` can hold.
_FIRST_NS, _STOP_NS = -62_135_596_800 * 10**9, 253_402_300_800 * 10**9
# Five digits of milliseconds are 1970-01-01; eleven or more cannot be a year.
_EPOCH_MILLISECONDS = re.compile(r"\d{5,}")
_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?\s*(Z|[+-]\d\d:?\d\d)?", re.IGNORECASE
)


def duration_seconds(text: str) -> float:
    """`250ms`, `5s`, `2m`, or joined as `1m30s`; return seconds, more than zero."""
    position, seconds = 0, 0.0
    compact = text.strip()
    while position < len(compact):
        match = _DURATION.match(compact, position)
        if match is None:
            raise ValueError("is not a duration; write it as 250ms, 5s or 2m")
        seconds += float(match[1]) * _DURATION_SECONDS[match[2].lower()]
        position = match.end()
    if seconds <= 0:
        raise ValueError("must be more than zero; write it as 250ms, 5s or 2m")
    return seconds


def byte_size(text: str) -> int:
    """`1048576`, `512k`, `8m`, `64MiB`: bytes, more than zero. All units are powers of 1024."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError("is not a size; write it as 1048576, 8m or 64MiB")
    size = int(match[1]) << _SIZE_SHIFT[match[2].lower()]
    if size <= 0:
        raise ValueError("must be more than zero; write it as 1048576, 8m or 64MiB")
    return size


def boolean(text: str) -> bool:
    """`true` or `false`, in any case, and nothing else."""
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ValueError("must be true or false")
    return word == "true"


def whole_number(text: str, minimum: int) -> int:
    """A decimal integer not below `minimum`."""
    try:
        number = int(text.strip())
    except ValueError:
        raise ValueError("is not a whole number") from None
    if number < minimum:
        raise ValueError(f"must be {minimum} or more")
    return number


def timestamp_ns(text: str) -> int:
    """An ISO-8601 time (UTC when it names no zone) or epoch milliseconds: nanoseconds."""
    compact = text.strip()
    if _EPOCH_MILLISECONDS.fullmatch(compact):
        return _within_reach(int(compact) * 1_000_000)
    form = "write it as 2026-11-21T10:00:00Z or as epoch milliseconds"
    match = _RFC3339.fullmatch(compact)
    try:
        if match is None:
            moment = datetime.datetime.fromisoformat(compact)
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=datetime.UTC)
            time = _nanoseconds(moment, 0)
        else:
            zone = (match[3] or "Z").upper()
            zone = "+00:00" if zone == "Z" else zone
            moment = datetime.datetime.fromisoformat(match[1] + zone)
            time = _nanoseconds(moment, int((match[2] or "").ljust(9, "0")))
    except ValueError:
        raise ValueError(f"is not a time; {form}") from None
    return _within_reach(time)


def _within_reach(timestamp: int) -> int:
    """Return a time that `rfc3339` can write."""
    if not _FIRST_NS <= timestamp < _STOP_NS:
        raise ValueError(
            "is not between the years 1 and 9999; a number counts milliseconds since 1970"
        )
    return timestamp


def _nanoseconds(moment: datetime.datetime, fraction_ns: int) -> int:
    delta = moment - _EPOCH
    seconds = delta.days * 86400 + delta.seconds
    return seconds * NANOSECONDS + delta.microseconds * 1000 + fraction_ns


def rfc3339(timestamp: int) -> str:
    """Nanoseconds since the epoch as the text that JetStream's API takes."""
    seconds, fraction = divmod(timestamp, NANOSECONDS)
    moment = _EPOCH + datetime.timedelta(seconds=seconds)
    return f"{moment.year:04}-{moment:%m-%dT%H:%M:%S}.{fraction:09d}Z"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a server listens, and whether to demand TLS there.

    Attributes:
        tls_name: the name in its certificate, if that is not the host.
    """

    host: str
    port: int
    tls: bool = False
    tls_name: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def server_address(text: str) -> ServerAddress:
    """`nats://host:4222`, `tls://host`, `host:port` or `[::1]:4222`."""
    form = "write it as nats://host:4222 or tls://host:4222"
    entry = text.strip()
    url = entry if "://" in entry else f"nats://{entry}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError(f"is not an address; {form}") from None
    if "@" in parts.netloc:
        # The value itself is not repeated: it holds a password, and this key is not redacted.
        raise ValueError("must not carry credentials; use the options user and password, or token")
    if parts.scheme not in ("nats", "tls"):
        raise ValueError(f"has the scheme '{parts.scheme}', which is not one of nats, tls; {form}")
    if not host or parts.path not in ("", "/") or parts.query or parts.fragment or port == 0:
        raise ValueError(f"is not an address; {form}")
    return ServerAddress(host, port or 4222, parts.scheme == "tls")


@dataclass(frozen=True, slots=True)
class Secret:
    """A credential or where to find it (`env:NAME`, `file:PATH`); never shown by `repr`.

    It travels inside the pickled options to every executor, so `env:` and `file:` are resolved
    where they are used, not where they were written.
    """

    reference: str

    def __repr__(self) -> str:
        kind = self.reference.split(":", 1)[0]
        return f"Secret({self.reference})" if kind in ("env", "file") else "Secret(***)"

    __str__ = __repr__

    @property
    def is_in_file(self) -> bool:
        """Whether it is read from a file each time."""
        return self.reference.startswith("file:")

    def resolve(self, option: str) -> str:
        """The value itself.

        Raises:
            SecretUnreadableError: the variable is unset or the file unreadable in this process.
        """
        kind, _, name = self.reference.partition(":")
        if kind == "env":
            value = os.environ.get(name)
            if value is None:
                raise SecretUnreadableError(
                    f"option '{option}' names the environment variable '{name}', which is not set "
                    f"in this process.",
                    "Set it on the driver and on every executor (spark.executorEnv.*).",
                )
            return value
        if kind == "file":
            return read_secret_file(option, name).strip()
        return self.reference


def read_secret_file(option: str, path: str) -> str:
    """The text of a file that an option names.

    Raises:
        SecretUnreadableError: the file is missing or not readable in this process.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SecretUnreadableError(
            f"option '{option}' names the file '{path}', which cannot be read here: {error}.",
            "The file must exist on the driver and on every executor; ship it with --files, "
            "or mount it.",
        ) from None
