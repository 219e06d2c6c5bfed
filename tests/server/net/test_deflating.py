"""All clients together have what a turn has time to compress."""

from __future__ import annotations

from jetstream_server.net.deflating import BYTES_OF_FRAME, Deflating


def test_all_clients_share_what_a_turn_compresses() -> None:
    deflating = Deflating(100 + 2 * BYTES_OF_FRAME)
    assert deflating.take(70) == 70
    assert deflating.take(70) == 30
    assert deflating.take(70) == 0
    deflating.begin()
    assert deflating.take(1000 * BYTES_OF_FRAME) == 100 + BYTES_OF_FRAME
    assert deflating.take(1) == 0


def test_very_small_frames_count_as_more() -> None:
    deflating = Deflating(10 * BYTES_OF_FRAME)
    assert [deflating.take(1) for _ in range(11)] == [1] * 9 + [0, 0]


def test_nobody_waits_for_a_layer_of_its_own() -> None:
    assert Deflating().take(1 << 40) == 1 << 40


def test_a_turn_has_something_to_do_if_its_time_was_taken() -> None:
    deflating = Deflating(100 + BYTES_OF_FRAME)
    assert not deflating.is_used
    deflating.take(1)
    assert deflating.is_used
    deflating.begin()
    assert not deflating.is_used
