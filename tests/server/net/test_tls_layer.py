"""TLS between bytes and bytes: whole, byte by byte, in random cuts, and when it goes wrong."""

from __future__ import annotations

import ssl
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jetstream_server.config.options import TlsOptions
from jetstream_server.net.layer import LayerError
from jetstream_server.net.tls_context import make_context
from jetstream_server.net.tls_layer import FIRST_BYTE, TlsLayer
from jetstream_server.net.unwrapping import Unwrapping


class Client:
    """The other side, by Python's own library."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.arrived, self.leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.arrived, self.leaving, server_hostname="localhost")

    def shake_hands(self) -> bool:
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def read(self) -> bytes:
        pieces = b""
        try:
            while piece := self.tls.read(1 << 16):
                pieces += piece
        except ssl.SSLWantReadError:
            pass
        return pieces


def context_of(pki: Any, **more: Any) -> ssl.SSLContext:
    options = TlsOptions(cert_file=pki.cert("server"), key_file=pki.key("server"), **more)
    return make_context(options)


def connected(pki: Any, client: Client, layer: TlsLayer) -> None:
    for _ in range(4):
        client.shake_hands()
        assert layer.receive(client.leaving.read()) == b""
        client.arrived.write(layer.take_output())
    assert client.shake_hands()
    assert layer.is_established


def test_both_ways(pki: Any) -> None:
    client, layer = Client(pki.client_context()), TlsLayer(context_of(pki))
    assert (layer.version, layer.cipher_suite) == ("", "")
    connected(pki, client, layer)
    assert layer.version == "1.3"
    assert layer.cipher_suite.startswith("TLS_")
    layer.send(b"INFO {} \r\n")
    client.arrived.write(layer.take_output())
    assert client.read() == b"INFO {} \r\n"
    client.tls.write(b"PING\r\n" * 50_000)
    assert layer.receive(client.leaving.read()) == b"PING\r\n" * 50_000
    assert layer.peer_certificate == b""


def test_very_many_records_come_in_shares_of_what_a_turn_has_time_for(pki: Any) -> None:
    unwrapping = Unwrapping(100)
    client, layer = Client(pki.client_context()), TlsLayer(context_of(pki), unwrapping)
    connected(pki, client, layer)
    words = bytes(range(250))
    for at in range(len(words)):
        client.tls.write(words[at : at + 1])
    client.tls.write(b"x" * 16_000)
    unwrapping.begin()
    shares = [layer.receive(client.leaving.read())]
    while layer.is_holding:
        if len(shares) == 3:
            unwrapping.begin()
        shares.append(layer.receive(b""))
    # One turn, then the least twice, as it is over, and another turn.
    assert [len(share) for share in shares] == [100, 4, 4, 100, *[4] * 10, 2 + 16_000, 0]
    assert b"".join(shares) == words + b"x" * 16_000
    assert not layer.is_over


def test_what_has_failed_holds_nothing(pki: Any) -> None:
    """Or whoever asks for what is held would ask for ever."""
    unwrapping = Unwrapping(1)
    client, layer = Client(pki.client_context()), TlsLayer(context_of(pki), unwrapping)
    connected(pki, client, layer)
    for _ in range(20):
        client.tls.write(b"x")
    assert layer.receive(client.leaving.read()) and layer.is_holding

    class Broken:
        def write(self, data: bytes) -> None:
            raise ssl.SSLError("nothing can be sent")

    layer._tls = Broken()  # type: ignore[assignment]
    layer.send(b"PONG\r\n")
    assert layer.is_over
    assert layer.receive(b"") == b"" and not layer.is_holding


def test_what_is_sent_early_waits(pki: Any) -> None:
    client, layer = Client(pki.client_context()), TlsLayer(context_of(pki))
    layer.send(b"INFO ")
    layer.send(b"{} \r\n")
    assert layer.take_output() == b""
    connected(pki, client, layer)
    assert client.read() == b"INFO {} \r\n"


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), one_by_one=st.booleans())
def test_any_cuts(pki: Any, seed: int, one_by_one: bool) -> None:
    random = Random(seed)
    client, layer = Client(pki.client_context()), TlsLayer(context_of(pki))

    def feed(data: bytes) -> bytes:
        plain = b""
        while data:
            cut = 1 if one_by_one else random.randint(1, 400)
            plain += layer.receive(data[:cut])
            data = data[cut:]
        return plain

    for _ in range(4):
        client.shake_hands()
        assert feed(client.leaving.read()) == b""
        client.arrived.write(layer.take_output())
    client.tls.write(b"PUB a 5\r\nhello\r\n")
    assert feed(client.leaving.read()) == b"PUB a 5\r\nhello\r\n"


def test_a_handshake_begins_with_its_first_byte(pki: Any) -> None:
    client = Client(pki.client_context())
    client.shake_hands()
    assert client.leaving.read()[0] == FIRST_BYTE


def test_no_handshake(pki: Any) -> None:
    layer = TlsLayer(context_of(pki))
    with pytest.raises(LayerError) as refused:
        layer.receive(b"CONNECT {}\r\nPING\r\n")
    assert refused.value.reason == "TLS Handshake Failure"


def test_a_client_without_the_certificate_it_needs(pki: Any) -> None:
    context = context_of(pki, ca_file=pki.cert("ca"), is_verifying=True)
    client, layer = Client(pki.client_context()), TlsLayer(context)
    with pytest.raises(LayerError) as refused:
        connected(pki, client, layer)
    assert refused.value.reason == "TLS Handshake Failure"
    assert "certificate" in str(refused.value)
    assert layer.take_output()  # the alert that says so


def test_a_client_with_it(pki: Any) -> None:
    context = context_of(pki, ca_file=pki.cert("ca"), is_verifying=True)
    layer = TlsLayer(context)
    connected(pki, Client(pki.client_context("client")), layer)
    assert layer.peer_certificate == pki.der("client")


def test_a_damaged_record(pki: Any) -> None:
    client, layer = Client(pki.client_context()), TlsLayer(context_of(pki))
    connected(pki, client, layer)
    client.tls.write(b"PING\r\n")
    good = client.leaving.read()
    client.tls.write(b"PING\r\n")
    record = bytearray(client.leaving.read())
    record[-1] ^= 1
    with pytest.raises(LayerError) as refused:
        layer.receive(good + bytes(record))
    assert refused.value.reason == "Read Error"
    assert refused.value.received == b"PING\r\n"  # what came before still counts
    alert = layer.take_output()
    assert alert
    assert layer.receive(good) == b""
    layer.send(b"PONG\r\n")
    layer.end("Read Error")
    assert layer.take_output() == b""


def test_the_last_words_before_a_goodbye(pki: Any) -> None:
    client, layer = Client(pki.client_context()), TlsLayer(context_of(pki))
    connected(pki, client, layer)
    client.tls.write(b"PUB a 0\r\n\r\n")
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.unwrap()
    assert layer.receive(client.leaving.read()) == b"PUB a 0\r\n\r\n"
    assert layer.is_over


@settings(max_examples=60)
@given(data=st.binary(min_size=1, max_size=300), seed=st.integers(0, 9999), at=st.integers(0, 600))
def test_random_bytes(pki: Any, data: bytes, seed: int, at: int) -> None:
    """Only `LayerError` comes out, and once: at the start, in a handshake, or behind it."""
    random = Random(seed)
    client, layer = Client(pki.client_context()), TlsLayer(context_of(pki))
    how = random.randrange(4)
    if how == 0:
        data = bytes([FIRST_BYTE, 3, 1]) + data
    elif how == 1:
        client.shake_hands()
        hello = client.leaving.read()
        data = hello[:at] + data + hello[at:]
    elif how == 2:
        connected(pki, client, layer)
    failures = 0
    while data:
        cut = random.choice((1, random.randint(1, 60), len(data)))
        try:
            assert layer.receive(data[:cut]) == b""
        except LayerError:
            failures += 1
        data = data[cut:]
    assert failures <= 1
    layer.send(b"INFO {} \r\n")
    layer.end("Client Closed")
    layer.take_output()


def test_goodbyes(pki: Any) -> None:
    client, layer = Client(pki.client_context()), TlsLayer(context_of(pki))
    connected(pki, client, layer)
    layer.end("Client Closed")
    client.arrived.write(layer.take_output())
    assert client.tls.read(1) == b""  # an orderly end
    other, layer = Client(pki.client_context()), TlsLayer(context_of(pki))
    connected(pki, other, layer)
    with pytest.raises(ssl.SSLWantReadError):
        other.tls.unwrap()
    assert layer.receive(other.leaving.read()) == b""
    assert layer.is_over
