"""WebSocket between bytes and bytes, against the client of the same library."""

from __future__ import annotations

import zlib
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jetstream_server.net.deflating import BYTES_OF_FRAME, Deflating
from jetstream_server.net.layer import LayerError
from jetstream_server.net.websocket_layer import WebsocketLayer
from jetstream_server.net.websocket_upgrade import WebsocketRules
from websockets.client import ClientProtocol
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory
from websockets.frames import Close, Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

KEY = "dGhlIHNhbXBsZSBub25jZQ=="


def client_of(**options: object) -> ClientProtocol:
    return ClientProtocol(parse_uri("ws://localhost:8080/"), max_size=None, **options)


def connected(
    rules: WebsocketRules, client: ClientProtocol, deflating: Deflating | None = None
) -> WebsocketLayer:
    layer = WebsocketLayer(rules, deflating=deflating)
    client.send_request(client.connect())
    assert layer.receive(b"".join(client.data_to_send())) == b""
    deliver(layer, client)
    assert client.state is State.OPEN
    return layer


def deliver(layer: WebsocketLayer, client: ClientProtocol) -> bytes:
    client.receive_data(layer.take_output())
    frames = [event for event in client.events_received() if isinstance(event, Frame)]
    return b"".join(bytes(frame.data) for frame in frames if frame.opcode is not Opcode.CLOSE)


def sent(client: ClientProtocol) -> bytes:
    return b"".join(client.data_to_send())


def request(*lines: str, first: str = "GET / HTTP/1.1") -> bytes:
    usual = [
        "Host: localhost:8080",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {KEY}",
        "Sec-WebSocket-Version: 13",
    ]
    given = {line.partition(":")[0] for line in lines}
    kept = [line for line in usual if line.partition(":")[0] not in given]
    kept += [line for line in lines if not line.endswith(": ")]
    return "\r\n".join([first, *kept, "", ""]).encode()


def refusal(rules: WebsocketRules, data: bytes) -> tuple[bytes, str]:
    """Return the status line and the reason of a refused request."""
    layer = WebsocketLayer(rules)
    with pytest.raises(LayerError) as refused:
        layer.receive(data)
    head, _, body = layer.take_output().partition(b"\r\n\r\n")
    status = head.split(b"\r\n")[0]
    assert body == status.split(b" ", 2)[2] + b"\n"
    assert b"Sec-Websocket-Version: 13" in head
    return status, str(refused.value)


def test_both_ways() -> None:
    client = client_of()
    layer = connected(WebsocketRules(), client)
    layer.send(b"INFO {} \r\n")
    assert deliver(layer, client) == b"INFO {} \r\n"
    client.send_binary(b"CONNECT {}\r\nPI")
    client.send_text(b"NG\r\n")
    assert layer.receive(sent(client)) == b"CONNECT {}\r\nPING\r\n"


def test_what_is_sent_early_waits_for_the_upgrade() -> None:
    layer, client = WebsocketLayer(WebsocketRules()), client_of()
    layer.send(b"INFO {} \r\n")
    client.send_request(client.connect())
    layer.receive(sent(client))
    assert deliver(layer, client) == b"INFO {} \r\n"


def test_the_answer_to_an_upgrade() -> None:
    layer = WebsocketLayer(WebsocketRules(headers={"X-Served-By": "us"}))
    layer.receive(request(first="GET /any/path HTTP/1.1"))
    lines = layer.take_output().decode().split("\r\n")
    assert lines[0] == "HTTP/1.1 101 Switching Protocols"
    assert sorted(line for line in lines[1:] if line) == [
        "Connection: Upgrade",
        "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
        "Upgrade: websocket",
        "X-Served-By: us",
    ]


def test_compression() -> None:
    client = client_of(extensions=[ClientPerMessageDeflateFactory()])
    layer = connected(WebsocketRules(is_compressing=True), client)
    layer.send(b"INFO {} \r\n" * 100)
    frame = layer.take_output()
    assert frame[0] == 0xC2 and len(frame) < 100
    client.receive_data(frame)
    (event,) = client.events_received()
    assert event.data == b"INFO {} \r\n" * 100
    client.send_binary(b"PING\r\n" * 100)
    assert layer.receive(sent(client)) == b"PING\r\n" * 100


