"""Both layers are layers."""

from __future__ import annotations

from typing import Any

from jetstream_server.config.options import TlsOptions
from jetstream_server.net.layer import Layer, LayerError
from jetstream_server.net.tls_context import make_context
from jetstream_server.net.tls_layer import TlsLayer
from jetstream_server.net.websocket_layer import WebsocketLayer, WebsocketRules


def test_nothing_in_nothing_out(pki: Any) -> None:
    options = TlsOptions(cert_file=pki.cert("server"), key_file=pki.key("server"))
    layers: list[Layer] = [TlsLayer(make_context(options)), WebsocketLayer(WebsocketRules())]
    for layer in layers:
        assert layer.receive(b"") == b""
        layer.send(b"early")
        assert layer.take_output() == b""
        assert not layer.is_over
        layer.end("Server Shutdown")  # before there is anybody to say it to
        assert layer.take_output() == b""


def test_an_error_names_the_reason_of_the_end() -> None:
    error = LayerError("Read Error", "bad record")
    assert (error.reason, str(error)) == ("Read Error", "bad record")
