"""Numbers in texts that come from outside."""

from __future__ import annotations

import pytest
from jetstream_server.base.digits import unsigned


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        (b"007", 7),
        (str(2**63 - 1), 2**63 - 1),
        (str(2**63), -1),
        (b"9" * 5000, -1),
        ("", -1),
        ("-1", -1),
        ("+1", -1),
        ("1_0", -1),
        (" 1", -1),
        ("\u00b2", -1),
        ("\u0663", -1),
        (b"\xb2", -1),
        ("1.0", -1),
    ],
)
def test_unsigned(text: bytes | str, number: int) -> None:
    assert unsigned(text) == number