@settings(max_examples=30)
@given(
    pieces=st.lists(st.binary(max_size=200), max_size=6),
    one_by_one=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_any_cuts(pieces: list[bytes], one_by_one: bool, seed: int) -> None:
    random = Random(seed)
    layer, client = WebsocketLayer(WebsocketRules()), client_of()
    client.send_request(client.connect())

    def feed(data: bytes) -> bytes:
        plain = b""
        while data:
            cut = 1 if one_by_one else random.randint(1, 60)
            plain += layer.receive(data[:cut])
            data = data[cut:]
        return plain

    assert feed(sent(client)) == b""
    deliver(layer, client)
    for number, piece in enumerate(pieces):
        client.send_binary(piece)
        if number % 2:
            client.send_ping(b"?")
    assert feed(sent(client)) == b"".join(pieces)


def test_pings_are_answered_and_fragments_joined() -> None:
    client = client_of()
    layer = connected(WebsocketRules(), client)
    client.send_ping(b"are you there")
    client.send_binary(b"PI", fin=False)
    client.send_continuation(b"NG\r\n", fin=True)
    assert layer.receive(sent(client)) == b"PING\r\n"
    client.receive_data(layer.take_output())
    (pong,) = client.events_received()
    assert (pong.opcode, pong.data) == (Opcode.PONG, b"are you there")


def test_goodbyes() -> None:
    client = client_of()
    layer = connected(WebsocketRules(), client)
    client.send_close(1000)
    layer.receive(sent(client))
    assert layer.is_over
    for reason, code in (("Authentication Failure", 1008), ("Server Shutdown", 1001), ("?", 1011)):
        other = client_of()
        layer = connected(WebsocketRules(), other)
        layer.end(reason)
        deliver(layer, other)
        assert other.close_rcvd == Close(code, reason)


@pytest.mark.parametrize(
    ("data", "status", "reason"),
    [
        (request("Host: "), b"400 Bad Request", "Missing mandatory Host: header"),
        (request("Upgrade: "), b"400 Bad Request", "Upgrade"),
        (request("Connection: close"), b"400 Bad Request", "Connection"),
        (request("Sec-WebSocket-Key: "), b"400 Bad Request", "key missing"),
        (request("Sec-WebSocket-Key: short"), b"400 Bad Request", "invalid websocket key"),
        (request("Sec-WebSocket-Version: 12"), b"400 Bad Request", "invalid version"),
        (request(first="POST / HTTP/1.1"), b"405 Method Not Allowed", "method must be GET"),
        (b"CONNECT {}\r\nPING\r\n\r\n", b"400 Bad Request", "illegal request line"),
        (b"\x16\x03\x01 and no request\r\n\r\n", b"400 Bad Request", ""),
    ],
)
def test_requests_that_are_refused(data: bytes, status: bytes, reason: str) -> None:
    line, why = refusal(WebsocketRules(), data)
    assert line == b"HTTP/1.1 " + status
    assert reason in why


def test_cookies_stand_for_credentials() -> None:
    rules = WebsocketRules(cookies={"user": "u", "pass": "p", "auth_token": "t"})
    layer = WebsocketLayer(rules)
    layer.receive(request("Cookie: u=derek; other=1; p=s3cret"))
    assert layer.credentials == {"user": "derek", "pass": "s3cret"}


def test_frames_that_break_the_rules() -> None:
    client = client_of()
    layer = connected(WebsocketRules(), client)
    client.send_binary(b"PING\r\n")
    with pytest.raises(LayerError) as refused:
        layer.receive(sent(client) + b"\x82\x05hello")  # not masked
    assert refused.value.reason == "Read Error"
    assert refused.value.received == b"PING\r\n"
    layer.send(b"PONG\r\n")  # what came before is answered
    layer.end("Read Error")
    layer.send(b"too late")
    layer.end("Read Error")
    assert deliver(layer, client) == b"PONG\r\n"
    assert client.close_rcvd == Close(1002, "mask bit missing")
    assert layer.receive(b"more") == b"" and not layer.is_holding


def test_frames_right_behind_the_request() -> None:
    client = client_of(extensions=[ClientPerMessageDeflateFactory()])
    layer = WebsocketLayer(WebsocketRules(is_compressing=True))
    client.send_request(client.connect())
    early = b"\x82\x86\0\0\0\0PING\r\n\x89\x80\0\0\0\0"
    assert layer.receive(sent(client) + early) == b"PING\r\n"
    layer.send(b"PONG\r\n")
    assert deliver(layer, client) == b"PONG\r\n"


def test_the_clients_goodbye_comes_back_after_what_it_asked_for() -> None:
    client = client_of()
    layer = connected(WebsocketRules(), client)
    client.send_binary(b"PING\r\n")
    client.send_close(4001, "enough")
    assert layer.receive(sent(client)) == b"PING\r\n"
    layer.send(b"PONG\r\n")
    layer.end("Client Closed")
    assert deliver(layer, client) == b"PONG\r\n"
    assert client.close_rcvd == Close(4001, "enough")


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("Client Closed", 1000),
        ("Server Shutdown", 1001),
        ("Stale Connection", 1001),
        ("Protocol Violation", 1002),
        ("Authentication Timeout", 1008),
        ("Maximum Connections Exceeded", 1008),
        ("Maximum Control Line Exceeded", 1008),
        ("Maximum Message Payload Exceeded", 1009),
    ],
)
def test_codes_of_goodbyes(reason: str, code: int) -> None:
    client = client_of()
    layer = connected(WebsocketRules(), client)
    layer.end(reason)
    deliver(layer, client)
    assert client.close_rcvd == Close(code, reason)


