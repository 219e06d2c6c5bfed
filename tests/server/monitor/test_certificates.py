"""Certificates as monitoring shows them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from jetstream_server.config.options import TlsOptions
from jetstream_server.monitor.certificates import not_after, peer_certificates
from jetstream_server.net.tls_context import own_certificate


def test_when_a_certificate_ends(pki):
    assert not_after(pki.der("server")) == pki.not_after("server")
    assert not_after(b"") == ""


def test_what_tells_certificates_apart(pki):
    told = peer_certificates((pki.der("client"), pki.der("ca")))
    assert [each["subject"] for each in told] == ["CN=client,O=Example", "CN=Test CA"]
    assert [each["spki_sha256"] for each in told] == [pki.pin("client"), pki.pin("ca")]
    assert told[0]["cert_sha256"] == hashlib.sha256(pki.der("client")).hexdigest()
    assert peer_certificates(()) == []


def test_what_cannot_be_read_is_told_as_far_as_it_can_be(pki):
    garbled = pki.der("client")[:-300]
    assert not_after(garbled) == ""
    told = peer_certificates((garbled, pki.der("ca")))
    assert told[0] == {"cert_sha256": hashlib.sha256(garbled).hexdigest()}
    assert told[1]["subject"] == "CN=Test CA"


def test_the_first_certificate_of_a_file_is_the_listeners_own(pki, tmp_path):
    chain = tmp_path / "chain.pem"
    parts = (pki.cert("server"), pki.cert("ca"))
    chain.write_text("A comment.\n" + "".join(Path(part).read_text() for part in parts))
    assert own_certificate(TlsOptions(cert_file=str(chain))) == pki.der("server")


def test_a_file_without_a_certificate(pki, tmp_path):
    assert own_certificate(TlsOptions(cert_file=pki.key("server"))) == b""
    assert own_certificate(TlsOptions(cert_file=str(tmp_path / "none"))) == b""
