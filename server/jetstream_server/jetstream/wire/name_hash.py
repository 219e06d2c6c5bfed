"""A short name for something long, the same on every server.

Eight base-62 digits of the SHA-256: what the genuine server puts into the names of the consumers
that mirrors and sources make, and into ack subjects for an account.
"""

from __future__ import annotations

import hashlib

from jetstream_server.base.nuid import DIGITS

HASH_CHARACTERS = 8
_DIGIT_OF_BYTE = "".join(DIGITS[byte % len(DIGITS)] for byte in range(256)).encode()


def name_hash(text: str) -> str:
    """Return the short name of a text."""
    digest = hashlib.sha256(text.encode()).digest()
    return digest[:HASH_CHARACTERS].translate(_DIGIT_OF_BYTE).decode()
