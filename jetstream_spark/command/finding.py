"""What an examination found: the state of a thing, and what to do if it is not well."""

from __future__ import annotations

from dataclasses import dataclass

from jetstream_spark.errors import ConnectorError

OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        status: `ok`; `warn`, if the job runs and something is worse than it might be; `fail`.
        check: what was looked at, in a word or two.
        what: what was seen.
        remedy: what to do; "" when all is well.
    """

    status: str
    check: str
    what: str
    remedy: str = ""


def failed(check: str, error: ConnectorError) -> Finding:
    """An error as a finding."""
    return Finding(FAIL, check, f"[{error.condition}] {error.what}", error.remedy)
