"""WebSocket as a layer: an upgrade request and frames in, NATS protocol out.

Frames need not end where lines end. What a turn sends is one frame, or two where there is time to
compress a part of it only (`deflating.py`). Requests are `websocket_upgrade.py`'s, frames from
clients `websocket_frames.py`'s; frames to clients are the `websockets` library's, which works
without a socket.
"""

from __future__ import annotations

from websockets.extensions.permessage_deflate import PerMessageDeflate
from websockets.frames import Close, CloseCode, Frame, Opcode

from jetstream_server.net.deflating import Deflating
from jetstream_server.net.layer import LayerError
from jetstream_server.net.unwrapping import Unwrapping
from jetstream_server.net.websocket_frames import BrokenFrameError, FrameReader
from jetstream_server.net.websocket_upgrade import (
    RefusedUpgradeError,
    UpgradeRequest,
    WebsocketRules,
)

# Less is sent as it is.
COMPRESSED_BYTES_MIN = 64
# The quickest of zlib's, as in the genuine server: a megabyte of digits takes 6 ms instead of 27,
# one of words 8 instead of 20, and the words become a seventh larger.
_COMPRESSION = {"level": 1}
_CLOSE_CODES = {
    "Client Closed": CloseCode.NORMAL_CLOSURE,
    "Authentication Timeout": CloseCode.POLICY_VIOLATION,
    "Authentication Failure": CloseCode.POLICY_VIOLATION,
    "Authentication Expired": CloseCode.POLICY_VIOLATION,
    "Maximum Account Connections Exceeded": CloseCode.POLICY_VIOLATION,
    "Maximum Connections Exceeded": CloseCode.POLICY_VIOLATION,
    "Maximum Control Line Exceeded": CloseCode.POLICY_VIOLATION,
    "Maximum Subscriptions Exceeded": CloseCode.POLICY_VIOLATION,
    "Parse Error": CloseCode.PROTOCOL_ERROR,
    "Protocol Violation": CloseCode.PROTOCOL_ERROR,
    "Bad Client Protocol Version": CloseCode.PROTOCOL_ERROR,
    "Maximum Message Payload Exceeded": CloseCode.MESSAGE_TOO_BIG,
    "Server Shutdown": CloseCode.GOING_AWAY,
    "Stale Connection": CloseCode.GOING_AWAY,
}


class WebsocketLayer:
    """The server's side of one WebSocket connection.

    Args:
        rules: what is asked of a request.
        unwrapping: how many frames there is time for; None for all that come.
        deflating: how much there is time to compress; None for all that is sent.

    Attributes:
        credentials: fields of CONNECT, taken from cookies of the upgrade request.
    """

    def __init__(
        self,
        rules: WebsocketRules,
        unwrapping: Unwrapping | None = None,
        deflating: Deflating | None = None,
    ) -> None:
        self._unwrapping = unwrapping
        self._deflating = deflating or Deflating()
        self.credentials: dict[str, str] = {}
        self._rules = rules
        self._request: UpgradeRequest | None = UpgradeRequest(rules)
        self._frames: FrameReader | None = None
        self._extensions: list[PerMessageDeflate] = []
        self._broken: BrokenFrameError | None = None
        self._has_ended = False
        self._waiting: list[bytes | memoryview] = []
        self._leaving: list[bytes] = []

    @property
    def is_open(self) -> bool:
        """Return whether the connection is upgraded."""
        return self._frames is not None

    @property
    def is_over(self) -> bool:
        """Return whether the client has said goodbye."""
        return self._frames is not None and self._frames.goodbye is not None

    @property
    def is_holding(self) -> bool:
        """Return whether there is more to give although nothing arrives."""
        return self._frames is not None and self._broken is None and self._frames.is_holding

    def receive(self, data: bytes) -> bytes:
        """Take bytes of the request and of frames; return what the frames hold.

        Raises:
            LayerError: the request is refused, or a frame breaks the rules.
        """
        if self._frames is None:
            data = self._upgrade(data)
        if self._frames is None or self._broken is not None:
            return b""
        try:
            return self._frames.receive(data)
        except BrokenFrameError as error:
            self._broken = error
            raise LayerError("Read Error", f"websocket: {error}", error.received) from error
        finally:
            if answers := self._frames.take_answers():
                self._leaving.append(answers)

    def _upgrade(self, data: bytes) -> bytes:
        """Take bytes of the request; return what follows it."""
        if self._request is None:
            return b""  # it was refused
        try:
            upgrade = self._request.receive(data)
        except RefusedUpgradeError as refusal:
            self._request = None
            self._leaving.append(refusal.answer)
            text = f"websocket handshake error: {refusal}"
            raise LayerError("Protocol Violation", text) from refusal
        if upgrade is None:
            return b""
        self._request = None
        self._leaving.append(upgrade.answer)
        self.credentials = upgrade.credentials
        if upgrade.is_compressing:
            self._extensions.append(PerMessageDeflate(True, True, 15, 15, _COMPRESSION))
        inflated_max = self._rules.inflated_max if upgrade.is_compressing else None
        self._frames = FrameReader(inflated_max, self._unwrapping)
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            self.send(each)
        return upgrade.rest

    def send(self, data: bytes | memoryview) -> None:
        """Send bytes, or keep them until the connection is upgraded."""
        if self._frames is None:
            self._waiting.append(data)
        elif not self._has_ended:
            size, compressed = len(data), 0
            if self._extensions and size > COMPRESSED_BYTES_MIN:
                compressed = self._deflating.take(size)
            if compressed:
                self._add_frame(data[:compressed], self._extensions)
            if compressed < size:
                self._add_frame(data[compressed:], [])

    def _add_frame(self, data: bytes | memoryview, extensions: list[PerMessageDeflate]) -> None:
        frame = Frame(Opcode.BINARY, data)
        self._leaving.append(frame.serialize(mask=False, extensions=extensions))

    def end(self, reason: str) -> None:
        """Send a closing frame: the client's own, if it sent one."""
        if self._frames is None or self._has_ended:
            return
        self._has_ended = True
        if self._frames.goodbye is not None:
            data = self._frames.goodbye
        elif self._broken is not None:
            data = Close(self._broken.code, str(self._broken)).serialize()
        else:
            code = _CLOSE_CODES.get(reason, CloseCode.INTERNAL_ERROR)
            data = Close(code, reason).serialize()
        self._leaving.append(Frame(Opcode.CLOSE, data).serialize(mask=False))

    def take_output(self) -> bytes:
        """Return the bytes to send."""
        leaving, self._leaving = self._leaving, []
        return b"".join(leaving)
