"""Why a message that was stored may be gone: somebody asked, a limit, an age, an acknowledgment.

Generous where the truth depends on the order in which things arrived: every config that was ever
asked for may have held.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from jetstream_server.base.clock import SECOND
from jetstream_server.jetstream.streams.removal.limits import stored_bytes

from tests.sim.life import Life, Stored

SLACK_NS = SECOND

Later = Callable[[], list[Stored]]


def is_explained(life: Life, sequence: int, last: int, now: int) -> bool:
    """Tell whether something may have removed a stored message.

    Args:
        last: last sequence of the stream.
    """
    entry = life.journal.get(sequence)
    retentions = {config.get("retention", "limits") for config in life.configs}
    if entry is None:  # an interest stream on which nobody wanted it
        return "interest" in retentions
    subject = entry.subject
    if any(removal.covers(sequence, subject) for removal in life.removals):
        return True
    if entry.ttl_ns and now + SLACK_NS >= entry.timestamp + entry.ttl_ns:
        return True
    journal = life.journal
    for at, other in journal.items():
        if other.may_replace and at > sequence and _replaces(other, entry):
            return True
    # Most is gone for other reasons, and for most of these nobody needs what came later.
    later: Later = cache(lambda: [other for at, other in journal.items() if at > sequence])
    if any(_is_over(config, entry, sequence, last, later, now) for config in life.configs):
        return True
    if retentions != {"limits"} and any(each.has_copy(life, sequence) for each in life.copiers):
        return True
    if "workqueue" in retentions:
        return any(
            reader.may_want(subject) and (reader.policy == "none" or reader.has_sent_ack(sequence))
            for reader in life.readers.values()
        )
    return "interest" in retentions and not any(
        0 < reader.made_at < entry.timestamp
        and not reader.is_leaving
        and reader.surely_wants(subject)
        and reader.policy == "explicit"
        and not reader.may_give_up
        and not reader.was_reset
        and not reader.config.get("mem_storage")
        and not reader.has_sent_ack(sequence)
        for reader in life.readers.values()
    )


def _replaces(later: Stored, entry: Stored) -> bool:
    """Tell whether a later message rolls one up, or ends the schedule that it is."""
    fields = later.fields
    rollup = fields.get(b"Nats-Rollup")
    if rollup == b"all" or (rollup is not None and later.subject == entry.subject):
        return True
    return (
        fields.get(b"Nats-Scheduler") == entry.subject
        and fields.get(b"Nats-Schedule-Next") == b"purge"
    )


def _is_over(
    config: dict[str, Any], entry: Stored, sequence: int, last: int, later: Later, now: int
) -> bool:
    max_age = config.get("max_age", 0)
    if max_age and not entry.is_lasting and now + SLACK_NS >= entry.timestamp + max_age:
        return True
    per_subject = config.get("max_msgs_per_subject", -1)
    if 0 < per_subject <= sum(other.subject == entry.subject for other in later()):
        return True
    if config.get("discard") == "new":
        return False
    if 0 < config.get("max_msgs", -1) <= last - sequence:
        return True
    if (max_bytes := int(config.get("max_bytes", -1))) <= 0:
        return False
    storage = str(config.get("storage", "file"))
    size = sum(
        stored_bytes(storage, other.subject, other.headers, other.payload)
        for other in [entry, *later()]
    )
    return max_bytes < size
