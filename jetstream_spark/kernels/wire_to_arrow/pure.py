r"""The reference kernel from frames to columns: NumPy finds the frames, Arrow copies the bytes.

    MSG <subject> <sid> <ack reply> <size>\r\n<payload>\r\n
    HMSG <subject> <sid> <ack reply> <header size> <size>\r\n<header block><payload>\r\n

The ack reply carries the metadata (ADR-15), in one of two forms:

    $JS.ACK.<stream>.<consumer>.<delivered>.<sequence>.<consumer sequence>.<time>.<pending>
    $JS.ACK.<domain>.<account>.<stream>.<consumer>.<delivered>.<sequence>...<pending>.<random>

Frames can only be found one after the other, because a payload may hold anything, also bytes that
look like frames. So every line end of the chunk is first judged as if it ended a header line; that
gives each candidate a successor; then the chain from the first frame is followed. All steps but
the last run over whole arrays, and the last is skipped when no candidate lies inside a payload.

No function keeps a view of `chunk`: its memory may be reused after the call.
"""

from __future__ import annotations

import contextlib
from array import array

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# Columns of `fields` (array('i')): positions in the chunk, STRIDE for each message. A message
# without headers has HEADER_START == PAYLOAD_START.
SUBJECT_START, SUBJECT_STOP, HEADER_START, PAYLOAD_START, PAYLOAD_STOP = range(5)
STRIDE = 5
# Columns of `numbers` (array('q')): from the ack reply, NUMBERS for each message. DELIVERED is the
# consumer's own sequence, which rises by one with each message; the time is in nanoseconds; PENDING
# is how many messages the consumer still has after this one.
SEQUENCE, DELIVERED, TIMESTAMP, PENDING = range(4)
NUMBERS = 4

Chunk = bytes | bytearray
_Positions = npt.NDArray[np.int64]
_Text = npt.NDArray[np.uint8]

_LF, _CR, _SPACE, _DOT, _ZERO = 10, 13, 32, 46, 48
_ACK = np.frombuffer(b"$JS.ACK.", dtype=np.uint8)
_MSG = np.frombuffer(b"MSG ", dtype=np.uint8)
_HMSG = np.frombuffer(b"HMSG ", dtype=np.uint8)
# The server's largest max_payload is 64 MiB: eight digits.
_SIZE_DIGITS = 9
_NUMBER_DIGITS = 19
# What is taken off both ends of a header value.
_BLANKS = " \t\n\v\f\r"


def scan_deliveries(
    chunk: Chunk, start: int, stop: int, sid: bytes, fields: array[int], numbers: array[int]
) -> int:
    """Append every complete message delivered to `sid`; return where the first other byte is.

    Never raises. Anything other than such a message ends the scan at the start of its line: an
    incomplete frame, another verb, another sid, a reply that is not an ack subject (a status
    message).

    Args:
        chunk: received bytes; a frame begins at `start`.
        stop: where the received bytes end.
    """
    text = np.frombuffer(chunk, dtype=np.uint8, count=stop - start, offset=start)
    frame_starts, ends, sizes = _frames(text)
    if not len(ends):
        return start
    # Everything else concerns the header lines only, so they are copied together: payloads are
    # most of the bytes, and looking for blanks and dots in them would be most of the work.
    lines, line_starts = _packed(text, frame_starts, ends)
    spaces = np.flatnonzero(lines == _SPACE)
    at = np.searchsorted(spaces, line_starts)
    space_count = np.diff(at)
    has_headers = space_count == 5
    good = (has_headers & _equal(lines, line_starts[:-1], _HMSG)) | (
        (space_count == 4) & _equal(lines, line_starts[:-1], _MSG)
    )
    taken = _prefix(good)
    if not taken:
        return start
    at, has_headers = at[:taken], has_headers[:taken]
    frame_starts, ends, sizes = frame_starts[:taken], ends[:taken], sizes[:taken]
    subject_starts, sid_starts, reply_starts = (spaces[at + column] + 1 for column in range(3))
    reply_stops = spaces[at + 3]
    good = (reply_starts - sid_starts - 1 == len(sid)) & _equal(
        lines, sid_starts, np.frombuffer(sid, dtype=np.uint8)
    )
    good &= (reply_stops - reply_starts > len(_ACK)) & _equal(lines, reply_starts, _ACK)
    good &= sid_starts - subject_starts > 1
    parsed, good = _reply_numbers(lines, reply_starts, reply_stops, good)
    header_sizes = np.zeros(taken, dtype=np.int64)
    if has_headers.any():
        tokens = spaces[at[has_headers] + 3] + 1, spaces[at[has_headers] + 4]
        header_sizes[has_headers] = _integers(lines, *tokens)
        good &= (header_sizes >= 0) & (header_sizes <= sizes)
    payload_stops = ends + 1 + sizes
    good &= (text[payload_stops] == _CR) & (text[payload_stops + 1] == _LF)
    taken = _prefix(good)
    if not taken:
        return start
    shift = start + frame_starts - line_starts[:-1][: len(frame_starts)]
    columns = (
        (subject_starts + shift)[:taken],
        (sid_starts - 1 + shift)[:taken],
        (start + ends + 1)[:taken],
        (start + ends + 1 + header_sizes)[:taken],
        (start + payload_stops)[:taken],
    )
    fields.frombytes(np.column_stack(columns).astype(np.intc).tobytes())
    numbers.frombytes(parsed[:taken].tobytes())
    return start + int(payload_stops[taken - 1]) + 2