def test_little_is_not_compressed() -> None:
    client = client_of(extensions=[ClientPerMessageDeflateFactory()])
    layer = connected(WebsocketRules(is_compressing=True), client)
    layer.send(b"PONG\r\n")
    assert layer.take_output() == b"\x82\x06PONG\r\n"
    layer.send(bytes(65))
    assert layer.take_output()[0] == 0xC2


def test_what_is_compressed_keeps_others_waiting_as_briefly_as_can_be() -> None:
    client = client_of(extensions=[ClientPerMessageDeflateFactory()])
    layer = connected(WebsocketRules(is_compressing=True), client)
    digits = b",".join(b"%d" % n for n in range(100_000))
    encoder = zlib.compressobj(1, wbits=-15)
    quickest = encoder.compress(digits) + encoder.flush(zlib.Z_SYNC_FLUSH)
    layer.send(digits)
    frame = layer.take_output()
    assert frame[0] == 0xC2 and frame.endswith(quickest[:-4])


def test_what_there_is_no_time_to_compress_is_sent_as_it_is() -> None:
    deflating = Deflating(1000 + 2 * BYTES_OF_FRAME)
    clients = [client_of(extensions=[ClientPerMessageDeflateFactory()]) for _ in range(3)]
    rules = WebsocketRules(is_compressing=True)
    layers = [connected(rules, client, deflating) for client in clients]
    said = Random(1).randbytes(400)
    for _ in range(3):
        heads = []
        for layer, client in zip(layers, clients, strict=True):
            layer.send(said * 2)
            frames = layer.take_output()
            heads.append(frames[0])
            client.receive_data(frames)
            events = client.events_received()
            assert all(isinstance(each, Frame) for each in events)
            assert b"".join(bytes(each.data) for each in events) == said * 2
            assert len(events) == (2 if client is clients[1] else 1)
        assert heads == [0xC2, 0xC2, 0x82]
        deflating.begin()


@settings(max_examples=100)
@given(data=st.binary(min_size=1, max_size=400), is_open=st.booleans(), seed=st.integers(0, 9999))
def test_random_bytes(data: bytes, is_open: bool, seed: int) -> None:
    """Only `LayerError` comes out, and after it nothing."""
    random = Random(seed)
    layer = WebsocketLayer(WebsocketRules(is_compressing=True))
    if is_open:
        layer.receive(request("Sec-WebSocket-Extensions: permessage-deflate"))
    has_failed = False
    while data:
        cut = random.choice((1, random.randint(1, 40), len(data)))
        try:
            plain = layer.receive(data[:cut])
            assert not (has_failed and plain)
        except LayerError:
            assert not has_failed
            has_failed = True
        data = data[cut:]
    layer.send(b"PONG\r\n")
    layer.end("Client Closed")
    layer.take_output()
