"""A request to speak WebSocket, and the answer to it.

h11 takes HTTP apart. This is what a NATS server makes of it: any path will do, refusals are one
word and the reason is logged, cookies may stand for credentials, and the only known extension is
compression without memory from message to message (docs/reference/protocol.md#websocket). Lists in
headers may come in one line or in several. A cookie that cannot be read does not spoil the others.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import h11
from websockets.utils import accept_key

# Browsers send all the cookies that they have for a host.
HEAD_BYTES_MAX = 1 << 16

_PHRASES = {400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed"}
_TOO_LARGE = 431
_PHRASES[_TOO_LARGE] = "Request Header Fields Too Large"
_PORTS = {"http": "80", "https": "443"}
_ANSWER = (
    "HTTP/1.1 101 Switching Protocols\r\n"
    "Upgrade: websocket\r\n"
    "Connection: Upgrade\r\n"
    "Sec-WebSocket-Accept: {key}\r\n"
)
_DEFLATE = "permessage-deflate"
_COMPRESSING = (
    f"Sec-WebSocket-Extensions: {_DEFLATE};"
    " server_no_context_takeover; client_no_context_takeover\r\n"
)
# What is granted; and a limit on what clients send, which costs a server nothing.
_PARAMETERS = frozenset(
    ("server_no_context_takeover", "client_no_context_takeover", "client_max_window_bits")
)
# What a cookie's value may hold (RFC 6265, 4.1.1), and what others put into it all the same.
_VALUE_BYTES = frozenset(chr(byte) for byte in range(0x20, 0x7F)) - frozenset('";\\')


@dataclass(frozen=True, slots=True)
class WebsocketRules:
    """What a listener asks of upgrade requests, and adds to its answers.

    Attributes:
        is_secure: it is served over TLS.
        is_same_origin: a browser's page must come from this very host and port.
        allowed_origins: or it must come from one of these, such as `https://example.com`; empty for
            any.
        is_compressing: messages may be deflated, if the client can.
        inflated_max: bytes that one of them may inflate to.
        headers: sent with the upgrade.
        cookies: name of a cookie for each field of CONNECT that it stands for.
    """

    is_secure: bool = False
    is_same_origin: bool = False
    allowed_origins: tuple[str, ...] = ()
    is_compressing: bool = False
    inflated_max: int = 1 << 20
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Upgrade:
    """A request that was granted.

    Attributes:
        answer: to be sent.
        rest: what the client has sent after its request.
        is_compressing: both sides may deflate.
        credentials: fields of CONNECT, taken from cookies.
    """

    answer: bytes
    rest: bytes
    is_compressing: bool
    credentials: dict[str, str]


class RefusedUpgradeError(Exception):
    """A request was not granted; the text is the reason.

    Attributes:
        answer: to be sent before the connection is closed.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        body = f"{_PHRASES[status]}\n"
        self.answer = (
            f"HTTP/1.1 {status} {_PHRASES[status]}\r\n"
            "Content-Type: text/plain; charset=utf-8\r\n"
            "Sec-Websocket-Version: 13\r\n"
            "X-Content-Type-Options: nosniff\r\n"
            f"Content-Length: {len(body)}\r\n"
            f"Connection: close\r\n\r\n{body}"
        ).encode()


