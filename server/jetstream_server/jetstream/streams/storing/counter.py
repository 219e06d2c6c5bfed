"""Counter streams: a message says by how much, the stream stores the sum.

Each stored message of a subject holds the subject's total after it, as the text of an integer of
any size: `{"val":"42"}`. The header `Nats-Incr` keeps what was added. `Nats-Counter-Sources` says
which part of a total came from other streams; it is handed on from message to message.
Specification: docs/reference/publishing.md#counters.
"""

from __future__ import annotations

import re
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import TYPE_CHECKING

import orjson

from jetstream_server.jetstream import errors
from jetstream_server.jetstream.streams.messages import publish_headers as names
from jetstream_server.jetstream.streams.messages.publish_headers import header, replaced
from jetstream_server.jetstream.streams.messages.staging import Staging
from jetstream_server.jetstream.wire.go_json import Spend, spend_nothing
from jetstream_server.store.ports import MessageStore

if TYPE_CHECKING:
    from jetstream_server.jetstream.streams.messages.candidate import Candidate

_BYTES_OF_UNIT = 4000  # of the workload: so many are read, or added up, in 0.1 ms
# Of the counters of one batch, which are all read and added up in one turn.
_UNITS_OF_BATCH_MAX = 300
_INTEGER = re.compile(rb"[+-]?[0-9]+")
# Decimal reads and writes digits in linear time, which `int` refuses to do for many of them.
_EXACT = Context(prec=1_000_000, Emin=MIN_EMIN, Emax=MAX_EMAX)
# Conditions make no sense on a sum, and a rollup would throw away nothing but history.
_UNFIT = (
    names.ROLLUP,
    names.EXPECTED_STREAM,
    names.EXPECTED_LAST_SEQUENCE,
    names.EXPECTED_LAST_SUBJECT_SEQUENCE,
    names.EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT,
    names.EXPECTED_LAST_MESSAGE_ID,
)


def check_increment(message: Candidate, *, is_counter: bool) -> None:
    """Refuse an increment that is malformed or meets no counter, or a message that is more than an
    increment.

    Raises:
        ApiError: 10171, 10168, 10170, 10171.
    """
    if _INTEGER.fullmatch(message.special[names.INCREMENT]) is None:
        raise errors.MESSAGE_INCR_INVALID()
    if not is_counter:
        raise errors.MESSAGE_INCR_DISABLED()
    if message.payload:
        raise errors.MESSAGE_INCR_PAYLOAD()
    if any(name in message.special for name in _UNFIT):
        raise errors.MESSAGE_INCR_INVALID()


def count(
    store: MessageStore,
    message: Candidate,
    staging: Staging | None,
    spend: Spend = spend_nothing,
) -> None:
    """Put the new total into the message, as payload and as `total`.

    Args:
        spend: told of the units of work that it takes to read what is stored, and to add.

    Raises:
        ApiError: 10169 there is no increment; 10172 the stored total cannot be read; 10077 the
            counters of a batch are too large for one turn.
    """
    increment = message.special.get(names.INCREMENT)
    if not increment:
        raise errors.MESSAGE_INCR_MISSING()
    subject = message.subject
    if staging is not None:
        spend = _spending_of(staging, spend)
    if staging is not None and subject in staging.totals:
        before = staging.totals[subject]
        sources = b""
    else:
        before, sources = _stored(store, subject, spend)
    if sources := message.sources or sources:
        message.headers = replaced(message.headers, names.COUNTER_SOURCES, sources)
    after = _EXACT.add(before, Decimal(increment.decode()))
    if staging is not None:
        staging.totals[subject] = after
    message.total = format(after, "f").encode()
    spend(len(message.total) / _BYTES_OF_UNIT)
    message.payload = b'{"val":"%b"}' % message.total


def _spending_of(staging: Staging, spend: Spend) -> Spend:
    def spend_on_it(units: float) -> None:
        spend(units)
        staging.counting_units += units
        if staging.counting_units > _UNITS_OF_BATCH_MAX:
            raise errors.STREAM_STORE_FAILED("the counters of the batch are too large")

    return spend_on_it


def convert_total(
    store: MessageStore,
    message: Candidate,
    origin: str,
    origin_subject: str,
    spend: Spend = spend_nothing,
) -> None:
    """Turn the copy of another stream's counter into an increment of this one: by what was counted
    there since the previous copy.

    Args:
        origin: the stream that the copy comes from.
        origin_subject: the counter there.
        spend: told of the units of work that it takes to read what is stored.

    Raises:
        ApiError: 10169 there is no increment; 10172 a total cannot be read.
    """
    if names.INCREMENT not in message.special:
        raise errors.MESSAGE_INCR_MISSING()
    total = _total(message.payload)
    _, sources = _stored(store, message.subject, spend)
    accounted: dict[str, dict[str, str]] = orjson.loads(sources) if sources else {}
    before = accounted.setdefault(origin, {}).get(origin_subject, "0")
    if not isinstance(before, str) or _INTEGER.fullmatch(before.encode()) is None:
        raise errors.MESSAGE_COUNTER_BROKEN()
    accounted[origin][origin_subject] = format(total, "f")
    message.sources = orjson.dumps(accounted, option=orjson.OPT_SORT_KEYS)
    increment = format(_EXACT.subtract(total, Decimal(before)), "f").encode()
    message.headers = replaced(message.headers, names.INCREMENT, increment)
    message.special[names.INCREMENT] = increment
    message.payload = b""


def _total(payload: bytes) -> Decimal:
    try:
        value = orjson.loads(payload)["val"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise errors.MESSAGE_COUNTER_BROKEN() from None
    if not isinstance(value, str) or _INTEGER.fullmatch(value.encode()) is None:
        raise errors.MESSAGE_COUNTER_BROKEN()
    return Decimal(value)


def _stored(store: MessageStore, subject: bytes, spend: Spend) -> tuple[Decimal, bytes]:
    """Return the total of a subject, and the block of its sources."""
    newest = store.load(store.subject_last(subject))
    if newest is None:
        return Decimal(0), b""
    spend((len(newest.headers) + len(newest.payload)) / _BYTES_OF_UNIT)
    sources = header(newest.headers, names.COUNTER_SOURCES) if newest.headers else b""
    try:
        accounted = orjson.loads(sources) if sources else {}
    except orjson.JSONDecodeError:
        raise errors.MESSAGE_COUNTER_BROKEN() from None
    if not isinstance(accounted, dict) or not all(
        isinstance(totals, dict) for totals in accounted.values()
    ):
        raise errors.MESSAGE_COUNTER_BROKEN()
    return _total(newest.payload), sources
