r"""The reference reader of publish acks: NumPy over the lines of a chunk.

A plain ack is two lines,

    MSG <reply prefix><row> <sid> <size>\r\n
    {"stream":"ORDERS", "seq":42}\r\n

and in a healthy write there is nothing else on the connection, so whole chunks are checked and
turned into row numbers at 0.1 us an ack. Whatever looks different in any way (an error, a
duplicate, a domain, a status line, a PING) stops the scan and is the caller's to read in full.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from jetstream_spark.kernels.arrow_to_wire_pure import ROW_DIGITS

_NEW_LINE, _RETURN, _BRACE, _ZERO = b"\n"[0], b"\r"[0], b"}"[0], b"0"[0]
_PLACES = 10 ** np.arange(ROW_DIGITS - 1, -1, -1, dtype=np.int64)
_NO_ROWS = np.empty(0, dtype=np.int64)


def take_pub_acks(
    chunk: bytes, start: int, reply_prefix: bytes, ack_heads: tuple[bytes, ...]
) -> tuple[npt.NDArray[np.int64], int]:
    """Return the rows of the plain acks from `start` on, and the position after the last of them.

    Args:
        chunk: bytes received; may end in the middle of an ack.
        start: where a frame begins.
        reply_prefix: what the reply subjects of this write share; a row number follows.
        ack_heads: the beginnings of an ack of the expected stream, up to the sequence, e.g.
            `{"stream":"ORDERS", "seq":`; servers differ in the blank after a comma.
    """
    head = b"MSG " + reply_prefix
    if not chunk.startswith(head, start):
        return _NO_ROWS, start
    ack_head = _ack_head(chunk, start, ack_heads)
    if not ack_head:
        return _NO_ROWS, start
    text = np.frombuffer(chunk, dtype=np.uint8)[start:]
    ends = np.flatnonzero(text == _NEW_LINE)
    ends = ends[: len(ends) // 2 * 2]
    line_starts = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
    msg_starts, ack_starts, ack_ends = line_starts[0::2], line_starts[1::2], ends[1::2]
    digits_start = msg_starts + len(head)
    fits = ack_starts - msg_starts > len(head) + ROW_DIGITS
    fits &= ack_ends - ack_starts > len(ack_head) + 2
    plain = int(np.argmin(fits)) if not fits.all() else len(fits)
    msg_starts, ack_starts, ack_ends = msg_starts[:plain], ack_starts[:plain], ack_ends[:plain]
    digits = text[digits_start[:plain, None] + np.arange(ROW_DIGITS)].astype(np.int64) - _ZERO
    good = _all_equal(text, msg_starts, head)
    good &= _all_equal(text, ack_starts, ack_head)
    good &= ((digits >= 0) & (digits <= 9)).all(axis=1)
    good &= (text[ack_ends - 1] == _RETURN) & (text[ack_ends - 2] == _BRACE)
    last_digit = text[ack_ends - 3]
    good &= (last_digit >= _ZERO) & (last_digit <= _ZERO + 9)
    taken = plain if good.all() else int(np.argmin(good))
    stop = start + int(ack_ends[taken - 1]) + 1 if taken else start
    return digits[:taken] @ _PLACES, stop


def _ack_head(chunk: bytes, start: int, ack_heads: tuple[bytes, ...]) -> bytes:
    line = chunk.find(b"\r\n", start) + 2
    return next((head for head in ack_heads if line > 1 and chunk.startswith(head, line)), b"")


def _all_equal(
    text: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], expected: bytes
) -> npt.NDArray[np.bool_]:
    wanted = np.frombuffer(expected, dtype=np.uint8)
    return (text[starts[:, None] + np.arange(len(wanted))] == wanted).all(axis=1)
