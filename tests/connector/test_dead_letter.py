"""Frames on their way to the dead-letter subject."""

from __future__ import annotations

from jetstream_spark.dead_letter import dead_letter_frame

ADDED = b"Dead-Letter-Subject: a.b\r\nDead-Letter-Reason: too large\r\n\r\n"


def test_a_frame_without_headers_gets_some() -> None:
    frame = dead_letter_frame(b"PUB a.b r.1 7\r\ndata\r\nx\r\n", b"dead", "too  large")
    block = b"NATS/1.0\r\n" + ADDED
    sizes = (len(block), len(block) + 7)
    assert frame == b"HPUB dead r.1 %d %d\r\n%bdata\r\nx\r\n" % (*sizes, block)


def test_headers_stay_except_what_was_expected_of_the_stream() -> None:
    kept = b"Nats-Msg-Id: 7\r\nTrace: 1\r\nTrace: 2\r\n"
    block = b"NATS/1.0\r\nNats-Expected-Stream: S\r\nNats-TTL: 9\r\n" + kept + b"\r\n"
    original = b"HPUB a.b r.1 %d %d\r\n%b\r\n" % (len(block), len(block), block)
    frame = dead_letter_frame(original, b"dead", "too large")
    block = b"NATS/1.0\r\n" + kept + ADDED
    assert frame == b"HPUB dead r.1 %d %d\r\n%b\r\n" % (len(block), len(block), block)
