"""The columns of a block's entries in pure Python: the reference for `fast.pyx`.

An entry is a message of a block. Its columns are its position, its subject id, and in blocks with
gaps its offset; questions about many messages are answered here for whole columns at once. The
shared arguments are those of `records/pure.py`, and

    flags: one byte per subject id, 1 for a wanted one; empty when all are wanted.
"""

from __future__ import annotations

from array import array

from jetstream_server.kernels.interned import Interned
from jetstream_server.kernels.record_format import (
    HEADER_ACCOUNTED_BYTES,
    PREFIX,
    PREFIX_BYTES,
    UNACCOUNTED_BYTES,
    Buffer,
    Ids,
)
from jetstream_server.kernels.records.pure import SIZE, Alive

NOWHERE = (1 << 32) - 1  # a number that is no more, where others have changed


def add_to_counters(
    subject_ids: Ids,
    start: int,
    stop: int,
    first_seq: int,
    offsets: Ids,
    counts: array[int],
    firsts: array[int],
    lasts: array[int],
) -> int:
    """Add entries to the counters of their subjects, `array('Q')` each.

    Returns:
        How many subjects had no message before.
    """
    appeared = 0
    for index in range(start, stop):
        subject_id = subject_ids[index]
        sequence = first_seq + (offsets[index] if offsets else index)
        if not counts[subject_id]:
            appeared += 1
            firsts[subject_id] = sequence
        counts[subject_id] += 1
        lasts[subject_id] = sequence
    return appeared


def summary_of(
    local_ids: Ids, stop: int, subjects: int
) -> tuple[array[int], array[int], array[int]]:
    """Return how many of the entries below `stop` each subject has, and which is its first and its
    last one, `array('I')` each; 0 where it has none.

    Args:
        local_ids: all below `subjects`.
    """
    if stop > len(local_ids):
        raise IndexError("more entries wanted than there are")
    if any(number >= subjects for number in local_ids[:stop]):
        raise IndexError("a subject id beyond the subjects")
    counts, firsts, lasts = (array("I", bytes(4 * subjects)) for _ in range(3))
    for index, number in enumerate(local_ids[:stop]):
        if not counts[number]:
            firsts[number] = index
        counts[number] += 1
        lasts[number] = index
    return counts, firsts, lasts


def names_of(buffer: Buffer, positions: Ids, local_ids: Ids, stop: int) -> tuple[bytes, array[int]]:
    """Return the subjects of entries below `stop`, one after the other in the order of their ids,
    and the length of each, `array('H')`.

    Args:
        local_ids: as `localize` gives them: each subject's is one above those before it.
    """
    names: list[bytes] = []
    lengths = array("H")
    for position, number in zip(positions[:stop], local_ids[:stop], strict=True):
        if number == len(names):
            length = PREFIX.unpack_from(buffer, position)[5]
            start = position + PREFIX_BYTES
            names.append(bytes(buffer[start : start + length]))
            lengths.append(length)
    return b"".join(names), lengths


def number_names(names: bytes, lengths: array[int], interned: Interned) -> array[int]:
    """Return the ids of subjects that stand one after the other; new ones get the next ids.

    Args:
        names: the subjects.
        lengths: `array('H')`, the length of each; together not more than `names`.
    """
    numbers = array("I")
    at = 0
    for length in lengths:
        numbers.append(interned.number(names[at : at + length]))
        at += length
    return numbers


def carry(numbers: array[int], moved: array[int], other: int) -> array[int]:
    """Return what numbers, `array('I')`, have become: `moved` tells of each, and is `other` for
    those that are `NOWHERE`."""
    new = [moved[number] for number in numbers]
    return array("I", [other if number == NOWHERE else number for number in new])


