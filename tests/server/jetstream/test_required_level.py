"""`Nats-Required-Api-Level`: which values pass."""

from __future__ import annotations

import pytest
from jetstream_server.base.errors import ApiError
from jetstream_server.jetstream.required_level import check_required_level


def block(value: bytes, key: bytes = b"Nats-Required-Api-Level") -> bytes:
    return b"NATS/1.0\r\n%b: %b\r\n\r\n" % (key, value)


@pytest.mark.parametrize(
    "value", [b"", b"0", b"4", b"+4", b" 4", b"04", b"-1", b"-9223372036854775808"]
)
def test_passes(value: bytes) -> None:
    check_required_level(block(value))


@pytest.mark.parametrize(
    "value", [b"5", b"x", b"4 ", b"0x4", b"1.0", b"9" * 500, b"-9223372036854775809"]
)
def test_refused(value: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        check_required_level(block(value))
    assert (caught.value.code, caught.value.err_code) == (412, 10185)


def test_the_name_is_case_sensitive_and_may_be_absent() -> None:
    check_required_level(block(b"9", b"nats-required-api-level"))
    check_required_level(b"")
