"""The error families say what, where, and whose fault."""

from __future__ import annotations

import pytest
from jetstream_server.base.errors import (
    ApiError,
    ConfigError,
    JetStreamServerError,
    ProtocolError,
    StoreError,
)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ProtocolError("Stale Connection"), "Stale Connection"),
        (ProtocolError("", reason="Parse Error"), "Parse Error"),
        (ApiError(404, 10059, "stream not found"), "stream not found"),
        (
            StoreError("checksum mismatch", "/d/1.blk", 64),
            "checksum mismatch (/d/1.blk at byte 64)",
        ),
        (StoreError("cannot be read", "/d"), "cannot be read (/d)"),
        (StoreError("disk full"), "disk full"),
        (ConfigError("unknown field", "a.conf", 3, 5), "a.conf:3:5: unknown field"),
        (ConfigError("port in use"), "port in use"),
    ],
)
def test_texts(error, text):
    assert str(error) == text
    assert isinstance(error, JetStreamServerError)


def test_a_protocol_error_says_whether_it_ends_the_connection():
    assert ProtocolError("x").closes
    assert not ProtocolError("Invalid Subject", closes=False).closes