def carry_values(values: array[int], moved: array[int], count: int) -> None:
    """Bring values, `array('Q')`, to where `moved` says, in place; those that are `NOWHERE` are
    left out.

    Args:
        moved: `array('I')`, all numbers below `count` among them, each once; most rise.
        count: how many are left.
    """
    if len(values) != len(moved) or count > len(moved):
        raise ValueError("as many values as numbers")
    kept = [(number, index) for index, number in enumerate(moved) if number != NOWHERE]
    if any(number >= count for number, _ in kept):
        raise IndexError("a number beyond the values")
    values[:] = array("Q", [values[index] for _, index in sorted(kept)])


def merge(
    subject_ids: array[int],
    entries: array[int],
    first_entries: array[int],
    last_entries: array[int],
    first_seq: int,
    last_seq: int,
    *,
    sparse: bool,
    counts: array[int],
    firsts: array[int],
    lasts: array[int],
) -> int:
    """Add the sums of a block to the counters of its subjects, `array('Q')` each.

    Args:
        subject_ids: of the block's subjects.
        entries, first_entries, last_entries: how many each has, the first and the last of them.
        first_seq, last_seq: of the block.
        sparse: the block has offsets, so entries do not tell sequences, only bounds of them.

    Returns:
        How many subjects had no message before.
    """
    appeared = 0
    span = last_seq - first_seq
    for index, number in enumerate(subject_ids):
        if not counts[number]:
            appeared += 1
            firsts[number] = first_seq + first_entries[index]
        counts[number] += entries[index]
        lasts[number] = last_seq if sparse else first_seq + min(last_entries[index], span)
    return appeared


def withdraw(
    subject_ids: Ids, alive: Alive, start: int, stop: int, table_ids: Ids, counts: array[int]
) -> int:
    """Take live entries off the counters of their subjects.

    `table_ids` maps the block's subject ids to those of `counts`; empty when they are the same.

    Returns:
        How many subjects have no message left.
    """
    emptied = 0
    for index in range(start, stop):
        if alive and not alive[index]:
            continue
        subject_id = subject_ids[index]
        if table_ids:
            subject_id = table_ids[subject_id]
        counts[subject_id] -= 1
        emptied += not counts[subject_id]
    return emptied


def select(
    buffer: Buffer,
    positions: Ids,
    subject_ids: Ids,
    flags: Alive,
    alive: Alive,
    start: int,
    stop: int,
    first_seq: int,
    offsets: Ids,
    count_max: int,
    bytes_max: int,
    out_positions: array[int],
    out_sequences: array[int],
    out_sizes: array[int],
) -> int:
    """Append wanted live entries to the three `array('Q')`; the first one whatever its size.

    Sizes, and `bytes_max` over them, are subject + headers + payload.

    Returns:
        The first entry not looked at.
    """
    if count_max <= 0:
        return start
    count = total = 0
    for index in range(start, stop):
        if (alive and not alive[index]) or (flags and not flags[subject_ids[index]]):
            continue
        position = positions[index]
        size = SIZE.unpack_from(buffer, position)[0] - PREFIX_BYTES
        if count and total + size > bytes_max:
            return index
        out_positions.append(position)
        out_sequences.append(first_seq + (offsets[index] if offsets else index))
        out_sizes.append(size)
        count += 1
        total += size
        if count == count_max:
            return index + 1
    return stop


def count(subject_ids: Ids, flags: Alive, alive: Alive, start: int, stop: int) -> int:
    """Return the number of wanted live entries."""
    if not flags:
        return sum(map(bool, alive[start:stop])) if alive else max(stop - start, 0)
    if not alive:
        return sum(flags[subject_id] for subject_id in subject_ids[start:stop])
    return sum(flags[subject_ids[index]] for index in range(start, stop) if alive[index])


def find(
    subject_ids: Ids, alive: Alive, start: int, stop: int, wanted: int, *, is_last: bool = False
) -> int:
    """Return the first live entry of a subject in [start, stop), or the last; -1 without any."""
    indices = range(start, stop)
    for index in reversed(indices) if is_last else indices:
        if subject_ids[index] == wanted and (not alive or alive[index]):
            return index
    return -1


