"""The numbers in ack subjects: both forms, and what is none."""

from __future__ import annotations

import pytest
from jetstream_server.jetstream.origins.arrival import delivery_numbers
from jetstream_server.protocol.ops import PubRun


def run_of(*replies: bytes) -> PubRun:
    return PubRun.of([(b"a", reply, b"", b"") for reply in replies])


def test_the_numbers_of_a_stretch() -> None:
    run = run_of(b"$JS.ACK.O.C.1.5.1.900.9", b"$JS.ACK.O.C.1.7.2.950.8", b"$JS.ACK.O.C.1.8.3.990.7")
    assert delivery_numbers(run, 1, 3, b"C") == ([7, 8], [2, 3], [950, 990], 7)


def test_the_longer_form_has_domain_and_account_in_front() -> None:
    run = run_of(b"$JS.ACK.hub.HASH.O.C.1.5.1.900.9.token")
    assert delivery_numbers(run, 0, 1, b"C") == ([5], [1], [900], 9)


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"$JS.ACK.O.C.1.5.1",
        b"$JS.ACK.O.C.1.x.1.900.9",
        b"$JS.ACK.O.D.1.5.1.900.9",
        b"$JS.ACK.hub.HASH.O.D.1.5.1.900.9.token",
        b"$JS.ACK.O.C.1.5.1.900." + b"9" * 5000,
    ],
)
def test_what_is_no_ack_subject(reply: bytes) -> None:
    assert delivery_numbers(run_of(b"$JS.ACK.O.C.1.5.1.900.9", reply), 0, 2, b"C") is None
