"""Lengths told by arithmetic against frames that were really written."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.frame_lengths import FrameLengths
from benchmarks.numbered_frames import encoded_acks, encoded_deliveries

NEAR_POWERS = st.builds(
    lambda power, distance: max(0, 10**power + distance), st.integers(0, 6), st.integers(-150, 20)
)


@settings(max_examples=60, deadline=None)
@given(
    fixed_bytes=st.integers(1, 200),
    count=st.integers(1, 150),
    rising=st.lists(NEAR_POWERS, max_size=2),
    more=st.lists(NEAR_POWERS, max_size=2),
)
def test_offsets_and_counts_are_those_of_written_frames(
    fixed_bytes: int, count: int, rising: list[int], more: list[int]
) -> None:
    falling = [number + count - 1 for number in more]
    lengths = FrameLengths(fixed_bytes, count, rising=rising, falling=falling)
    written = 0
    for frame in range(count):
        assert lengths.offset(frame) == written
        assert lengths.whole(written) == frame
        numbers = [number + frame for number in rising] + [number - frame for number in falling]
        written += fixed_bytes + len("".join(map(str, numbers)))
        assert lengths.whole(written - 1) == frame
    assert lengths.offset(count) == written
    assert lengths.whole(written) == lengths.whole(written + 10_000) == count


def test_encoded_frames_are_found_by_their_numbers() -> None:
    count = 12_345
    acks = encoded_acks("C07", count)
    deliveries = encoded_deliveries("C00", b"load", count)
    for start, stop in ((0, 1), (8, 11), (998, 1_001), (2_344, 2_347), (12_344, count)):
        expected = [
            f"$JS.ACK.BENCH.C07.1.{n}.{n}.1700000000000000000.{count - n}"
            for n in range(start + 1, stop + 1)
        ]
        assert bytes(acks.between(start, stop)).decode() == "".join(
            f"PUB {reply} 0\r\n\r\n" for reply in expected
        )
        assert bytes(deliveries.between(start, stop)).decode() == "".join(
            f"MSG BENCH.0 1 {reply} 4\r\nload\r\n".replace("C07", "C00") for reply in expected
        )
    assert encoded_acks("C07", count) is acks
