"""A `tls` block as a context: files, versions, names, and what certificates say."""

from __future__ import annotations

import hashlib
import ssl
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509 import load_der_x509_certificate
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.options import TlsOptions
from jetstream_server.net.tls_context import is_pinned, make_context, user_names, verifies


def options_of(pki: Any, **more: Any) -> TlsOptions:
    return TlsOptions(cert_file=pki.cert("server"), key_file=pki.key("server"), **more)


def test_versions(pki: Any) -> None:
    assert make_context(options_of(pki)).minimum_version == ssl.TLSVersion.TLSv1_2
    newest = make_context(options_of(pki, min_version="1.3"))
    assert newest.minimum_version == ssl.TLSVersion.TLSv1_3


def test_clients_need_certificates_where_they_are_verified(pki: Any) -> None:
    assert make_context(options_of(pki)).verify_mode == ssl.CERT_NONE
    for more in ({"is_verifying": True}, {"is_mapping": True}):
        options = options_of(pki, ca_file=pki.cert("ca"), **more)
        assert verifies(options)
        assert make_context(options).verify_mode == ssl.CERT_REQUIRED


def test_cipher_suites(pki: Any) -> None:
    names = ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256")
    context = make_context(options_of(pki, cipher_suites=names))
    old = [each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"]
    assert old == ["ECDHE-ECDSA-AES128-GCM-SHA256"]
    with pytest.raises(ConfigError, match="unrecognized cipher TLS_NONE"):
        make_context(options_of(pki, cipher_suites=("TLS_NONE",)))


def test_curves(pki: Any) -> None:
    make_context(options_of(pki, curve_preferences=("CurveP384", "X25519")))
    with pytest.raises(ConfigError, match="unrecognized curve preference P1"):
        make_context(options_of(pki, curve_preferences=("P1",)))


def test_files_that_are_not_there_or_not_right(pki: Any) -> None:
    with pytest.raises(ConfigError, match=r"pair: open /no/cert.pem: no such file"):
        make_context(TlsOptions(cert_file="/no/cert.pem", key_file="/no/key.pem"))
    with pytest.raises(ConfigError, match=r"server.pem, .*client-key.pem: .*mismatch"):
        make_context(TlsOptions(cert_file=pki.cert("server"), key_file=pki.key("client")))
    with pytest.raises(ConfigError, match=r"^open /no/ca.pem: no such file"):
        make_context(options_of(pki, ca_file="/no/ca.pem"))
    with pytest.raises(ConfigError, match="certificate must be present"):
        make_context(TlsOptions())


def test_pins(pki: Any) -> None:
    key = load_der_x509_certificate(pki.der("client")).public_key()
    spki = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    pins = (hashlib.sha256(spki).hexdigest(),)
    assert is_pinned(pki.der("client"), pins)
    assert not is_pinned(pki.der("nameless"), pins)
    assert not is_pinned(b"", pins)


def test_names_of_users(pki: Any) -> None:
    assert user_names(pki.der("client"))[0] == "derek@nats.io"
    assert user_names(pki.der("server"))[0] == "localhost"
    assert user_names(pki.der("nameless")) == ["CN=Bob,O=Example", "O=Example,CN=Bob"]
