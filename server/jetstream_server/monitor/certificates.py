"""Certificates as monitoring shows them."""

from __future__ import annotations

import hashlib
from typing import Any

from jetstream_server.base.clock import SECOND
from jetstream_server.jetstream.wire.go_time import format_time


def not_after(certificate: bytes) -> str:
    """Return when a certificate (DER) ends; empty for none."""
    if not certificate:
        return ""
    # Imported here, and below: few servers have certificates, and start sooner without the library.
    from cryptography.x509 import load_der_x509_certificate

    ends = load_der_x509_certificate(certificate).not_valid_after_utc
    return format_time(int(ends.timestamp()) * SECOND)


def peer_certificates(chain: tuple[bytes, ...]) -> list[dict[str, Any]]:
    """Return what tells certificates (DER) of a client apart: subject and SHA-256 in hex."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
    from cryptography.x509 import load_der_x509_certificate

    told = []
    for certificate in chain:
        parsed = load_der_x509_certificate(certificate)
        key = parsed.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        told.append(
            {
                "subject": parsed.subject.rfc4514_string(),
                "spki_sha256": hashlib.sha256(key).hexdigest(),
                "cert_sha256": hashlib.sha256(certificate).hexdigest(),
            }
        )
    return told
