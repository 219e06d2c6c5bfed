"""Limits of a file store: what exceeds them is removed, a bounded amount at a time.

Every method may raise StoreError: a block turns out to be damaged, which takes the store offline.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

from jetstream_server.store.blocks.block_contents import BlockContents
from jetstream_server.store.blocks.block_list import BlockList
from jetstream_server.store.blocks.block_pruning import BlockPruning
from jetstream_server.store.blocks.block_subjects import BlockSubjects
from jetstream_server.store.blocks.compaction import Compaction
from jetstream_server.store.blocks.subjects import SubjectTable
from jetstream_server.store.ports import Limits

# What is removed before others get their turn: blocks, and messages of overfull subjects.
EXPIRED_AT_ONCE = 2
TRIMMED_AT_ONCE = 8
EMPTIED_AT_ONCE = 20_000  # messages of these blocks, unless a single one has more
DELETED_AT_ONCE = 500
LOOKED_AT_ONCE = 50_000  # subjects, for a new limit
# Messages are stored fewer at a time: so many subjects have grown, or by so many messages, while no
# limit held.
GROWN_AT_ONCE = 10_000
_FEW_SUBJECTS = 8  # overfull subjects; of more, the messages of all are walked
WALKED_AT_ONCE = 10_000
NUMBERED_MAX = 10_000  # subjects of a block, in one call
_ALL = 1 << 62


@dataclass(slots=True, eq=False)
class Enforcement:
    """Keeps one store within limits.

    Args:
        list, contents, table: the blocks, and what stands in them.
        subjects: finds the oldest messages of one.
        pruning: removes.
        compaction: tells whether the disk is behind with rewriting.
    """

    _list: BlockList
    _contents: BlockContents
    _table: SubjectTable
    _subjects: BlockSubjects
    _pruning: BlockPruning
    _compaction: Compaction
    # The limit per subject, and the numbering, with which all subjects are looked at, and how many
    # of them were.
    _known: tuple[int, int] = (-1, 0)
    _is_looking: bool = False
    _looked_to: int = 0
    _overfull: dict[int, None] = field(default_factory=dict)  # yet to be trimmed
    _walked_to: int = 0  # the sequence to which their messages have been looked at, see `_walk`

    def enforce(self, limits: Limits, now: int) -> list[tuple[int, int]]:
        """Remove the oldest messages until `limits` hold: age, then per subject, count, bytes."""
        removed: list[tuple[int, int]] = []
        numbers = self._list
        if limits.max_age_ns > 0 and numbers.messages:
            expired_at = now - limits.max_age_ns
            if numbers.oldest()[1] <= expired_at:
                blocks = numbers.blocks
                is_all = blocks[-1].last_ts <= expired_at  # which goes quickly, however many
                most = None if is_all else EXPIRED_AT_ONCE
                self._trim(0, 0, expired_at, removed, most)
        if limits.max_msgs_per_subject > 0:
            self._enforce_per_subject(limits.max_msgs_per_subject, removed)
            if (
                self._is_looking or self._overfull
            ):  # what it has yet to remove makes room for messages at the front
                return removed
        messages = numbers.messages - limits.max_msgs if limits.max_msgs >= 0 else 0
        accounted = numbers.holding.bytes - limits.max_bytes if limits.max_bytes >= 0 else 0
        if numbers.messages and (messages > 0 or accounted > 0):
            self._trim(
                max(messages, 0),
                max(accounted, 0),
                -_ALL,
                removed,
                TRIMMED_AT_ONCE,
                gives_way=True,
            )
        return removed

    def exceeds(self, limits: Limits) -> bool:
        """Tell whether `enforce` left something for another call."""
        per_subject = limits.max_msgs_per_subject
        is_left = self._is_looking or bool(self._overfull)
        return (
            0 <= limits.max_msgs < self._list.messages
            or 0 <= limits.max_bytes < self._list.holding.bytes
            or (per_subject > 0 and (is_left or not self._has_seen(per_subject)))
        )

    def _trim(
        self,
        messages: int,
        accounted: int,
        expired_at: int,
        removed: list[tuple[int, int]],
        blocks_max: int | None,
        *,
        gives_way: bool = False,
    ) -> None:
        """Remove from the front until that much is gone and nothing left has expired, or until so
        many blocks have been emptied. Unless all goes (None), the subjects of a block have to be
        numbered before anything in it can be, which may be all that there is time for."""
        start = self._list.oldest()[0]
        target = self._list.last_seq + 1
        left = EMPTIED_AT_ONCE
        for number, block in enumerate(self._list.blocks):
            if number == blocks_max:
                target = block.first_seq
                break
            if not block.live:
                continue
            if blocks_max is not None:
                is_much = block.count > left and left < EMPTIED_AT_ONCE
                if is_much or not self._contents.of(block).number(NUMBERED_MAX):
                    target = block.first_seq
                    break
                left -= block.count
            if block.live > messages and block.accounted > accounted and block.last_ts > expired_at:
                content = self._contents.of(block)
                entry, *_ = self._contents.weigh(
                    block, content, block.count, messages, accounted, expired_at
                )
                if entry < block.count:
                    target = block.sequence(content, entry)
                    break
            messages -= block.live
            accounted -= block.accounted
        if target > start:
            self._pruning.truncate_front(target, gives_way=gives_way)
            removed.append((start, target))

    def _has_seen(self, limit: int) -> bool:
        """Tell whether every subject is checked against a limit, except those appended to since."""
        return self._known == (limit, self._table.generation)

    def _enforce_per_subject(self, limit: int, removed: list[tuple[int, int]]) -> None:
        table, counts = self._table, self._table.counts
        recent = table.take_recent()
        if not self._has_seen(limit) or len(recent) > GROWN_AT_ONCE:
            self._known, recent = (limit, table.generation), {}
            self._is_looking, self._looked_to = True, 0
            self._overfull, self._walked_to = {}, 0
        if self._is_looking:
            self._look(limit)
        gone: list[int] = []
        trimmed: list[int] = []
        overfull = self._overfull
        for number in recent:
            excess = counts[number] - limit
            if excess <= 0 or number in overfull:
                continue
            if excess == 1 and self._subjects.holds(table.firsts[number], number):
                gone.append(table.firsts[number])
            elif excess <= GROWN_AT_ONCE - len(gone):
                gone.extend(islice(self._subjects.sequences_of(number), excess))
            else:
                overfull[number] = None
                self._walked_to = 0  # its messages may be anywhere
                continue
            trimmed.append(number)
        # The disk may be behind: what is removed would pile up in a flush.
        if overfull and not self._is_looking and not self._compaction.is_rewriting():
            if len(overfull) > _FEW_SUBJECTS:
                trimmed += self._walk(limit, gone)
            else:
                trimmed += self._look_for_each(limit, gone)
        if not gone:
            return
        if limit == 1:  # the one that stays is known: spare the next call the search for it
            for number in trimmed:
                table.firsts[number] = self._subjects.last_of(number)
        self._pruning.delete(gone)
        removed.extend((sequence, sequence + 1) for sequence in gone)

    def _look(self, limit: int) -> None:
        """Look which of the next subjects are overfull. Their messages are looked for when all
        are known, see `_walk`."""
        counts = self._table.counts
        stop = min(self._looked_to + LOOKED_AT_ONCE, len(counts))
        some = (number for number in range(self._looked_to, stop) if counts[number] > limit)
        self._overfull.update(dict.fromkeys(some))
        self._looked_to = stop
        self._is_looking = stop < len(counts)

    def _look_for_each(self, limit: int, gone: list[int]) -> list[int]:
        """Look for the oldest messages of one overfull subject after the other, and add them to
        `gone`; return the subjects that keep to the limit without them."""
        overfull, counts, trimmed = self._overfull, self._table.counts, []
        while overfull and len(gone) < DELETED_AT_ONCE:
            # From the end: a dictionary looks for its first key behind all that were there.
            number, _ = overfull.popitem()
            excess = max(counts[number] - limit, 0)  # some may have been removed meanwhile
            count = min(excess, DELETED_AT_ONCE - len(gone))
            if count:
                gone.extend(islice(self._subjects.sequences_of(number), count))
            if count < excess:
                overfull[number] = None
            elif excess:
                trimmed.append(number)
        return trimmed

    def _walk(self, limit: int, gone: list[int]) -> list[int]:
        """Do the same with what comes next of all overfull subjects: to look for hundreds of them
        in blocks of a hundred thousand subjects takes longer than to look at every message once.

        Invariant: overfull subjects have no message below `_walked_to`, which has passed only what
        it removed, and subjects that kept to the limit and are overfull no more.
        """
        numbers, overfull, counts = self._list, self._overfull, self._table.counts
        firsts, trimmed, left = self._table.firsts, [], WALKED_AT_ONCE
        chosen: dict[int, int] = {}
        while overfull and left > 0 and len(gone) < DELETED_AT_ONCE:
            index = numbers.index_of(self._walked_to)
            if index == len(numbers.blocks):
                overfull.clear()  # whatever they had was removed by others
                break
            block = numbers.blocks[index]
            content = self._contents.of(block)
            if not content.number(NUMBERED_MAX):
                break
            ids, table_ids = content.entries.subject_ids, content.table_ids
            entry = max(block.at_or_after(content, self._walked_to), block.head)
            stop = min(block.count, entry + left)
            left -= max(stop - entry, 1)
            while entry < stop and len(gone) < DELETED_AT_ONCE:
                number = table_ids[ids[entry]] if table_ids else ids[entry]
                if number in overfull and block.is_alive(entry):
                    taken = chosen.get(number, 0) + 1
                    excess = counts[number] - limit - taken
                    if excess >= 0:
                        sequence = block.sequence(content, entry)
                        gone.append(sequence)
                        chosen[number] = taken
                        firsts[number] = sequence + 1
                    if excess <= 0:
                        del overfull[number]
                        trimmed.append(number)
                entry += 1
            is_done = entry >= block.count
            self._walked_to = block.last_seq + 1 if is_done else block.sequence(content, entry)
        return trimmed