def _packed(text: _Text, starts: _Positions, stops: _Positions) -> tuple[_Text, _Positions]:
    """The ranges copied one after the other, and where each begins (and the last ends)."""
    packed = _gather(text, starts, stops)
    _, offsets, values = packed.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int32, count=len(starts) + 1).astype(np.int64)
    return np.frombuffer(values, dtype=np.uint8), bounds


def _frames(text: _Text) -> tuple[_Positions, _Positions, _Positions]:
    """The complete frames from position 0: their starts, header line ends and sizes."""
    line_ends = np.flatnonzero(text == _LF)
    ends, sizes = _candidates(text, line_ends)
    following = ends + sizes + 3
    chosen = _chain(ends, following)
    chosen = chosen[: _prefix(following[chosen] <= len(text))]
    ends, sizes, following = ends[chosen], sizes[chosen], following[chosen]
    starts = np.concatenate((np.zeros(1, dtype=np.int64), following[:-1]))[: len(ends)]
    # A candidate is the header line of a frame only if the line begins where the frame does.
    taken = _prefix(line_ends[np.searchsorted(line_ends, starts)] == ends)
    return starts[:taken], ends[:taken], sizes[:taken]


def _candidates(text: _Text, line_ends: _Positions) -> tuple[_Positions, _Positions]:
    """Line ends that could end a header line, and the sizes that they would declare."""
    ends = line_ends[line_ends >= 3]
    ends = ends[(text[ends - 1] == _CR) & (text[ends - 2] - _ZERO <= 9)]
    sizes = np.zeros(len(ends), dtype=np.int64)
    is_number = np.ones(len(ends), dtype=bool)
    is_closed = np.zeros(len(ends), dtype=bool)
    for digit in range(_SIZE_DIGITS + 1):
        value = text[np.maximum(ends - 2 - digit, 0)]
        is_closed |= is_number & (value == _SPACE)
        is_number &= value - _ZERO <= 9  # Unsigned: everything below '0' wraps far above 9.
        if not is_number.any():
            break
        sizes += np.where(is_number, value - _ZERO, 0).astype(np.int64) * 10**digit
    return ends[is_closed], sizes[is_closed]


def _chain(ends: _Positions, following: _Positions) -> _Positions:
    """Which candidates lie on the way from the first: each is followed by the next after it."""
    count = len(ends)
    successors = np.searchsorted(ends, following)
    if bool((successors == np.arange(1, count + 1)).all()):
        return np.arange(count)
    links, chain, index = successors.tolist(), [], 0
    while index < count:
        chain.append(index)
        index = links[index]
    return np.array(chain, dtype=np.int64)


