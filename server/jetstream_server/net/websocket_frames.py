"""WebSocket frames from a client, taken apart while they arrive.

What frames hold is handed on as it comes, so a frame may be as long as its sender likes and costs
no memory; a library that returns whole frames has to keep them, before anybody has logged in. What
is deflated is inflated slice by slice, and no further than a message may grow: if one kilobyte
inflates to a megabyte, or is a hundred thousand frames, others must not wait until all of that has
been acted on (`READ_BYTES`, `unwrapping.py`, beyond which the rest is held until it is asked for).

Texts of refusals are the genuine server's, where it gets to send them. Specification: RFC 6455,
chapter 5, RFC 7692; docs/reference/protocol.md#websocket.
"""

from __future__ import annotations

import zlib

from websockets.exceptions import ProtocolError
from websockets.frames import Close, CloseCode, Opcode

from jetstream_server.base.limits import TURN_READ_BYTES
from jetstream_server.net.unwrapping import BYTES_OF_STEP, INFLATED_BYTES_OF_STEP, Unwrapping

try:
    from websockets.speedups import apply_mask
except ImportError:  # pragma: no cover - a platform without the compiled half
    from websockets.utils import apply_mask

READ_BYTES = TURN_READ_BYTES
_SLICE_BYTES = 1 << 16
_CONTROL_BYTES_MAX = 125
_FINAL, _RSV1, _RSV2_3, _OPCODE, _MASKED, _LENGTH = 0x80, 0x40, 0x30, 0x0F, 0x80, 0x7F
_LENGTH_BYTES = {126: 2, 127: 8}
_MASK_BYTES = 4
_CONTROL = 0x8  # a bit of the opcode
# What a sender leaves out at the end of a message (RFC 7692, 7.2.2).
_TAIL = b"\x00\x00\xff\xff"
_OPCODES = frozenset(Opcode)


