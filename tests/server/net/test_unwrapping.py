"""What a turn unwraps, of all clients together."""

from __future__ import annotations

import sys

from jetstream_server.net.unwrapping import RECORD_BYTES_MAX, STEPS_MIN, Unwrapping


def test_all_clients_share_a_turn_and_each_has_a_little_of_it() -> None:
    unwrapping = Unwrapping(100)
    assert unwrapping.allowance == 100
    unwrapping.spend(90)
    assert unwrapping.allowance == 10
    unwrapping.spend(8)
    assert unwrapping.allowance == STEPS_MIN
    unwrapping.spend(1000)
    assert unwrapping.allowance == STEPS_MIN
    unwrapping.begin()
    assert unwrapping.allowance == 100


def test_who_has_no_turns_has_no_bound() -> None:
    unwrapping = Unwrapping()
    unwrapping.spend(1 << 40)
    assert unwrapping.allowance > sys.maxsize // 2
    assert len(unwrapping.plain) == RECORD_BYTES_MAX
