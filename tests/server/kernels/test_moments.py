"""Times as header lines show them."""

from __future__ import annotations

import pytest
from jetstream_server.kernels.moments import time_text


@pytest.mark.parametrize(
    ("timestamp", "text"),
    [
        (0, b"1970-01-01T00:00:00Z"),
        (1, b"1970-01-01T00:00:00.000000001Z"),
        (-1, b"1969-12-31T23:59:59.999999999Z"),
        (1_700_000_000_120_000_000, b"2023-11-14T22:13:20.12Z"),
        (951_782_400_000_000_000, b"2000-02-29T00:00:00Z"),
        (-(2**63), b"1677-09-21T00:12:43.145224192Z"),
        (2**63 - 1, b"2262-04-11T23:47:16.854775807Z"),
        (4_107_542_399_000_000_010, b"2100-02-28T23:59:59.00000001Z"),
    ],
)
def test_time_text(timestamp: int, text: bytes) -> None:
    assert time_text(timestamp) == text
