"""Requests for WebSocket: what is granted, what is refused, and what cookies stand for."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jetstream_server.net.websocket_upgrade import (
    HEAD_BYTES_MAX,
    RefusedUpgradeError,
    Upgrade,
    UpgradeRequest,
    WebsocketRules,
)

USUAL = {
    "Host": "localhost:8080",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}
OFFER = "Sec-WebSocket-Extensions"


def request(*more: str, first: str = "GET / HTTP/1.1", **given: str) -> bytes:
    """Return a request with headers replaced (`_` for `-`), left out when empty, or added."""
    replaced = {name.replace("_", "-"): value for name, value in given.items()}
    lines = [f"{name}: {value}" for name, value in (USUAL | replaced).items() if value]
    return "\r\n".join([first, *lines, *more, "", ""]).encode("latin-1")


def answered(data: bytes, rules: WebsocketRules | None = None) -> Upgrade:
    upgrade = UpgradeRequest(rules or WebsocketRules()).receive(data)
    assert upgrade is not None
    return upgrade


def refused(data: bytes, rules: WebsocketRules | None = None) -> tuple[int, str]:
    with pytest.raises(RefusedUpgradeError) as refusal:
        UpgradeRequest(rules or WebsocketRules()).receive(data)
    head, _, body = refusal.value.answer.decode().partition("\r\n\r\n")
    status = head.split("\r\n")[0].removeprefix("HTTP/1.1 ")
    assert body == status[4:] + "\n"
    return int(status[:3]), str(refusal.value)


def test_what_is_granted() -> None:
    upgrade = answered(request(), WebsocketRules(headers={"X-Served-By": "us"}))
    assert upgrade.answer == (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nX-Served-By: us\r\n\r\n"
    )
    assert not upgrade.is_compressing and not upgrade.credentials and not upgrade.rest


@pytest.mark.parametrize(
    "data",
    [
        request(first="GET /any/path?x=1 HTTP/1.1"),
        request(first="GET / HTTP/1.0"),
        request(Upgrade="WebSocket"),
        request(Upgrade="foo, websocket"),
        request("Upgrade: websocket", Upgrade="foo"),
        request(Connection="keep-alive, Upgrade"),
        request("Connection: upgrade", Connection="keep-alive"),
        request("Sec-WebSocket-Version: 8"),
        request("Content-Length: 0"),
        request("X: " + "a" * 20_000),
        request(*(f"X{number}: a" for number in range(200))),
        request().replace(b"\r\n", b"\n"),
    ],
)
def test_other_ways_to_ask(data: bytes) -> None:
    assert answered(data).answer.startswith(b"HTTP/1.1 101 ")


@pytest.mark.parametrize(
    ("data", "status", "reason"),
    [
        (request(Host=""), 400, "Host"),
        (request("Host: other"), 400, "Host"),
        (request(Upgrade=""), 400, "invalid value for header 'Upgrade'"),
        (request(Upgrade="h2c"), 400, "invalid value for header 'Upgrade'"),
        (request(Connection=""), 400, "invalid value for header 'Connection'"),
        (request(Connection="close"), 400, "invalid value for header 'Connection'"),
        (request(Sec_WebSocket_Key=""), 400, "key missing"),
        (request(Sec_WebSocket_Key="abc"), 400, "invalid websocket key"),
        (request(Sec_WebSocket_Key="!!!!IHNhbXBsZSBub25jZQ=="), 400, "invalid websocket key"),
        (request(Sec_WebSocket_Key="\xe9" * 24), 400, "invalid websocket key"),
        (request(Sec_WebSocket_Version=""), 400, "invalid version"),
        (request(Sec_WebSocket_Version="12"), 400, "invalid version"),
        (request(first="POST / HTTP/1.1"), 405, "request method must be GET"),
        (request(first="get / HTTP/1.1"), 405, "request method must be GET"),
        (request(first="FOO / HTTP/1.1"), 405, "request method must be GET"),
        (request(first="GET /mqtt HTTP/1.1"), 404, "mqtt websocket endpoint not enabled"),
        (request(first="GET HTTP/1.1"), 400, ""),
        (request("X y: a"), 400, ""),
        (request("no colon"), 400, ""),
        (b"CONNECT {}\r\nPING\r\n\r\n", 400, ""),
        (b"\x16\x03\x01\x00\x10 is no request\r\n\r\n", 400, ""),
        (request("X: " + "a" * HEAD_BYTES_MAX)[:-4], 431, ""),
        (b"GET /" + b"a" * HEAD_BYTES_MAX * 2, 431, ""),
    ],
)
def test_what_is_refused(data: bytes, status: int, reason: str) -> None:
    found, why = refused(data)
    assert found == status
    assert reason in why


def test_origins() -> None:
    same = WebsocketRules(is_same_origin=True)
    secure = WebsocketRules(is_same_origin=True, is_secure=True)
    listed = WebsocketRules(allowed_origins=("https://example.com", "http://localhost:3000"))
    for rules, origin in (
        (same, "http://localhost:8080"),
        (same, "http://LOCALHOST:8080"),
        (secure, "https://localhost:8080"),
        (listed, "https://example.com:443"),
        (listed, "http://localhost:3000"),
        (listed, ""),
        (WebsocketRules(), "http://anywhere"),
    ):
        answered(request(Origin=origin), rules)
    for rules, origin, reason in (
        (same, "https://localhost:8080", "not same origin"),
        (same, "http://localhost", "not same origin"),
        (same, "http://localhost:08080", "not same origin"),
        (listed, "http://example.com", "not in the allowed list"),
        (listed, "null", "invalid origin"),
        (listed, "http://[", ""),
        (listed, "http://a:99999", ""),
    ):
        assert refused(request(Origin=origin), rules)[0] == 403
        assert reason in refused(request(Origin=origin), rules)[1]
    twice = request("Origin: https://example.com", Origin="http://elsewhere")
    assert refused(twice, listed)[0] == 403  # the first one counts


@pytest.mark.parametrize(
    ("offer", "is_granted"),
    [
        ("permessage-deflate", True),
        ("permessage-deflate; client_max_window_bits", True),
        ("permessage-deflate; client_max_window_bits=10", True),
        ("permessage-deflate; server_no_context_takeover; client_no_context_takeover", True),
        ("foo, permessage-deflate", True),
        ("permessage-deflate; server_max_window_bits=10", False),  # it would be sent more
        ("permessage-deflate; server_max_window_bits=10, permessage-deflate", True),
        ("permessage-deflate; unheard_of", False),
        ("foo", False),
        (";;,=", False),
    ],
)
def test_compression(offer: str, is_granted: bool) -> None:
    data = request(f"{OFFER}: {offer}")
    upgrade = answered(data, WebsocketRules(is_compressing=True))
    assert upgrade.is_compressing is is_granted
    assert (OFFER.encode() in upgrade.answer) is is_granted
    assert not answered(data).is_compressing


@pytest.mark.parametrize(
    ("cookies", "found"),
    [
        (["u=derek; p=s3cret"], {"user": "derek", "pass": "s3cret"}),
        (["u=derek;p=s3cret"], {"user": "derek", "pass": "s3cret"}),
        (["  u=derek  ;   p=s3cret  "], {"user": "derek", "pass": "s3cret"}),
        (["u=derek", "p=s3cret"], {"user": "derek", "pass": "s3cret"}),
        (['u="derek"; p=a=b=='], {"user": "derek", "pass": "a=b=="}),
        (['x={"a":1}; u=derek; a[]=1; zzz; p=1'], {"user": "derek", "pass": "1"}),
        (["path=/; u=derek; expires=1; p=1"], {"user": "derek", "pass": "1"}),
        (["z=\xe9; u=derek"], {"user": "derek"}),
        (["u=\xe9; p=1"], {"pass": "1"}),
        (["u=a; u=b"], {"user": "b"}),
        ([""], {}),
        ([";;=;"], {}),
    ],
)
def test_cookies(cookies: list[str], found: dict[str, str]) -> None:
    rules = WebsocketRules(cookies={"user": "u", "pass": "p", "auth_token": "t"})
    data = request(*(f"Cookie: {cookie}" for cookie in cookies))
    assert answered(data, rules).credentials == found


@settings(max_examples=50)
@given(seed=st.integers(0, 1 << 32), rest=st.binary(max_size=50))
def test_any_cuts(seed: int, rest: bytes) -> None:
    random = Random(seed)
    data, upgrade, tail = request() + rest, None, b""
    reading = UpgradeRequest(WebsocketRules())
    while data and upgrade is None:
        cut = random.choice((1, random.randint(1, 60), len(data)))
        upgrade = reading.receive(data[:cut])
        assert reading.receive(b"") is None or upgrade is None
        data = data[cut:]
    tail = data
    assert upgrade is not None
    assert upgrade.rest + tail == rest  # frames may come right behind


@settings(max_examples=150)
@given(seed=st.integers(0, 1 << 32), changes=st.integers(0, 6))
def test_requests_that_went_wrong_somewhere(seed: int, changes: int) -> None:
    random = Random(seed)
    data = bytearray(request("Cookie: u=1", "Origin: http://a:1", f"{OFFER}: permessage-deflate"))
    for _ in range(changes):
        at = random.randrange(len(data))
        data[at : at + random.randint(0, 3)] = random.randbytes(random.randint(0, 3))
    rules = WebsocketRules(
        is_same_origin=True, is_compressing=True, cookies={"user": "u"}, allowed_origins=("x",)
    )
    reading = UpgradeRequest(rules)
    try:
        while data:
            cut = random.randint(1, 80)
            if reading.receive(bytes(data[:cut])) is not None:
                break
            del data[:cut]
    except RefusedUpgradeError as refusal:
        assert refusal.answer.startswith(b"HTTP/1.1 4")


@settings(max_examples=100)
@given(data=st.binary(min_size=1, max_size=300))
def test_random_bytes(data: bytes) -> None:
    reading = UpgradeRequest(WebsocketRules())
    try:
        assert reading.receive(data) is None
        assert reading.receive(b"\r\n\r\n" * 2) is None
    except RefusedUpgradeError as refusal:
        assert refusal.answer.startswith(b"HTTP/1.1 4")