def _reply_numbers(
    text: _Text, starts: _Positions, stops: _Positions, good: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The four numbers in the ack replies, and which messages had all of them."""
    dots = np.flatnonzero(text == _DOT)
    at = np.searchsorted(dots, starts)
    dot_count = np.searchsorted(dots, stops) - at
    is_long = dot_count >= 10
    good = good & ((dot_count == 8) | is_long)
    taken = _prefix(good)
    numbers = np.zeros((len(starts), NUMBERS), dtype=np.int64)
    if taken:
        first = (at + np.where(is_long, 6, 4))[:taken]
        pending_stops = np.where(
            dot_count[:taken] >= 11, dots[np.minimum(first + 4, len(dots) - 1)], stops[:taken]
        )
        numbers[:taken, SEQUENCE] = _integers(text, dots[first] + 1, dots[first + 1])
        numbers[:taken, DELIVERED] = _integers(text, dots[first + 1] + 1, dots[first + 2])
        numbers[:taken, TIMESTAMP] = _integers(text, dots[first + 2] + 1, dots[first + 3])
        numbers[:taken, PENDING] = _integers(text, dots[first + 3] + 1, pending_stops)
        good &= (numbers >= 0).all(axis=1)
    return numbers, good


def _integers(text: _Text, starts: _Positions, stops: _Positions) -> _Positions:
    """The decimal numbers in these ranges; -1 for whatever is not one."""
    tokens = _gather(text, starts, stops)
    digits = np.frombuffer(tokens.buffers()[2] or b"", dtype=np.uint8)
    # Arrow also reads signs, hexadecimal digits and any number of leading zeros.
    if (
        len(starts)
        and int((stops - starts).max()) <= _NUMBER_DIGITS
        and (digits - _ZERO <= 9).all()
    ):
        with contextlib.suppress(pa.ArrowInvalid):
            return np.asarray(tokens.cast(pa.string()).cast(pa.int64()).to_numpy())
    values = (_integer(token) for token in tokens.to_pylist())
    return np.fromiter(values, dtype=np.int64, count=len(starts))


def _integer(token: bytes) -> int:
    is_number = token.isdigit() and len(token) <= _NUMBER_DIGITS
    return int(token) if is_number and int(token) < 2**63 else -1


def _equal(text: _Text, starts: _Positions, expected: _Text) -> npt.NDArray[np.bool_]:
    """Which of the positions `expected` stands at."""
    result = starts + len(expected) <= len(text)
    at = np.where(result, starts, 0)
    for offset, value in enumerate(expected):
        result &= text[np.minimum(at + offset, len(text) - 1)] == value
    return np.asarray(result)


def _prefix(good: npt.NDArray[np.bool_]) -> int:
    """How many of the first values are true."""
    return len(good) if bool(good.all()) else int(np.argmin(good))


def _gather(text: _Text | Chunk, starts: _Positions, stops: _Positions) -> pa.BinaryArray:
    """Copy the ascending, disjoint ranges of a buffer into one column.

    Seen as an array of consecutive values, ranges and the gaps between them alternate; taking every
    second value leaves the copying to Arrow.
    """
    count = len(starts)
    offsets = np.empty(2 * count, dtype=np.int32)
    offsets[0::2] = starts
    offsets[1::2] = stops
    alternating = pa.Array.from_buffers(
        pa.binary(), max(0, 2 * count - 1), [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    )
    return alternating.take(pa.array(np.arange(0, 2 * count, 2)))


def binary_column(
    chunk: Chunk, fields: array[int], start: int, stop: int, first: int, final: int
) -> pa.BinaryArray:
    """One column of bytes from the messages [start, stop), copied out of the chunk.

    Args:
        first, final: the columns of `fields` that bound the value, e.g. SUBJECT_START and
            SUBJECT_STOP.
    """
    table = np.frombuffer(fields, dtype=np.intc).reshape(-1, STRIDE)[start:stop].astype(np.int64)
    return _gather(chunk, table[:, first], table[:, final])


def ascii_column(
    chunk: Chunk, fields: array[int], start: int, stop: int, first: int, final: int
) -> pa.StringArray | None:
    """The same as text; None where not every byte is ASCII."""
    column = binary_column(chunk, fields, start, stop, first, final)
    data = column.buffers()[2]
    if data is not None and not bytes(data).isascii():
        return None
    return column.cast(pa.string())


def rising_by_one(numbers: array[int], start: int, column: int, before: int) -> int:
    """How many messages from `start` on have a value in a column that is one more than the one
    before.

    Args:
        column: of `numbers`, e.g. SEQUENCE.
        before: the value before the first message's.
    """
    values = np.array(numbers, dtype=np.int64).reshape(-1, NUMBERS)[start:, column]
    return _prefix(np.diff(values, prepend=before) == 1)


def header_column(chunk: Chunk, fields: array[int], start: int, stop: int) -> pa.MapArray:
    """The headers of the messages [start, stop) as map<string, list<string>>.

    Keys keep their order and case, repeated keys gather their values, a message without headers
    has an empty map. Bytes that are not UTF-8 become U+FFFD.
    """
    map_offsets, list_offsets = [0], [0]
    keys: list[str] = []
    values: list[str] = []
    table = np.frombuffer(fields, dtype=np.intc).reshape(-1, STRIDE)[start:stop]
    for first, final in table[:, HEADER_START : PAYLOAD_START + 1].tolist():
        if final > first:
            found: dict[str, list[str]] = {}
            block = bytes(chunk[first:final]).decode("utf-8", "replace")
            for line in block.split("\r\n")[1:]:
                key, separator, value = line.partition(":")
                if separator:
                    found.setdefault(key, []).append(value.strip(_BLANKS))
            for key, entries in found.items():
                keys.append(key)
                values += entries
                list_offsets.append(len(values))
        map_offsets.append(len(keys))
    lists = pa.ListArray.from_arrays(
        pa.array(list_offsets, pa.int32()),
        pa.array(values, pa.string()),
        type=pa.list_(pa.field("element", pa.string())),
    )
    return pa.MapArray.from_arrays(
        pa.array(map_offsets, pa.int32()), pa.array(keys, pa.string()), lists
    )
