r"""The reference reader of publish acks: NumPy over the lines of a chunk.

A plain ack is two lines,

    MSG <reply prefix><row> <sid> <size>\r\n
    {"stream":"ORDERS", "seq":42}\r\n

and in a healthy write there is nothing else on the connection, so whole chunks are checked and
turned into row numbers and sequences at 0.1 us an ack. Whatever looks different in any way (an
error, a duplicate, a domain, a sequence of more than `SEQUENCE_DIGITS` digits, a status line, a
PING) stops the scan and is the caller's to read in full.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from jetstream_spark.kernels.arrow_to_wire.pure import ROW_DIGITS

_NEW_LINE, _RETURN, _BRACE, _ZERO = b"\n"[0], b"\r"[0], b"}"[0], b"0"[0]
# As many as an int64 holds whatever they are.
SEQUENCE_DIGITS = 18
_PLACES = 10 ** np.arange(ROW_DIGITS - 1, -1, -1, dtype=np.int64)
_NO_ROWS = np.empty(0, dtype=np.int64)


def take_pub_acks(
    data: bytes | bytearray, start: int, stop: int, reply_prefix: bytes, ack_head: bytes
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Return the rows and the sequences of the plain acks from `start` on, and the position after
    the last of them.

    Args:
        data: bytes received; may end, at `stop`, in the middle of an ack.
        start: where a frame begins.
        reply_prefix: what the reply subjects of this write share; a row number follows.
        ack_head: how an ack begins, up to the sequence, e.g. `{"stream":"ORDERS", "seq":`.
    """
    head = b"MSG " + reply_prefix
    text = np.frombuffer(data, dtype=np.uint8)[start:stop]
    ends = np.flatnonzero(text == _NEW_LINE)
    ends = ends[: len(ends) // 2 * 2]
    if not len(ends) or not data.startswith(head, start, stop):
        return _NO_ROWS, _NO_ROWS, start
    line_starts = np.concatenate(([0], ends[:-1] + 1))
    msg_starts, ack_starts, ack_ends = line_starts[0::2], line_starts[1::2], ends[1::2]
    fits = ack_starts - msg_starts > len(head) + ROW_DIGITS
    fits &= ack_ends - ack_starts > len(ack_head) + 2
    plain = _leading(fits)
    msg_starts, ack_starts, ack_ends = msg_starts[:plain], ack_starts[:plain], ack_ends[:plain]
    digits_at = msg_starts[:, None] + np.arange(len(head), len(head) + ROW_DIGITS)
    digits = text[digits_at].astype(np.int64) - _ZERO
    good = _all_equal(text, msg_starts, head)
    good &= _all_equal(text, ack_starts, ack_head)
    good &= ((digits >= 0) & (digits <= 9)).all(axis=1)
    good &= (text[ack_ends - 1] == _RETURN) & (text[ack_ends - 2] == _BRACE)
    lengths = ack_ends - 2 - (ack_starts + len(ack_head))
    good &= (lengths > 0) & (lengths <= SEQUENCE_DIGITS)
    # Nothing but digits between the head and the brace: no further field, such as a duplicate's.
    others = np.flatnonzero(text - _ZERO > 9)  # unsigned: everything below '0' wraps far above 9
    first_other = others[np.searchsorted(others, ack_starts + len(ack_head))]
    good &= first_other == ack_ends - 2
    taken = _leading(good)
    if not taken:
        return _NO_ROWS, _NO_ROWS, start
    sequences = _numbers(text, ack_starts[:taken] + len(ack_head), lengths[:taken])
    return digits[:taken] @ _PLACES, sequences, start + int(ack_ends[taken - 1]) + 1


def _numbers(
    text: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """The numbers whose digits begin at some places."""
    numbers = np.zeros(len(starts), dtype=np.int64)
    for place in range(int(lengths.max())):
        more = np.flatnonzero(lengths > place)
        numbers[more] = numbers[more] * 10 + (text[starts[more] + place].astype(np.int64) - _ZERO)
    return numbers


def _leading(flags: npt.NDArray[np.bool_]) -> int:
    """Count the true values before the first false one."""
    return len(flags) if flags.all() else int(np.argmin(flags))


def _all_equal(
    text: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], expected: bytes
) -> npt.NDArray[np.bool_]:
    wanted = np.frombuffer(expected, dtype=np.uint8)
    gathered = text[starts[:, None] + np.arange(len(wanted))]
    equal: npt.NDArray[np.bool_] = (gathered == wanted).all(axis=1)
    return equal
