"""Sets of subjects in pure Python: the reference for `fast.pyx`.

A set is one byte per subject id, 1 for a subject that is in it. The counters are `array('Q')` by
subject id, as in `store/blocks/subjects.py`, and as long as the set or longer. A stream can have
millions of subjects, so nothing here makes an object for each.
"""

from __future__ import annotations

from array import array
from itertools import compress

from jetstream_server.kernels.record_format import Buffer, Ids


def mark(
    names: list[bytes], start: int, stop: int, patterns: tuple[bytes, ...], flags: bytearray
) -> None:
    """Set the flag of each of the names [start, stop) that one of the patterns matches.

    Args:
        names: subjects by id.
        flags: to be set; those of other names stay as they are.
    """
    wanted = [pattern.split(b".") for pattern in patterns]
    for number, name in enumerate(names[start:stop], start):
        given = name.split(b".")
        if b"" not in given and any(_matches(pattern, given) for pattern in wanted):
            flags[number] = 1


def mark_stored(names: Buffer, lengths: Ids, patterns: tuple[bytes, ...]) -> bytes:
    """Return the flags of names that stand one after the other, 1 where a pattern matches.

    Args:
        names: the subjects.
        lengths: unsigned 16-bit numbers, the length of each; together not more than `names`.
    """
    apart, at = [], 0
    for length in lengths:
        apart.append(bytes(names[at : at + length]))
        at += length
    flags = bytearray(len(apart))
    mark(apart, 0, len(apart), patterns, flags)
    return bytes(flags)


def _matches(pattern: list[bytes], given: list[bytes]) -> bool:
    """Tell whether the tokens of a pattern match those of a subject, as `core/subject.py` says."""
    for index, token in enumerate(pattern):
        if index == len(given):
            return False
        if token == b">":
            return True
        if token != b"*" and token != given[index]:
            return False
    return len(pattern) == len(given)


def total(flags: bytes | bytearray, counts: array[int]) -> int:
    """Return how many messages the subjects of a set have together."""
    return sum(compress(counts, flags))


def present(
    flags: bytes | bytearray, counts: array[int], lasts: array[int], low: int, high: int
) -> array[int]:
    """Return which subjects of a set have messages, and low <= `lasts` <= high: their ids,
    `array('I')`, rising."""
    numbers = compress(range(len(flags)), flags)
    return array("I", [n for n in numbers if counts[n] and low <= lasts[n] <= high])


def order(numbers: Ids, keys: array[int]) -> tuple[array[int], array[int]]:
    """Return subject ids, `array('I')`, in the order of their `keys`, and these keys, `array('Q')`,
    rising; ids with the same key stay in order."""
    ordered = array("I", sorted(numbers, key=keys.__getitem__))
    return ordered, array("Q", map(keys.__getitem__, ordered))


def rising(numbers: Ids, keys: array[int]) -> array[int]:
    """Return the `keys` of subject ids, `array('Q')`, rising, without saying whose each is."""
    return array("Q", sorted(map(keys.__getitem__, numbers)))


def lasts_of(flags: bytes | bytearray, counts: array[int], lasts: array[int]) -> array[int]:
    """Return the `lasts` of the subjects of a set that have messages, `array('Q')`, rising."""
    held = [last for flag, count, last in zip(flags, counts, lasts, strict=False) if flag and count]
    return array("Q", sorted(held))


def room(count: int) -> array[int]:
    """Return counters, `array('Q')`, for so many subjects; what they say is nothing yet."""
    return array("Q", bytes(8 * count))


def among(numbers: Ids, known: int) -> bytearray:
    """Return the flags of a set of subjects given by their ids, of `known` ids in all."""
    flags = bytearray(known)
    for number in numbers:
        flags[number] = 1
    return flags


def spread(flags: bytes | bytearray, numbers: Ids) -> bytes:
    """Return the flags of subjects given by their ids, in that order."""
    return bytes([flags[number] for number in numbers])


def newest(flags: bytes | bytearray, counts: array[int], lasts: array[int]) -> int:
    """Return which subject of a set with messages has the highest `lasts`, -1 if none has any."""
    best, found = -1, 0
    for number in compress(range(len(flags)), flags):
        if counts[number] and (best < 0 or lasts[number] > found):
            best, found = number, lasts[number]
    return best


def next_bound(
    flags: bytes | bytearray,
    counts: array[int],
    firsts: array[int],
    lasts: array[int],
    start: int,
) -> int:
    """Return a sequence, from `start` on, before which no message is of a subject of the set; 0
    when there is none at all from `start` on.

    Args:
        firsts, lasts: bounds: every message of the subject lies between them, both included.
    """
    found = 0
    for number in compress(range(len(flags)), flags):
        if counts[number] and lasts[number] >= start:
            bound = max(firsts[number], start)
            if not found or bound < found:
                found = bound
    return found
