"""Public nkeys: who holds which kind of key, and what was signed with it.

An nkey is a byte for its kind, the 32 bytes of an Ed25519 key and a CRC-16, in base32; its first
letter tells the kind. Secret keys are never seen here.
"""

from __future__ import annotations

import binascii
import re
from base64 import b32decode, urlsafe_b64decode

OPERATOR = "O"
ACCOUNT = "A"
USER = "U"

_KEY = re.compile(r"[A-Z2-7]{56}")


def is_public_key(text: str, *kinds: str) -> bool:
    """Tell whether this is a whole public nkey of one of these kinds."""
    if _KEY.fullmatch(text) is None or not text.startswith(kinds):
        return False
    raw = b32decode(text)
    return binascii.crc_hqx(raw[:-2], 0) == int.from_bytes(raw[-2:], "little")


def decoded(text: str) -> bytes:
    """Return what base64 stands for, in either alphabet and with or without padding.

    Raises:
        ValueError: it is not base64.
    """
    text = text.rstrip("=").replace("+", "-").replace("/", "_")
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def is_signed(key: str, signature: str, data: bytes) -> bool:
    """Tell whether a signature, in base64, of `data` was made with the secret of a public nkey."""
    # Imported here: most servers have no nkeys, and start sooner without the library.
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        raw = decoded(signature)
        public = b32decode(key)[1:33]
        Ed25519PublicKey.from_public_bytes(public).verify(raw, data)
    except (InvalidSignature, ValueError):
        return False
    return True
