"""Both layers are layers, and so are both together."""

from __future__ import annotations

from typing import Any

import pytest
from jetstream_server.config.options import TlsOptions
from jetstream_server.net.layer import Layer, LayerError, Stacked
from jetstream_server.net.tls_context import make_context
from jetstream_server.net.tls_layer import TlsLayer
from jetstream_server.net.websocket_layer import WebsocketLayer
from jetstream_server.net.websocket_upgrade import WebsocketRules


def layers(pki: Any) -> list[Layer]:
    context = make_context(TlsOptions(cert_file=pki.cert("server"), key_file=pki.key("server")))
    rules = WebsocketRules()
    stacked = Stacked(TlsLayer(context), WebsocketLayer(rules))
    return [TlsLayer(context), WebsocketLayer(rules), stacked]


def test_nothing_in_nothing_out(pki: Any) -> None:
    for layer in layers(pki):
        assert layer.receive(b"") == b""
        layer.send(b"early")
        assert layer.take_output() == b""
        assert not layer.is_over and not layer.is_holding
        layer.end("Server Shutdown")  # before there is anybody to say it to
        assert layer.take_output() == b""


def test_an_error_names_the_reason_of_the_end() -> None:
    error = LayerError("Read Error", "bad record", b"before it")
    assert (error.reason, str(error), error.received) == ("Read Error", "bad record", b"before it")


class Marks:
    """A layer that puts its mark on what goes through it."""

    def __init__(self, mark: bytes) -> None:
        self.mark = mark
        self.is_over = self.is_holding = False
        self.fails = False
        self.leaving = b""

    def receive(self, data: bytes) -> bytes:
        if self.fails:
            raise LayerError(f"Reason {self.mark.decode()}", "it fails", data + self.mark)
        return data + self.mark

    def send(self, data: bytes) -> None:
        self.leaving += data + self.mark

    def end(self, reason: str) -> None:
        self.leaving += b"bye" + self.mark

    def take_output(self) -> bytes:
        leaving, self.leaving = self.leaving, b""
        return leaving


def test_one_on_the_other() -> None:
    lower, upper = Marks(b"1"), Marks(b"2")
    both = Stacked(lower, upper)
    assert both.receive(b"up") == b"up12"
    both.send(b"down")
    assert both.take_output() == b"down21"
    upper.send(b"a pong")  # of its own accord
    assert both.take_output() == b"a pong21"
    both.end("Client Closed")
    assert both.take_output() == b"bye21bye1"
    upper.is_holding = lower.is_over = True
    assert both.is_holding and not both.is_over  # first comes what is held
    upper.is_holding = False
    assert both.is_over


@pytest.mark.parametrize("failing", [{1}, {2}, {1, 2}])
def test_what_came_before_a_failure_goes_through(failing: set[int]) -> None:
    lower, upper = Marks(b"1"), Marks(b"2")
    lower.fails, upper.fails = 1 in failing, 2 in failing
    with pytest.raises(LayerError) as failed:
        Stacked(lower, upper).receive(b"up")
    assert failed.value.received == b"up12"
    assert failed.value.reason == f"Reason {min(failing)}"
