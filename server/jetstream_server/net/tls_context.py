"""A `tls` block as an `ssl.SSLContext`, and what is asked of a client's certificate.

Names of cipher suites and curves are those of Go, as the genuine server's configuration has them;
suites of TLS 1.3 cannot be chosen, neither in Go nor in OpenSSL.
"""

from __future__ import annotations

import hashlib
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from jetstream_server.base.errors import ConfigError
from jetstream_server.config.options import TlsOptions

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, SubjectAlternativeName

_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_SUITES = {
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
}
_NAMES = {openssl: name for name, openssl in _SUITES.items()}
_OF_TLS_1_3 = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
)
_CURVES = {
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
    "X25519": "X25519",
}


def make_context(options: TlsOptions) -> ssl.SSLContext:
    """Return the context of a listener.

    Raises:
        ConfigError: a file cannot be read or is not what it should be, or a name is unknown.
    """
    if not options.cert_file:
        raise ConfigError("TLS Server certificate must be present and valid")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[options.min_version]
    what = "error parsing X509 certificate/key pair: "
    for file in (options.cert_file, options.key_file):
        _check_readable(file, what)
    try:
        context.load_cert_chain(options.cert_file, options.key_file)
    except ssl.SSLError as error:
        raise ConfigError(
            f"{what}{options.cert_file}, {options.key_file}: {_words(error)}"
        ) from error
    if options.ca_file:
        _check_readable(options.ca_file)
        try:
            context.load_verify_locations(options.ca_file)
        except ssl.SSLError as error:
            text = f"failed to parse root ca certificate {options.ca_file}: {_words(error)}"
            raise ConfigError(text) from error
    if verifies(options):
        if not options.ca_file:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        context.verify_mode = ssl.CERT_REQUIRED
    if options.cipher_suites:
        context.set_ciphers(":".join(_suites(options.cipher_suites)))
    if options.curve_preferences:
        context.set_ecdh_curve(_first_curve(options.curve_preferences))
    return context


def own_certificate(options: TlsOptions) -> bytes:
    """Return the certificate that a listener shows, in DER; empty where it cannot be read."""
    try:
        text = Path(options.cert_file).read_text("latin-1")
    except OSError:
        return b""  # `make_context` says what is wrong
    end = text.find(ssl.PEM_FOOTER)
    begin = text.rfind(ssl.PEM_HEADER, 0, end)
    if begin < 0 or end < 0:
        return b""
    return ssl.PEM_cert_to_DER_cert(text[begin : end + len(ssl.PEM_FOOTER)])


def verifies(options: TlsOptions) -> bool:
    """Tell whether clients need a certificate."""
    return options.is_verifying or options.is_mapping


def _suites(names: tuple[str, ...]) -> list[str]:
    unknown = [name for name in names if name not in _SUITES and name not in _OF_TLS_1_3]
    if unknown:
        raise ConfigError(f"unrecognized cipher {unknown[0]}")
    return [_SUITES[name] for name in names if name in _SUITES] or ["DEFAULT"]


def suite_name(openssl: str) -> str:
    """Return Go's name of a cipher suite, as `/connz` shows it."""
    return _NAMES.get(openssl, openssl)


def _first_curve(names: tuple[str, ...]) -> str:
    """Return OpenSSL's name of the most preferred curve; Python's `ssl` takes no list."""
    unknown = [name for name in names if name not in _CURVES]
    if unknown:
        raise ConfigError(f"unrecognized curve preference {unknown[0]}")
    return _CURVES[names[0]]


def is_pinned(certificate: bytes, pins: tuple[str, ...]) -> bool:
    """Tell whether a certificate (DER) has one of these keys: SHA-256 in hex of its SPKI."""
    if not certificate:
        return False
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = _parsed(certificate).public_key()
    spki = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(spki).hexdigest() in pins


def user_names(certificate: bytes) -> list[str]:
    """Return the names that a certificate (DER) may stand for, in the order they are tried.

    E-mail addresses, host names and URIs of the subject alternative name, then the subject as RFC
    2253 writes it, with and without its domain components.
    """
    from cryptography import x509

    parsed = _parsed(certificate)
    names: list[str] = []
    try:
        san: SubjectAlternativeName = parsed.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        ).value
    except x509.ExtensionNotFound:
        pass
    else:
        for kind in (x509.RFC822Name, x509.DNSName, x509.UniformResourceIdentifier):
            names.extend(san.get_values_for_type(kind))
    names.append(parsed.subject.rfc4514_string())
    names.append(x509.Name(reversed(parsed.subject.rdns)).rfc4514_string())
    return names


def _parsed(certificate: bytes) -> Certificate:
    # Imported here: few servers ask for certificates, and start sooner without the library.
    from cryptography.x509 import load_der_x509_certificate

    return load_der_x509_certificate(certificate)


def _check_readable(file: str, what: str = "") -> None:
    try:
        Path(file).open("rb").close()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"{what}open {file}: {reason}") from error


def _words(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()
