"""WebSocket as a layer: an upgrade request and frames in, NATS protocol out.

Requests, frames, masking and compression are the `websockets` library's, which works without a
socket too. Here is what a NATS server makes of them: any path will do, frames need not end where
lines end, refusals are told in one word and the reason is logged, cookies may stand for credentials
(jetstream.md 1.10, checked-wire-consumers.md 1.10). What a turn sends is one frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from websockets.datastructures import Headers
from websockets.exceptions import InvalidHandshake
from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol

from jetstream_server.net.layer import LayerError

_FRAME_BYTES_MAX = 1 << 26
_PHRASES = {400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed"}
_METHODS = ("POST", "PUT", "HEAD", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT")
_PORTS = {"http": 80, "https": 443}
_DATA = (Opcode.BINARY, Opcode.TEXT, Opcode.CONT)
_CLOSE_CODES = {
    "Client Closed": CloseCode.NORMAL_CLOSURE,
    "Authentication Timeout": CloseCode.POLICY_VIOLATION,
    "Authentication Failure": CloseCode.POLICY_VIOLATION,
    "Authentication Expired": CloseCode.POLICY_VIOLATION,
    "Maximum Connections Exceeded": CloseCode.POLICY_VIOLATION,
    "Maximum Subscriptions Exceeded": CloseCode.POLICY_VIOLATION,
    "Parse Error": CloseCode.PROTOCOL_ERROR,
    "Protocol Violation": CloseCode.PROTOCOL_ERROR,
    "Bad Client Protocol Version": CloseCode.PROTOCOL_ERROR,
    "Maximum Message Payload Exceeded": CloseCode.MESSAGE_TOO_BIG,
    "Server Shutdown": CloseCode.GOING_AWAY,
}


@dataclass(frozen=True, slots=True)
class WebsocketRules:
    """What a listener asks of upgrade requests, and adds to its answers.

    Attributes:
        is_secure: it is served over TLS.
        is_same_origin: a browser's page must come from this very host and port.
        allowed_origins: or from one of these, such as `https://example.com`; empty for any.
        is_compressing: messages may be deflated, if the client can.
        headers: sent with the upgrade.
        cookies: name of a cookie for each field of CONNECT that it stands for.
    """

    is_secure: bool = False
    is_same_origin: bool = False
    allowed_origins: tuple[str, ...] = ()
    is_compressing: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: Mapping[str, str] = field(default_factory=dict)


class WebsocketLayer:
    """The server's side of one WebSocket connection.

    Attributes:
        credentials: fields of CONNECT that cookies of the upgrade request stand for.
    """

    def __init__(self, rules: WebsocketRules) -> None:
        deflate = ServerPerMessageDeflateFactory(
            server_no_context_takeover=True, client_no_context_takeover=True
        )
        self._rules = rules
        self._protocol = ServerProtocol(
            extensions=[deflate] if rules.is_compressing else None, max_size=_FRAME_BYTES_MAX
        )
        self._waiting: list[bytes] = []
        self._head = b""
        self._refusal = b""
        self.credentials: dict[str, str] = {}

    @property
    def is_open(self) -> bool:
        """Return whether the connection is upgraded."""
        return self._protocol.state is State.OPEN

    @property
    def is_over(self) -> bool:
        """Return whether the client has said goodbye."""
        return self._protocol.state in (State.CLOSING, State.CLOSED)

    def receive(self, data: bytes) -> bytes:
        """Take bytes of the request and of frames; return what the frames hold.

        Raises:
            LayerError: the request is refused, or a frame breaks the rules.
        """
        protocol = self._protocol
        if protocol.state is State.CONNECTING:
            self._check_method(data)
        protocol.receive_data(data)
        pieces: list[bytes] = []
        for event in protocol.events_received():
            if isinstance(event, Request):
                self._upgrade(event)
            elif isinstance(event, Frame) and event.opcode in _DATA:
                pieces.append(bytes(event.data))
        if protocol.handshake_exc is not None and protocol.state is State.CONNECTING:
            self._refuse(400, str(protocol.handshake_exc))
        if protocol.parser_exc is not None:
            raise LayerError("Protocol Violation", f"websocket: {protocol.parser_exc}")
        return b"".join(pieces)

    def _check_method(self, data: bytes) -> None:
        """Refuse a method that the library would only call malformed."""
        self._head = (self._head + data)[:8]
        method = self._head.partition(b" ")[0].decode("latin-1")
        if method in _METHODS and b" " in self._head:
            self._refuse(405, "request method must be GET")

    def _upgrade(self, request: Request) -> None:
        if reason := self._objection(request.headers):
            self._refuse(403 if reason.startswith("origin") else 400, reason)
        response = self._protocol.accept(request)
        if response.status_code != 101:
            self._refuse(400, _reason(self._protocol.handshake_exc))
        for unsent in ("Date", "Server"):
            if unsent in response.headers:
                del response.headers[unsent]
        for name, value in self._rules.headers.items():
            response.headers[name] = value
        self._protocol.send_response(response)
        self.credentials = self._from_cookies(request.headers)
        for data in self._waiting:
            self._protocol.send_binary(data)
        self._waiting.clear()

    def _objection(self, headers: Headers) -> str:
        """Return why a request is not welcome, or nothing."""
        rules = self._rules
        host = headers.get("Host", "")
        if not host:
            return "missing required Host header"
        origin = headers.get("Origin") or headers.get("Sec-Websocket-Origin") or ""
        if not origin or not (rules.is_same_origin or rules.allowed_origins):
            return ""
        try:
            asked = _place(origin)
            here = _place(f"{'https' if rules.is_secure else 'http'}://{host}")
            allowed = [_place(each) for each in rules.allowed_origins]
        except ValueError as error:
            return f"origin not allowed: {error}"
        if rules.is_same_origin and asked != here:
            return "origin not allowed: not same origin"
        if allowed and asked not in allowed:
            return "origin not allowed: not in the allowed list"
        return ""

    def _from_cookies(self, headers: Headers) -> dict[str, str]:
        cookies: SimpleCookie = SimpleCookie()
        for line in headers.get_all("Cookie"):
            try:
                cookies.load(line)
            except CookieError:
                continue
        wanted = self._rules.cookies.items()
        return {field: cookies[name].value for field, name in wanted if name in cookies}

    def _refuse(self, status: int, reason: str) -> None:
        """Answer a request with a refusal.

        Raises:
            LayerError: always.
        """
        body = f"{_PHRASES[status]}\n".encode()
        headers = Headers()
        headers["Content-Type"] = "text/plain; charset=utf-8"
        headers["Sec-Websocket-Version"] = "13"
        headers["X-Content-Type-Options"] = "nosniff"
        headers["Content-Length"] = str(len(body))
        headers["Connection"] = "close"
        self._refusal = Response(status, _PHRASES[status], headers, body).serialize()
        raise LayerError("Protocol Violation", f"websocket handshake error: {reason}")

    def send(self, data: bytes) -> None:
        """Send one frame, or keep it until the connection is upgraded."""
        if self._protocol.state is State.OPEN:
            self._protocol.send_binary(data)
        elif self._protocol.state is State.CONNECTING:
            self._waiting.append(data)

    def end(self, reason: str) -> None:
        """Send a closing frame."""
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(_CLOSE_CODES.get(reason, CloseCode.INTERNAL_ERROR), reason)

    def take_output(self) -> bytes:
        """Return the bytes to send."""
        refusal, self._refusal = self._refusal, b""
        return refusal or b"".join(self._protocol.data_to_send())


def _place(origin: str) -> tuple[str, str, int]:
    """Return scheme, host and port; a scheme has its usual port."""
    parts = urlsplit(origin)
    if not parts.scheme or not parts.hostname:
        raise ValueError(f"invalid origin '{origin}'")
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme, 0)


def _reason(error: Exception | None) -> str:
    return str(error) if isinstance(error, InvalidHandshake) else "request not understood"