class BrokenFrameError(Exception):
    """The client broke the rules of frames.

    Attributes:
        code: the one with which the connection is closed.
        received: what came before it, for the layer above.
    """

    def __init__(self, code: CloseCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.received = b""


class FrameReader:
    """The frames of one client.

    Args:
        inflated_max: bytes that a compressed message may inflate to; None where nobody compresses.
        unwrapping: how many steps there is time for: heads of frames, pieces of payload, control
            frames; None for all that come.

    Attributes:
        is_holding: there is more to give although nothing arrives.
        goodbye: what the client's closing frame holds; what follows it is ignored.
    """

    def __init__(self, inflated_max: int | None, unwrapping: Unwrapping | None = None) -> None:
        self._unwrapping = unwrapping or Unwrapping()
        self.is_holding = False
        self.goodbye: bytes | None = None
        self._inflated_max = inflated_max
        self._arrived = bytearray()  # and not read yet
        self._answers = bytearray()  # frames that pings ask for
        self._is_in_message = False  # a message has begun whose last frame has not ended
        self._is_in_frame = self._is_final = False  # in its payload; in the message's last one
        self._left = 0  # bytes of the current frame's payload
        self._mask = b""  # of the current frame, beginning with the byte for what comes next
        self._inflater: zlib._Decompress | None = None  # while a compressed message goes on
        self._packed = b""  # what is to be inflated
        self._is_inflating = False  # there is more to inflate, though nothing arrives
        self._slice_bytes = _SLICE_BYTES  # to inflate at once
        self._inflatable = 0  # bytes by which the current message may still grow

    def take_answers(self) -> bytes:
        """Return the frames that pings ask for, since the last call."""
        answers = bytes(self._answers)
        self._answers.clear()
        return answers

    def receive(self, data: bytes) -> bytes:
        """Take bytes; return what frames hold, not much more than READ_BYTES at a time, nor that
        of many more frames than there is time for.

        Raises:
            BrokenFrameError: the client broke the rules; the reader is of no further use.
        """
        self._arrived += data
        pieces: list[bytes] = []
        size = steps = 0
        most = self._unwrapping.allowance
        self._slice_bytes = min(_SLICE_BYTES, most * INFLATED_BYTES_OF_STEP)
        self.is_holding = False
        try:
            while self.goodbye is None:
                bytes_of_step = INFLATED_BYTES_OF_STEP if self._is_inflating else BYTES_OF_STEP
                piece = self._next()
                if piece is None:
                    return b"".join(pieces)
                pieces.append(piece)
                size += len(piece)
                steps += 1 + len(piece) // bytes_of_step
                if size >= READ_BYTES or steps >= most:
                    self.is_holding = True
                    return b"".join(pieces)
        except BrokenFrameError as error:
            error.received = b"".join(pieces)
            raise
        finally:
            self._unwrapping.spend(steps)
        self._arrived.clear()
        return b"".join(pieces)

    def _next(self) -> bytes | None:
        """Go on by one step; return what it yields, None when more has to arrive."""
        if self._is_inflating:
            return self._inflate()
        if not self._is_in_frame:
            return self._begin()
        if not self._arrived:
            return None
        piece = self._unmasked(min(self._left, len(self._arrived)))
        self._left -= len(piece)
        if self._inflater is not None:
            self._packed += piece
            self._is_inflating = True
            piece = b""
        if not self._left:
            self._finish()
        return piece

    def _unmasked(self, size: int) -> bytes:
        piece = apply_mask(self._arrived[:size], self._mask)
        del self._arrived[:size]
        turn = size % _MASK_BYTES
        self._mask = self._mask[turn:] + self._mask[:turn]
        return piece

    def _begin(self) -> bytes | None:
        """Read the head of a frame, or all of a control frame."""
        arrived = self._arrived
        if len(arrived) < 2:
            return None
        first, second = arrived[0], arrived[1]
        opcode, length = first & _OPCODE, second & _LENGTH
        self._check(first, second)
        start = 2 + _LENGTH_BYTES.get(length, 0) + _MASK_BYTES
        is_control = bool(opcode & _CONTROL)
        if len(arrived) < start + (length if is_control else 0):
            return None
        if length in _LENGTH_BYTES:
            length = int.from_bytes(arrived[2 : start - _MASK_BYTES], "big")
            if length >> 63:
                raise _broken("frame length with its highest bit set")
        self._mask = bytes(arrived[start - _MASK_BYTES : start])
        del arrived[:start]
        if is_control:
            self._obey(opcode, self._unmasked(length))
            return b""
        if opcode != Opcode.CONT:
            self._is_in_message = True
            if first & _RSV1:
                self._inflater = zlib.decompressobj(wbits=-15)
                self._inflatable = self._inflated_max or 0
        self._is_in_frame, self._is_final, self._left = True, bool(first & _FINAL), length
        if not length:
            self._finish()
        return b""

    def _check(self, first: int, second: int) -> None:
        """Look at the first two bytes of a frame.

        Raises:
            BrokenFrameError: no client may send them now.
        """
        opcode, is_compressed = first & _OPCODE, bool(first & _RSV1)
        if not second & _MASKED:
            raise _broken("mask bit missing")
        if first & _RSV2_3:
            raise _broken("RSV2 and RSV3 must be clear")
        if opcode not in _OPCODES:
            raise _broken(f"unknown opcode {opcode}")
        if opcode & _CONTROL:
            if second & _LENGTH > _CONTROL_BYTES_MAX:
                limit = _CONTROL_BYTES_MAX
                raise _broken(f"control frame length bigger than maximum allowed of {limit} bytes")
            if not first & _FINAL:
                raise _broken("control frame does not have final bit set")
            if is_compressed:
                raise _broken("control frame must not be compressed")
        elif opcode == Opcode.CONT:
            if not self._is_in_message or is_compressed:
                raise _broken("invalid continuation frame")
        elif self._is_in_message:
            raise _broken(
                "new message started before final frame for previous message was received"
            )
        elif is_compressed and self._inflated_max is None:
            raise _broken("compressed frame received without negotiated permessage-deflate")

    def _obey(self, opcode: int, data: bytes) -> None:
        if opcode == Opcode.PING:
            self._answers += bytes((_FINAL | Opcode.PONG, len(data)))
            self._answers += data
        elif opcode == Opcode.CLOSE:
            try:
                Close.parse(data)
            except ProtocolError as error:
                raise _broken(str(error)) from error
            except UnicodeDecodeError as error:
                text = "invalid utf8 body in close frame"
                raise BrokenFrameError(CloseCode.INVALID_DATA, text) from error
            self.goodbye = data

    def _finish(self) -> None:
        """A frame is over, and maybe the message with it."""
        self._is_in_frame = False
        if self._is_final:
            self._is_in_message = False
            if self._inflater is not None:
                self._packed += _TAIL
                self._is_inflating = True

    def _inflate(self) -> bytes:
        """Return a slice of a compressed message."""
        inflater = self._inflater
        assert inflater is not None
        wanted = min(self._slice_bytes, self._inflatable + 1)  # one more tells that it is too much
        try:
            piece = inflater.decompress(self._packed, wanted)
        except zlib.error as error:
            raise BrokenFrameError(CloseCode.PROTOCOL_ERROR, "decompression failed") from error
        self._inflatable -= len(piece)
        if self._inflatable < 0:
            text = "maximum payload exceeded"
            raise BrokenFrameError(CloseCode.MESSAGE_TOO_BIG, text)
        # What follows the last block belongs to nobody.
        self._packed = b"" if inflater.eof else inflater.unconsumed_tail
        # A full slice may leave something inside, too.
        self._is_inflating = bool(self._packed) or (len(piece) == wanted and not inflater.eof)
        if not self._is_inflating and not self._is_in_message:
            self._inflater = None
        return piece


def _broken(text: str) -> BrokenFrameError:
    return BrokenFrameError(CloseCode.PROTOCOL_ERROR, text)
