"""The `tls` block: what it may say, and mistakes in it."""

from __future__ import annotations

import pytest
from jetstream_server.base.clock import MILLISECOND, SECOND
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.lexer import parse_text
from jetstream_server.config.load import options_of
from jetstream_server.config.options import TlsOptions


def read(text: str) -> TlsOptions:
    made = options_of(parse_text(f"tls {{ {text} }}", "n.conf")).tls
    assert made is not None
    return made


def test_everything() -> None:
    made = read(
        'cert_file: "c.pem", key_file: "k.pem", ca_file: "ca.pem", verify: true,'
        ' verify_and_map: true, timeout: 3, min_version: "1.3",'
        ' cipher_suites: ["A", "B"], curve_preferences: ["X25519"], pinned_certs: ["AB12"]'
    )
    assert made == TlsOptions(
        cert_file="c.pem",
        key_file="k.pem",
        ca_file="ca.pem",
        is_verifying=True,
        is_mapping=True,
        timeout_ns=3 * SECOND,
        min_version="1.3",
        cipher_suites=("A", "B"),
        curve_preferences=("X25519",),
        pinned_certs=("ab12",),
    )


@pytest.mark.parametrize(
    ("text", "greets_after_ns"),
    [
        ("true", -1),
        ("false", 0),
        ('"on"', -1),
        ('"off"', 0),
        ('"auto"', 50 * MILLISECOND),
        ('"300ms"', 300 * MILLISECOND),
    ],
)
def test_when_a_client_is_greeted(text: str, greets_after_ns: int) -> None:
    for key in ("handshake_first", "first", "immediate"):
        assert read(f"{key}: {text}").greets_after_ns == greets_after_ns


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("cert_file: c.pem", "missing 'key_file' in TLS configuration"),
        ("key_file: k.pem", "missing 'cert_file' in TLS configuration"),
        ('min_version: "1.1"', "unknown version: 1.1"),
        ("verify: 5", "expected 'verify' to be a boolean"),
        ("cipher_suites: []", "'cipher_suites' cannot be empty"),
        ('handshake_first: "50"', 'field "handshake_first"\'s value "50" is invalid'),
        ("nonsense: 1", 'unknown field "nonsense"'),
    ],
)
def test_mistakes(text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(text)
    assert str(refused.value).startswith("n.conf:1:")
    assert reason in str(refused.value)