def living(
    sequences: array[int],
    start: int,
    stop: int,
    first_seq: int,
    head: int,
    count: int,
    alive: Alive,
    offsets: Ids,
    held: array[int],
    gone: array[int],
) -> None:
    """Sort sequences into those of live entries of a block and the others.

    Args:
        sequences: `array('Q')`, never falling, of which [start, stop) are looked at; none is below
            `first_seq`.
        head, count: the first entry that may be alive, and the number of entries.
        held: `array('Q')`, gets those that are.
        gone: `array('I')`, gets where in `sequences` the others are.
    """
    entry = 0
    for index in range(start, stop):
        offset = sequences[index] - first_seq
        if offsets:
            while entry < count and offsets[entry] < offset:
                entry += 1
        else:
            entry = offset
        if (
            head <= entry < count
            and (not offsets or offsets[entry] == offset)
            and (not alive or alive[entry])
        ):
            held.append(sequences[index])
        else:
            gone.append(index)


def last_of_each(
    subject_ids: Ids,
    alive: Alive,
    start: int,
    stop: int,
    table_ids: Ids,
    pending: bytearray,
    first_seq: int,
    offsets: Ids,
    count_max: int,
    found: array[int],
) -> None:
    """Walk live entries of a block from `stop` back to `start`, and find the last one of each
    subject that is looked for.

    Args:
        table_ids: the block's own subject ids to those of the table; empty where they are the same.
        pending: a byte for each id of the table, 1 for one that is looked for; set to 0 when found.
        count_max: how many to find, at the most.
        found: `array('Q')`, gets their sequences.
    """
    for index in range(stop - 1, start - 1, -1):
        if count_max <= 0:
            return
        if alive and not alive[index]:
            continue
        number = table_ids[subject_ids[index]] if table_ids else subject_ids[index]
        if pending[number]:
            pending[number] = 0
            found.append(first_seq + (offsets[index] if offsets else index))
            count_max -= 1


def localize(subject_ids: Ids, stop: int, local_ids: array[int]) -> array[int]:
    """Number the subjects of a block by first appearance, appending these numbers to `local_ids`.

    Returns:
        The subject id of each local one, in order.
    """
    known: dict[int, int] = {}
    for index in range(stop):
        subject_id = subject_ids[index]
        local_ids.append(known.setdefault(subject_id, len(known)))
    return array("I", known)


def bury(
    buffer: Buffer,
    positions: Ids,
    subject_ids: Ids,
    flags: Alive,
    alive: bytearray,
    start: int,
    stop: int,
    messages_max: int,
    first_seq: int,
    offsets: Ids,
    table_ids: Ids,
    counts: array[int],
    ranges: array[int],
) -> tuple[int, int, int, int, int]:
    """Mark wanted live entries as deleted and take them off the counters of their subjects.

    `alive` has a byte for every entry; `ranges` is an `array('Q')` that gets the sequences as
    half-open ranges; the rest is as for `withdraw` and `measure`.

    Returns:
        The first entry not looked at, messages, accounted bytes, record bytes, and how many
        subjects have no message left.
    """
    messages = accounted = recorded = emptied = 0
    at = len(ranges)
    for index in range(start, stop):
        if not alive[index] or (flags and not flags[subject_ids[index]]):
            continue
        if messages >= messages_max:
            return index, messages, accounted, recorded, emptied
        size, _, _, _, headers, _, _ = PREFIX.unpack_from(buffer, positions[index])
        alive[index] = 0
        number = subject_ids[index]
        if table_ids:
            number = table_ids[number]
        counts[number] -= 1
        emptied += not counts[number]
        messages += 1
        accounted += size - UNACCOUNTED_BYTES + (HEADER_ACCOUNTED_BYTES if headers else 0)
        recorded += size
        sequence = first_seq + (offsets[index] if offsets else index)
        if len(ranges) > at and ranges[-1] == sequence:
            ranges[-1] = sequence + 1
        else:
            ranges.extend((sequence, sequence + 1))
    return stop, messages, accounted, recorded, emptied
