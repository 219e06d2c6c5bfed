"""Certificates as monitoring shows them."""

from __future__ import annotations

import hashlib
from typing import Any

from jetstream_server.base.clock import SECOND
from jetstream_server.jetstream.wire.go_time import format_time


def not_after(certificate: bytes) -> str:
    """Return when a certificate (DER) ends; empty for none, and for one that cannot be read."""
    if not certificate:
        return ""
    # Imported here, and below: few servers have certificates, and start sooner without the library.
    from cryptography.x509 import load_der_x509_certificate

    try:
        ends = load_der_x509_certificate(certificate).not_valid_after_utc
    except ValueError:  # OpenSSL takes more than this library does
        return ""
    return format_time(int(ends.timestamp()) * SECOND)


def peer_certificates(chain: tuple[bytes, ...]) -> list[dict[str, Any]]:
    """Return what tells certificates (DER) of a client apart: subject and SHA-256 in hex."""
    return [
        {**_contents(certificate), "cert_sha256": hashlib.sha256(certificate).hexdigest()}
        for certificate in chain
    ]


def _contents(certificate: bytes) -> dict[str, str]:
    """Return what a certificate says about itself; nothing for one that cannot be read."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
    from cryptography.x509 import load_der_x509_certificate

    try:
        parsed = load_der_x509_certificate(certificate)
        subject = parsed.subject.rfc4514_string()
        key = parsed.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    except (ValueError, UnsupportedAlgorithm):
        return {}
    return {"subject": subject, "spki_sha256": hashlib.sha256(key).hexdigest()}
