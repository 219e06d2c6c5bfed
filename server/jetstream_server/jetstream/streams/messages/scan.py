"""Reading stored messages one after another: recovery, sweeps, batches of direct gets.

Goes through the store's windows, a block at a time, rather than looking up each message. Nothing
may be removed from the store meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from jetstream_server.kernels.record_format import PREFIX, PREFIX_BYTES
from jetstream_server.store.ports import MessageStore, StoredMessage, SubjectFilter, Window

WINDOW_MESSAGES = 4096
WINDOW_BYTES = 8 * 1024 * 1024


def stored(
    store: MessageStore, sequence: int, holding: bytes = b""
) -> Iterator[tuple[int, int, bytes, bytes]]:
    """Yield (sequence, timestamp, subject, headers) of the messages from `sequence` on.

    `holding` is the name of a header: whole windows in which it does not occur are passed over.
    Each message still has to be checked, as the name may occur in a neighbour or in a payload.
    """
    last = store.last_seq
    unpack = PREFIX.unpack_from
    while sequence <= last:
        if holding and (sequence := store.next_with_headers(sequence)) > last:
            return
        window = store.window(None, sequence, WINDOW_MESSAGES, WINDOW_BYTES)
        block = cast(bytes, window.buffer)
        sequence = window.next_seq
        if holding and not occurs(holding, window):
            continue
        for position, found in zip(window.positions, window.sequences, strict=True):
            _, _, _, timestamp, header_bytes, subject_bytes, _ = unpack(block, position)
            start = position + PREFIX_BYTES
            stop = start + subject_bytes
            headers = bytes(block[stop : stop + header_bytes]) if header_bytes else b""
            yield found, timestamp, bytes(block[start:stop]), headers


def windows_with_headers(store: MessageStore, sequence: int) -> Iterator[Window]:
    """Yield windows from `sequence` on, of stretches in which messages have headers."""
    last = store.last_seq
    while (sequence := store.next_with_headers(sequence)) <= last:
        window = store.window(None, sequence, WINDOW_MESSAGES, WINDOW_BYTES)
        sequence = window.next_seq
        yield window


def occurs(wanted: bytes, window: Window) -> bool:
    """Tell whether something occurs in the messages of a window, or between them."""
    if not window.positions:
        return False
    block = cast(bytes, window.buffer)
    last = window.positions[-1]
    stop = last + PREFIX.unpack_from(block, last)[0]
    if isinstance(window.buffer, memoryview):
        return wanted in bytes(block[window.positions[0] : stop])
    return block.find(wanted, window.positions[0], stop) >= 0


def headers_in(window: Window) -> Iterator[tuple[int, bytes]]:
    """Yield sequence and headers of the messages of a window that have any."""
    block, unpack = cast(bytes, window.buffer), PREFIX.unpack_from
    for position, found in zip(window.positions, window.sequences, strict=True):
        _, _, _, _, header_bytes, subject_bytes, _ = unpack(block, position)
        if header_bytes:
            start = position + PREFIX_BYTES + subject_bytes
            yield found, bytes(block[start : start + header_bytes])


def messages(
    store: MessageStore, wanted: SubjectFilter | None, sequence: int, count: int, bytes_max: int
) -> Iterator[StoredMessage]:
    """Yield up to `count` wanted messages from `sequence` on.

    `bytes_max` says how much the caller is likely to take, so that no more is read at a time.
    """
    last = store.last_seq
    window_bytes = min(max(bytes_max, 1), WINDOW_BYTES)
    while sequence <= last and count > 0:
        window = store.window(wanted, sequence, min(count, WINDOW_MESSAGES), window_bytes)
        yield from messages_in(window)
        count -= len(window)
        sequence = window.next_seq


def messages_in(window: Window) -> Iterator[StoredMessage]:
    """Yield the messages of a window."""
    block, unpack = cast(bytes, window.buffer), PREFIX.unpack_from
    for position, found in zip(window.positions, window.sequences, strict=True):
        length, _, _, timestamp, header_bytes, subject_bytes, _ = unpack(block, position)
        a = position + PREFIX_BYTES
        b = a + subject_bytes
        c = b + header_bytes
        yield StoredMessage(
            found,
            timestamp,
            bytes(block[a:b]),
            bytes(block[b:c]),
            bytes(block[c : position + length]),
        )
