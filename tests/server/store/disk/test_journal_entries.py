"""Entries of a journal: what of a file is believed, and what is damage."""

from __future__ import annotations

from jetstream_server.store.disk.journal_entries import (
    CONTENT,
    ENTRIES_AT,
    FILE_GONE,
    beginning,
    encode,
    read,
)

FIRST = encode(2, ENTRIES_AT, CONTENT, b"a/meta.json", b"content")
SECOND = encode(3, ENTRIES_AT + len(FIRST), FILE_GONE, b"b/meta.json")
WHOLE = beginning(1) + FIRST + SECOND


def flipped(stored: bytes, at: int) -> bytes:
    return stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :]


def test_what_was_written_is_read() -> None:
    reading = read(WHOLE + bytes(100))
    assert (reading.begun, reading.stop, reading.highest) == (1, len(WHOLE), 3)
    assert not reading.damage
    first, second = reading.entries
    assert (first.serial, first.durable, first.kind) == (2, ENTRIES_AT, CONTENT)
    assert (first.path, first.raw, first.is_whole) == (b"a/meta.json", b"content", True)
    assert (second.kind, second.path, second.raw) == (FILE_GONE, b"b/meta.json", b"")


def test_nothing_is_read_of_nothing() -> None:
    for stored in (b"", bytes(1000), beginning(7)):
        assert read(stored).entries == []
        assert read(stored).damage == []
    assert read(beginning(7)).highest == 7


def test_a_tail_that_is_cut_anywhere_is_torn() -> None:
    for size in range(ENTRIES_AT, len(WHOLE)):
        reading = read(WHOLE[:size])
        assert reading.damage == []
        assert len(reading.entries) == (size >= ENTRIES_AT + len(FIRST))


def test_what_is_of_an_earlier_use_is_none() -> None:
    reading = read(beginning(5) + FIRST + SECOND)
    assert (reading.entries, reading.damage, reading.highest) == ([], [], 5)


def test_of_a_flush_that_was_torn_the_later_part_is_no_damage() -> None:
    later = encode(3, ENTRIES_AT, CONTENT, b"b/meta.json", b"x")  # with the first, in one write
    reading = read(flipped(beginning(1) + FIRST + later, ENTRIES_AT + 10))
    assert (reading.entries, reading.damage, reading.highest) == ([], [], 3)


def test_a_content_that_is_damaged_has_its_path_and_a_head_has_none() -> None:
    reading = read(flipped(WHOLE, ENTRIES_AT + len(FIRST) - 1))
    assert [each.is_whole for each in reading.entries] == [False, True]
    assert reading.damage == [ENTRIES_AT]
    assert reading.entries[0].path == b"a/meta.json"
    reading = read(flipped(WHOLE, ENTRIES_AT + len(FIRST) - 8))
    assert [each.path for each in reading.entries] == [b"b/meta.json"]
    assert reading.damage == [ENTRIES_AT]


def test_either_beginning_will_do() -> None:
    for at in (5, 70):
        assert len(read(flipped(WHOLE, at)).entries) == 2
    reading = read(flipped(flipped(WHOLE, 5), 70))
    assert (reading.entries, reading.damage) == ([], [0])
