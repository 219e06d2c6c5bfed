"""The receive buffer keeps its unread bytes through every move."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jetstream_spark.client.receive_buffer import ReceiveBuffer

steps = st.lists(
    st.tuples(
        st.sampled_from(["put", "take", "room", "grow"]), st.integers(0, 40), st.binary(max_size=20)
    ),
    max_size=30,
)


@given(steps)
def test_against_a_plain_byte_string(steps):
    buffer, expected = ReceiveBuffer(16), b""
    for verb, number, payload in steps:
        if verb == "put":
            payload = payload[: buffer.room]
            buffer.window()[: len(payload)] = payload
            buffer.stop += len(payload)
            expected += payload
        elif verb == "take":
            count = min(number, len(buffer))
            buffer.start += count
            expected = expected[count:]
        elif verb == "room":
            buffer.make_room(number)
            assert buffer.room >= number
        else:
            before = buffer.start, buffer.stop
            buffer.grow(number)
            assert (buffer.start, buffer.stop) == before
        assert bytes(buffer.data[buffer.start : buffer.stop]) == expected
        assert len(buffer) == len(expected)


def test_making_room_leaves_views_of_the_old_block_alone():
    buffer = ReceiveBuffer(8)
    buffer.window()[:8] = b"abcdefgh"
    buffer.stop = 8
    view = memoryview(buffer.data)
    buffer.make_room(4)
    assert bytes(view) == b"abcdefgh"
    assert len(buffer.data) == 16
