"""The `websocket` block: what it may say, and mistakes in it."""

from __future__ import annotations

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.lexer import parse_text
from jetstream_server.config.load import options_of
from jetstream_server.config.options import TlsOptions, WebsocketOptions


def read(text: str) -> WebsocketOptions:
    made = options_of(parse_text(f"websocket {{ {text} }}", "n.conf")).websocket
    assert made is not None
    return made


def test_everything() -> None:
    made = read(
        'listen: "127.0.0.1:8080", compression: true, same_origin: true,'
        ' allowed_origins: ["http://a.com"], handshake_timeout: "5s", user_cookie: u,'
        ' pass_cookie: p, token_cookie: t, headers { "X-A": "b" },'
        ' tls { cert_file: "c.pem", key_file: "k.pem" }'
    )
    assert made == WebsocketOptions(
        host="127.0.0.1",
        port=8080,
        tls=TlsOptions(cert_file="c.pem", key_file="k.pem"),
        is_same_origin=True,
        allowed_origins=("http://a.com",),
        is_compressing=True,
        handshake_timeout_ns=5 * SECOND,
        user_cookie="u",
        password_cookie="p",
        token_cookie="t",
        headers={"X-A": "b"},
    )
    assert read("port: 1, no_tls: true").is_without_tls


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("headers: 5", "error parsing headers: unsupported type int64"),
        ("headers { a: 5 }", "error parsing header key a: unsupported type int64"),
        ("handshake_timeout: true", "error parsing handshake timeout: unsupported type bool"),
        ("tls { cert_file: c }", "missing 'key_file' in TLS configuration"),
        ("authorization { user: u }", "authorization of its own for WebSocket clients"),
    ],
)
def test_mistakes(text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(text)
    assert reason in str(refused.value)


def test_a_block_is_a_map() -> None:
    with pytest.raises(ConfigError, match="Expected websocket to be a map, got int64"):
        options_of(parse_text("websocket: 5", "n.conf"))
