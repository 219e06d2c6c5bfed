"""A `tls` block: files, versions, and who has to show a certificate.

What the files hold is checked when the listener is made (`net/tls_context.py`).
"""

from __future__ import annotations

from jetstream_server.base.clock import MILLISECOND
from jetstream_server.base.errors import ConfigError
from jetstream_server.config import values
from jetstream_server.config.lexer import Token
from jetstream_server.config.options import TlsOptions
from jetstream_server.config.values import error_at, expect, ignored, read_table, type_name


def read_tls(key: str, token: Token, errors: list[ConfigError]) -> TlsOptions:
    """Read the block; what is wrong inside goes to `errors`.

    Raises:
        ConfigError: it is not a block, or names a certificate without its key.
    """
    entries = values.mapping(key, token)
    unknown = 'error parsing tls config, unknown field "{}"'
    before = len(errors)
    given = read_table(entries, _TLS, errors, unknown)
    made = TlsOptions(**given)
    if len(errors) == before and bool(made.cert_file) != bool(made.key_file):
        missing = "key_file" if made.cert_file else "cert_file"
        raise error_at(token, f"missing '{missing}' in TLS configuration")
    return made


def _tls_file(key: str, token: Token) -> str:
    return expect(token, str, f"error parsing tls config, expected '{key}' to be filename")


def _tls_boolean(key: str, token: Token) -> bool:
    return expect(token, bool, f"error parsing tls config, expected '{key}' to be a boolean")


def _tls_names(key: str, token: Token) -> tuple[str, ...]:
    items = values.array(key, token)
    if not items:
        raise error_at(token, f"error parsing tls config, '{key}' cannot be empty")
    return tuple(values.string(key, item) for item in items)


def _tls_pins(key: str, token: Token) -> tuple[str, ...]:
    text = (
        f"error parsing tls config, expected '{key}' to be a list of hex-encoded sha256 of"
        " DER encoded SubjectPublicKeyInfo"
    )
    return tuple([values.string(key, item).lower() for item in expect(token, list, text)])


def _tls_handshake_first(key: str, token: Token) -> int:
    if not isinstance(token.value, bool | str):
        got = type_name(token.value)
        text = f'field "{key}" should be a boolean or a string, got {got}'
        raise error_at(token, text)
    if isinstance(token.value, bool):
        return -1 if token.value else 0
    if token.value.strip().lower() in _WORDS:
        return _WORDS[token.value.strip().lower()]
    try:
        return values.parse_duration(token.value)
    except ValueError:
        text = f'field "{key}"\'s value "{token.value}" is invalid'
        raise error_at(token, text) from None


def _tls_version(key: str, token: Token) -> str:
    version = expect(token, str, f"error parsing tls config: '{key}' wrong type: {{value}}")
    if version not in ("1.2", "1.3"):
        raise error_at(token, f"error parsing tls config: unknown version: {version}")
    return version


def _tls_rate(key: str, token: Token) -> int:
    if type(token.value) is not int:
        raise error_at(token, f"error parsing tls config, '{key}' wrong type")
    return token.value


_AUTO_NS = 50 * MILLISECOND
_WORDS = {"on": -1, "true": -1, "off": 0, "false": 0, "auto": _AUTO_NS}
_TLS: values.Table = {
    "cert_file": ("cert_file", _tls_file),
    "key_file": ("key_file", _tls_file),
    "ca_file": ("ca_file", _tls_file),
    "verify": ("is_verifying", _tls_boolean),
    "verify_and_map": ("is_mapping", _tls_boolean),
    "timeout": ("timeout_ns", values.seconds("tls")),
    "handshake_first": ("greets_after_ns", _tls_handshake_first),
    "first": ("greets_after_ns", _tls_handshake_first),
    "immediate": ("greets_after_ns", _tls_handshake_first),
    "min_version": ("min_version", _tls_version),
    "cipher_suites": ("cipher_suites", _tls_names),
    "curve_preferences": ("curve_preferences", _tls_names),
    "pinned_certs": ("pinned_certs", _tls_pins),
    "connection_rate_limit": ("", _tls_rate),
    "insecure": ("", _tls_boolean),
    "verify_cert_and_check_known_urls": ("", _tls_boolean),
    "ca_certs_match": ("", ignored),
    "certs": ("", ignored),
    "ocsp_peer": ("", ignored),
}
