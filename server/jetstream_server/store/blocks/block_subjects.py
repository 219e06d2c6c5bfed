"""What a list of blocks says about subjects: the first and last messages of each, and how many.

Answers start from the bounds in `SubjectTable`, so most of them need at most one entry of a block.
Questions about many subjects go through the blocks once for all of them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from jetstream_server.kernels import columns, filters
from jetstream_server.kernels.record_format import PREFIX, PREFIX_BYTES
from jetstream_server.store.blocks.block_contents import NO_SUBJECT, BlockContents
from jetstream_server.store.blocks.block_list import BlockList
from jetstream_server.store.blocks.held import sort_out
from jetstream_server.store.blocks.subjects import SubjectSet, SubjectTable
from jetstream_server.store.ports import Census, SubjectFilter

_FEW_SUBJECTS = 64  # up to so many subjects are looked for one by one
_PIECE_ENTRIES = 8192
_BOUNDS_TRIED = 8  # before the newest message of many subjects is looked for from the end


class BlockSubjects:
    """Answers what is asked about the subjects of one store.

    Every method but `counts` may raise StoreError, as those of `BlockReading`.
    """

    def __init__(self, block_list: BlockList, contents: BlockContents, table: SubjectTable) -> None:
        self._list = block_list
        self._contents = contents
        self._table = table

    def newest(self, wanted: SubjectFilter | None) -> int:
        """Return the sequence of the newest matching message, 0 when there is none."""
        if isinstance(wanted, SubjectSet):
            return self._newest_of(wanted)
        for block in reversed(self._list.blocks):
            for entry in range(block.count - 1, block.head - 1, -1):
                if block.is_alive(entry):
                    return block.sequence(self._contents.of(block), entry)
        return 0

    def _newest_of(self, wanted: SubjectSet) -> int:
        """Return the last sequence of all matching messages, 0 when there is none."""
        lasts = self._table.lasts
        for _ in range(_BOUNDS_TRIED):
            number = wanted.newest()
            if number < 0:
                return 0
            bound = lasts[number]
            # When the bound turns out to be too high, `last_of` has tightened it for the next try.
            if self.holds(bound, number) or self.last_of(number) == bound:
                return bound
        return self._newest_before(wanted, self._list.last_seq + 1)

    def _newest_before(self, wanted: SubjectSet, end: int) -> int:
        """Walk back to the last matching message below `end`, 0 when there is none."""
        for block in reversed(self._list.blocks[: self._list.index_of(end - 1) + 1]):
            content = self._contents.of(block)
            ids, flags = content.entries.subject_ids, self._contents.flags(wanted, block, content)
            stop = block.at_or_after(content, end)
            while stop > block.head:
                start = max(stop - _PIECE_ENTRIES, block.head)
                if columns.count(ids, flags, block.alive, start, stop):
                    entry = stop - 1
                    while not (flags[ids[entry]] and block.is_alive(entry)):
                        entry -= 1
                    return block.sequence(content, entry)
                stop = start
        return 0

    def counts(self, pattern: bytes) -> dict[bytes, int]:
        """Return message counts of the matching subjects that have messages."""
        table = self._table
        matching = table.choose((pattern,)).matching()
        return {table.names[number]: table.counts[number] for number in matching}

    def census(self) -> Census:
        """Return all subjects with their counts."""
        # Whoever has it may look at it for long, and the list may be let go meanwhile.
        return Census(self._table.names[:], self._table.counts[:])

    def last(self, subject: bytes) -> int:
        """Return the last sequence of a subject, 0 when it has none."""
        if not self._table.count_of(subject):
            return 0
        return self.last_of(self._table.ids[subject])

    def lasts(self, subjects: Sequence[bytes]) -> array[int]:
        """Return the last sequence of each subject, 0 where it has none."""
        ids, counts, lasts = self._table.ids, self._table.counts, self._table.lasts
        numbers = [ids.get(subject) for subject in subjects]
        stored = [number for number in dict.fromkeys(numbers) if number >= 0 and counts[number]]
        _, missing = self._known_lasts(array("I", stored), self._list.last_seq)
        known = {number: lasts[number] for number in stored}
        known |= {number: self.last_of(number) for number in missing}
        return array("Q", [known.get(number, 0) for number in numbers])

    def last_sequences(
        self, wanted: SubjectFilter | None, up_to: int | None = None, count_max: int | None = None
    ) -> array[int]:
        """Return the last sequence (at most `up_to`) of each matching subject, rising."""
        table = self._table
        chosen = wanted if isinstance(wanted, SubjectSet) else table.choose((b">",))
        limit = self._list.last_seq if up_to is None else min(up_to, self._list.last_seq)
        numbers = chosen.matching(0, limit)
        if count_max is not None and len(numbers) > count_max:  # each has one, whichever that is
            return array("Q", sorted(table.lasts[number] for number in numbers[: count_max + 1]))
        if limit < self._list.last_seq:
            numbers = chosen.begun(limit)
        found, missing = self._known_lasts(numbers, limit)
        enough = len(numbers) if count_max is None else count_max + 1
        if not missing or len(found) >= enough:
            return found
        if len(missing) > _FEW_SUBJECTS:
            found += self._newest(missing, limit, enough - len(found))
        else:
            found.extend(last for number in missing if (last := self.last_of(number, limit)))
        return array("Q", sorted(found))

    def _known_lasts(self, numbers: array[int], limit: int) -> tuple[array[int], array[int]]:
        """Return the bounds of subjects that are last sequences, rising; and the subjects,
        `array('I')`, whose bounds are not, or lie above `limit`."""
        bounds = filters.rising(numbers, self._table.lasts)
        start = bisect_right(bounds, self._table.loose_until)
        stop = bisect_right(bounds, limit, start)
        found, gone = sort_out(self._list, self._contents, bounds, start, stop)
        if len(found) == len(bounds):  # as mostly; then nobody asks whose they are
            return found, array("I")
        ordered, _ = filters.order(numbers, self._table.lasts)
        missing = ordered[:start] + ordered[stop:]
        missing.extend(map(ordered.__getitem__, gone))
        return found, missing

    def _newest(self, numbers: array[int], limit: int, count_max: int) -> array[int]:
        """Walk back once for the last sequences (at most `limit`) of many subjects: of all of them,
        or of `count_max`."""
        pending = filters.among(numbers, len(self._table.names))
        left = min(len(numbers), count_max)
        found = array("Q")
        for block in reversed(self._list.blocks[: self._list.index_of(limit) + 1]):
            if len(found) >= left:
                break
            content = self._contents.of(block)
            columns.last_of_each(
                subject_ids=content.entries.subject_ids,
                alive=block.alive,
                start=block.head,
                stop=block.at_or_after(content, limit + 1),
                table_ids=content.table_ids,
                pending=pending,
                first_seq=block.first_seq,
                offsets=content.entries.offsets,
                count_max=left - len(found),
                found=found,
            )
        return found

    def last_of(self, subject_id: int, up_to: int | None = None) -> int:
        """Return the last sequence of a subject at or below `up_to`, 0 when there is none."""
        bound = self._table.lasts[subject_id]
        if (up_to is None or bound <= up_to) and self.holds(bound, subject_id):
            return bound
        limit = bound if up_to is None else min(bound, up_to)
        for index in range(self._list.index_of(limit), -1, -1):
            if index == len(self._list.blocks):
                continue
            block = self._list.blocks[index]
            content = self._contents.of(block)
            number = self._contents.local_id(content, subject_id)
            stop = block.at_or_after(content, limit + 1)
            ids = content.entries.subject_ids
            entry = columns.find(ids, block.alive, block.head, stop, number, is_last=True)
            if entry >= 0:
                sequence = block.sequence(content, entry)
                if limit == bound:
                    self._table.lasts[subject_id] = sequence
                return sequence
        return 0

    def holds(self, sequence: int, subject_id: int) -> bool:
        """Tell whether a sequence is a live message of a subject."""
        block = self._list.at(sequence)
        if block is None:
            return False
        content = self._contents.of(block)
        entry = block.find(content, sequence)
        if entry < 0:
            return False
        if not content.has_own_ids:
            return content.entries.subject_ids[entry] == subject_id
        buffer, at = self._contents.buffer(block, content, entry), content.entries.positions[entry]
        start, name = at + PREFIX_BYTES, self._table.names[subject_id]
        stop = start + PREFIX.unpack_from(buffer, at)[5]
        return buffer[start:stop] == name

    def sequences_of(self, subject_id: int) -> Iterator[int]:
        """Walk the live messages of a subject, oldest first; it must have some."""
        table = self._table
        start = table.firsts[subject_id]
        is_first = True
        for index in range(self._list.index_of(start), len(self._list.blocks)):
            block = self._list.blocks[index]
            content = self._contents.of(block)
            number = self._contents.local_id(content, subject_id)
            if number == NO_SUBJECT:
                continue  # the block has none of this subject
            ids = content.entries.subject_ids
            entry = max(block.at_or_after(content, start), block.head) - 1
            while True:
                entry = columns.find(ids, block.alive, entry + 1, block.count, number)
                if entry < 0:
                    break
                sequence = block.sequence(content, entry)
                if is_first:
                    table.firsts[subject_id] = sequence
                    is_first = False
                yield sequence
