"""Whether what a stream stores is what somebody sent, changed only as the stream's config says.

Everything else is compared with what was stored (`witness.py`), so bytes are followed from the
publisher to the reader, through copies and restarts.
"""

from __future__ import annotations

from typing import Any

from jetstream_server.base.clock import SECOND
from jetstream_server.core.subject import matches

from tests.sim.life import Life, Stored, fields_of, require

_SOURCE = b"Nats-Stream-Source"
# What a stream may add to or change in the headers of a message, or take away.
_CHANGED = (b"Nats-TTL:", b"Nats-Batch-", b"Nats-Rollup:")
_LEFT_BEHIND = (b"Nats-Expected-", b"Nats-Batch-", _SOURCE + b":")


def check_provenance(
    witness: Any, life: Life, sequence: int, entry: Stored, previous: Stored | None
) -> None:
    """Complain of a stored message that nobody sent.

    Args:
        witness: knows what was published, and all streams.
        previous: the newest message on the subject before this one, for counters.
    """
    where = (life.name, sequence)
    if life.is_mirror:
        _check_mirrored(witness, life, sequence, entry)
    elif life.archive is not None and not life.is_made and sequence in life.archive:
        require(life.archive[sequence] == entry.content, *where, "restored as another message")
    elif _SOURCE in entry.fields:
        _check_sourced(witness, life, sequence, entry)
    elif b"Nats-Marker-Reason" in entry.fields:
        require(not entry.payload, *where, "a marker with a payload")
        require(any(c.get("subject_delete_marker_ttl") for c in life.configs), *where, "marker")
        require(previous is None, *where, "a marker beside messages of its subject")
    elif b"Nats-Scheduler" in entry.fields:
        _check_fired(life, sequence, entry)
    else:
        _check_published(witness, life, sequence, entry, previous)


def _check_published(
    witness: Any, life: Life, sequence: int, entry: Stored, previous: Stored | None
) -> None:
    sent = witness.published.get(entry.uid)
    require(sent is not None, life.name, sequence, "nobody sent", entry.subject, entry.payload[:40])
    where = (life.name, sequence, "is not what was sent:")
    require(entry.subject in life.renamed(sent.subject), *where, entry.subject, sent.subject)
    is_same = entry.headers == sent.headers or _plain(entry.headers) == _plain(sent.headers)
    require(is_same, *where, entry.headers, sent.headers)
    require(
        sent.batch is None or sent.batch.is_committed, life.name, sequence, "stored uncommitted"
    )
    if life.config.get("allow_msg_counter"):
        before = int(_total(previous.payload)) if previous is not None else 0
        total = before + int(sent.fields[b"Nats-Incr"])
        require(_total(entry.payload) == b"%d" % total, *where, entry.payload, "not", total)
    else:
        require(entry.payload == sent.payload, *where, entry.payload[:40])


def _total(payload: bytes) -> bytes:
    return payload.removeprefix(b'{"val":"').removesuffix(b'"}')


def _plain(headers: bytes) -> list[bytes]:
    """Return the lines that a stream leaves alone."""
    lines = headers.split(b"\r\n")
    return [line for line in lines if line and not line.startswith((*_CHANGED, b"NATS/"))]


def _settled(headers: bytes) -> list[bytes]:
    """Return the lines that go along with a copy."""
    lines = headers.split(b"\r\n")
    return [line for line in lines if line and not line.startswith((*_LEFT_BEHIND, b"NATS/"))]


def copied_subject(source: dict[str, Any], subject: bytes) -> bytes | None:
    """Return what becomes of a subject in a mirror or source, None when it is not copied."""
    if rules := source.get("subject_transforms", []):
        for rule in rules:
            if matches(rule["src"].encode(), subject):
                return b"q." + subject
        return None
    pattern = source.get("filter_subject", "")
    return subject if not pattern or matches(pattern.encode(), subject) else None


def _check_mirrored(witness: Any, life: Life, sequence: int, entry: Stored) -> None:
    source = life.config["mirror"]
    for origin in witness.lives_named(life.account, source["name"]):
        original = origin.journal.get(sequence)
        if (
            original is not None
            and original.timestamp == entry.timestamp
            and original.payload == entry.payload
            and copied_subject(source, original.subject) == entry.subject
            and _settled(original.headers) == _settled(entry.headers)
        ):
            entry.origin = origin, sequence
            return
    require(False, life.name, sequence, "mirrors what its origin never had", entry)


def _check_sourced(witness: Any, life: Life, sequence: int, entry: Stored) -> None:
    name, number, _, _, subject, *_ = entry.fields[_SOURCE].split(b" ")
    sources = [each for each in life.config["sources"] if each["name"].encode() == name]
    for origin in witness.lives_named(life.account, name.decode()):
        original = origin.journal.get(int(number))
        if (
            original is not None
            and original.subject == subject
            and original.payload == entry.payload
            and any(copied_subject(each, subject) == entry.subject for each in sources)
            and _settled(original.headers) == _settled(entry.headers)
        ):
            entry.origin = origin, int(number)
            break
    require(entry.origin is not None, life.name, sequence, "copies what never was", entry)
    for at, other in life.journal.items():
        if other.origin == entry.origin and other.fields[_SOURCE] == entry.fields[_SOURCE]:
            is_known = other.start == entry.start or at in life.live
            require(not is_known, life.name, sequence, "copied before, at", at, entry.origin)


def _check_fired(life: Life, sequence: int, entry: Stored) -> None:
    where = (life.name, sequence, "was fired")
    schedule = entry.fields[b"Nats-Scheduler"]
    planned = [
        (at, other)
        for at, other in life.journal.items()
        if other.subject == schedule and other.payload == entry.payload
    ]
    require(planned, *where, "by no schedule of", schedule)
    at, other = planned[-1]
    require(other.fields[b"Nats-Schedule-Target"] == entry.subject, *where, "elsewhere")
    rule = other.fields[b"Nats-Schedule"]
    fired = [
        each
        for number, each in life.journal.items()
        if number > at
        and each.fields.get(b"Nats-Scheduler") == schedule
        and each.payload == entry.payload
    ]
    if rule.startswith(b"@at "):
        due = int(other.fields[b"Due"])
        require(entry.timestamp >= due, *where, due - entry.timestamp, "ns too early")
        earlier = [each for each in fired if each.start == entry.start]
        require(not earlier, *where, "twice, by", at)
    else:
        period = int(rule.removeprefix(b"@every ").rstrip(b"s")) * SECOND
        soonest = max([each.timestamp for each in fired if each.start == entry.start], default=0)
        # On whole seconds, and up to a quarter of one late.
        gap = entry.timestamp - soonest
        require(not soonest or gap > period - 2 * SECOND, *where, "again after", gap)


def batch_of(headers: bytes) -> bytes:
    """Return the id of the atomic batch to which a stored message belongs, empty for none."""
    return fields_of(headers).get(b"Nats-Batch-Id", b"") if b"Nats-Batch-Id" in headers else b""
