"""Entries of the archive: there and back, in any cuts; nonsense is refused before it is awaited."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jetstream_server.jetstream.snapshots.archive import (
    END,
    MAGIC,
    ArchiveEntry,
    ArchiveError,
    ArchiveReader,
    encode_entry,
)

ENTRIES = st.builds(
    ArchiveEntry,
    st.binary(min_size=1, max_size=20),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**63 - 1),
    st.binary(max_size=30),
    st.binary(max_size=300),
)


def encoded(entry: ArchiveEntry) -> bytes:
    return encode_entry(
        entry.name,
        entry.timestamp,
        entry.payload,
        sequence=entry.sequence,
        headers=entry.headers,
    )


def read(pieces: list[bytes]) -> list[ArchiveEntry]:
    reader = ArchiveReader()
    found = []
    for piece in pieces:
        reader.feed(piece)
        while (entry := reader.next_entry()) is not None:
            found.append(entry)
    return found


@given(st.lists(ENTRIES, max_size=5), st.integers(1, 50))
def test_there_and_back_in_pieces(entries: list[ArchiveEntry], step: int) -> None:
    data = MAGIC + b"".join(map(encoded, entries)) + END
    expected = [*entries, ArchiveEntry(b"", 0, 0, b"", b"")]
    assert read([data]) == expected
    assert read([data[at : at + step] for at in range(0, len(data), step)]) == expected
    assert expected[-1].is_end and not any(entry.is_end for entry in entries)


def test_layout_is_that_of_the_genuine_server() -> None:
    # One record of a snapshot that nats-server 2.15.1 made.
    record = (
        bytes.fromhex("0392c08efcb7cd8bea310100 1b".replace(" ", "")) + b"s.0" + b"payload0 " * 3
    )
    assert read([MAGIC + record]) == [
        ArchiveEntry(b"s.0", 1795272921078419465, 1, b"", b"payload0 " * 3)
    ]
    assert encode_entry(b"s.0", 1795272921078419465, b"payload0 " * 3, sequence=1) == record


MESSAGE = encode_entry(b"a.b", 5, b"payload", sequence=7, headers=b"NATS/1.0\r\n\r\n")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "EOF"),
        (MAGIC, "EOF"),
        (MAGIC + MESSAGE, "EOF"),
        (MAGIC[:5], "unexpected EOF"),
        (MAGIC + MESSAGE[:3], "archive: invalid archive stream"),
        (
            MAGIC + MESSAGE[:-3],
            "failed to read message sequence 7: archive: invalid archive stream",
        ),
    ],
)
def test_what_is_missing_at_the_end(data: bytes, text: str) -> None:
    reader = ArchiveReader()
    reader.feed(data)
    while reader.next_entry() is not None:
        pass
    assert str(reader.end()) == text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"hello world", "archive/tar: invalid tar header"),
        (b"x" * 257 + b"ustar" + bytes(250), "the snapshot is a tar archive"),
        (MAGIC + b"\xff" * 11, "archive: invalid archive stream"),
        (MAGIC + b"\xff" * 9 + b"\x7f\0\0\0\0", "archive: invalid archive stream"),
        (MAGIC + b"\x80\x80\x80\x80\x04\x02\x01\0\x01", "archive: invalid archive stream"),
        (
            MAGIC + b"\x03\x02\x01\0\x80\x80\x80\x80\x80\x20",
            "message sequence 1 exceeds maximum payload size",
        ),
        (MAGIC + b"\x03\x02\0\x80\x80\x08\0", "archive: invalid archive stream"),
    ],
)
def test_nonsense_is_refused(data: bytes, text: str) -> None:
    with pytest.raises(ArchiveError, match=text):
        read([data])


@given(st.binary(max_size=60))
def test_any_bytes_are_entries_or_refused(data: bytes) -> None:
    with suppress(ArchiveError):
        read([MAGIC + data])
