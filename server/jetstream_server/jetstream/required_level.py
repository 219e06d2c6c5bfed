"""The header `Nats-Required-Api-Level`: a client asks for a server that is new enough."""

from __future__ import annotations

import re

from jetstream_server import API_LEVEL
from jetstream_server.jetstream import errors
from jetstream_server.protocol import headers

HEADER = b"Nats-Required-Api-Level"
_INTEGER = re.compile(rb"[+-]?[0-9]{1,19}")  # what fits 64 bits, as it is read there


def check_required_level(block: bytes) -> None:
    """Refuse a request that needs a newer server, or whose level is not a number.

    Raises:
        ApiError: 10185.
    """
    value = headers.get(block, HEADER) if block else None
    if not value:
        return
    if _INTEGER.fullmatch(value) is None or not -(2**63) <= int(value) <= API_LEVEL:
        raise errors.REQUIRED_API_LEVEL()