class UpgradeRequest:
    """A request while it arrives."""

    def __init__(self, rules: WebsocketRules) -> None:
        self._rules = rules
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._headers: dict[str, list[str]] = {}

    def receive(self, data: bytes) -> Upgrade | None:
        """Take bytes; return what is granted once the request is complete.

        Raises:
            RefusedUpgradeError: it is not a request, or is not granted.
        """
        if not data:
            return None  # h11 would take it for the end
        try:
            self._http.receive_data(data)
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            status = _TOO_LARGE if error.error_status_hint == _TOO_LARGE else 400
            raise RefusedUpgradeError(status, str(error)) from error
        if not isinstance(event, h11.Request):
            return None
        for name, value in event.headers:
            self._headers.setdefault(name.decode(), []).append(value.decode("latin-1"))
        self._check(event)
        key = accept_key(self._first("sec-websocket-key"))
        is_compressing = self._rules.is_compressing and self._offers_compression
        lines = _ANSWER.format(key=key) + (_COMPRESSING if is_compressing else "")
        lines += "".join(f"{name}: {value}\r\n" for name, value in self._rules.headers.items())
        rest, _ = self._http.trailing_data
        answer = f"{lines}\r\n".encode()
        return Upgrade(answer, rest, is_compressing, self._credentials())

    def _first(self, name: str) -> str:
        return self._headers.get(name, [""])[0]

    def _has(self, name: str, wanted: str) -> bool:
        """Tell whether a list in a header has a word."""
        words = ",".join(self._headers.get(name, ())).split(",")
        return wanted in (word.strip().lower() for word in words)

    @property
    def _offers_compression(self) -> bool:
        offers = ",".join(self._headers.get("sec-websocket-extensions", ())).split(",")
        return any(_is_deflate(offer) for offer in offers)

    def _check(self, request: h11.Request) -> None:
        """Look for a reason not to grant a request (RFC 6455, 4.2.1).

        Raises:
            RefusedUpgradeError: there is one.
        """
        if request.target.partition(b"?")[0].endswith(b"/mqtt"):
            raise RefusedUpgradeError(404, "mqtt websocket endpoint not enabled")
        if request.method != b"GET":
            raise RefusedUpgradeError(405, "request method must be GET")
        if not self._first("host"):
            raise RefusedUpgradeError(400, "missing required Host header")
        for name, wanted in (("Upgrade", "websocket"), ("Connection", "upgrade")):
            if not self._has(name.lower(), wanted):
                raise RefusedUpgradeError(400, f"invalid value for header '{name}'")
        key = self._first("sec-websocket-key")
        if not key:
            raise RefusedUpgradeError(400, "key missing")
        if not _is_key(key):
            raise RefusedUpgradeError(400, "invalid websocket key")
        if not self._has("sec-websocket-version", "13"):
            raise RefusedUpgradeError(400, "invalid version")
        if objection := self._objection():
            raise RefusedUpgradeError(403, f"origin not allowed: {objection}")

    def _objection(self) -> str:
        """Return what is wrong with where a browser's page comes from, or nothing."""
        rules = self._rules
        origin = self._first("origin") or self._first("sec-websocket-origin")
        if not origin or not (rules.is_same_origin or rules.allowed_origins):
            return ""
        try:
            asked = _place(origin)
            here = _place(f"{'https' if rules.is_secure else 'http'}://{self._first('host')}")
            allowed = [_place(each) for each in rules.allowed_origins]
        except ValueError as error:
            return str(error)
        if rules.is_same_origin and asked != here:
            return "not same origin"
        if allowed and asked not in allowed:
            return "not in the allowed list"
        return ""

    def _credentials(self) -> dict[str, str]:
        found: dict[str, str] = {}
        fields = {name: field for field, name in self._rules.cookies.items()}
        for line in self._headers.get("cookie", ()):
            for part in line.split(";"):
                name, _, value = part.partition("=")
                name, value = name.strip(), value.strip()
                if len(value) > 1 and value[0] == value[-1] == '"':
                    value = value[1:-1]
                if name in fields and _VALUE_BYTES.issuperset(value):
                    found[fields[name]] = value
        return found


def _is_deflate(offer: str) -> bool:
    """Tell whether an extension is compression, and asks for nothing that would be ignored."""
    name, *parameters = (part.strip().lower() for part in offer.split(";"))
    asked = {parameter.partition("=")[0].strip() for parameter in parameters}
    return name == _DEFLATE and asked <= _PARAMETERS


def _is_key(key: str) -> bool:
    """Tell whether a key is sixteen bytes in base64."""
    try:
        return len(base64.b64decode(key.encode(), validate=True)) == 16
    except (binascii.Error, UnicodeEncodeError):
        return False


def _place(origin: str) -> tuple[str, str, str]:
    """Return scheme, host and port as it is written; a scheme has its usual port."""
    parts = urlsplit(origin)
    if not parts.scheme or not parts.hostname:
        raise ValueError(f"invalid origin '{origin}'")
    port = parts.netloc.rpartition(":")[2] if parts.port else _PORTS.get(parts.scheme, "")
    return parts.scheme, parts.hostname, port
