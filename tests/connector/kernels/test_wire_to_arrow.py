"""The wire kernel: any cut of the bytes gives the same messages, and bad bytes end the scan."""

from __future__ import annotations

import random
from array import array

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetstream_spark.kernels.wire_to_arrow import pure as wire_to_arrow_pure


class Twin:
    """The functions of one twin beside the layout they share."""

    def __init__(self, functions) -> None:
        self._functions = functions

    def __getattr__(self, name: str):
        return getattr(self._functions, name, None) or getattr(wire_to_arrow_pure, name)


@pytest.fixture(scope="module")
def kernel(twins) -> Twin:
    return Twin(twins.load("jetstream_spark.kernels.wire_to_arrow"))


SID = b"7"


def reply(sequence: int, delivered: int, timestamp: int, pending: int, style: str = "short"):
    tail = b"1.%d.%d.%d.%d" % (sequence, delivered, timestamp, pending)
    return {
        "short": b"$JS.ACK.ORDERS.c." + tail,
        "long": b"$JS.ACK._.hash.ORDERS.c." + tail,
        "random": b"$JS.ACK.hub.hash.ORDERS.c." + tail + b".xYz",
    }[style]


def frame(subject: bytes, ack: bytes, payload: bytes, headers: bytes = b"", sid: bytes = SID):
    if headers:
        sizes = b"%d %d" % (len(headers), len(headers) + len(payload))
        return b"HMSG %b %b %b %b\r\n%b%b\r\n" % (subject, sid, ack, sizes, headers, payload)
    return b"MSG %b %b %b %d\r\n%b\r\n" % (subject, sid, ack, len(payload), payload)


# Payloads that imitate the protocol, beside any others.
payloads = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [
            b"",
            b"\r\n",
            b"MSG a 7 $JS.ACK.ORDERS.c.1.1.1.1.1 5\r\nhello\r\n",
            b"x 5\r\n",
            b" 99\r\nHMSG",
            b"PING\r\n",
            b"...... ....\r\n 12\r\n 0\r\n",
        ]
    ),
)
blocks = st.sampled_from([b"", b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nA: 1\r\nA: 2\r\nb:x y \r\n\r\n"])
messages = st.lists(
    st.tuples(
        st.sampled_from([b"a", b"orders.eu.1", "straße.7".encode()]),
        payloads,
        blocks,
        st.sampled_from(["short", "long", "random"]),
    ),
    max_size=12,
)


def encoded(items) -> bytes:
    return b"".join(
        frame(subject, reply(5 + i, 1 + i, 1795270504684123456 + i, 99 - i, style), body, block)
        for i, (subject, body, block, style) in enumerate(items)
    )


def scanned(kernel, chunk: bytes, cuts: list[int]):
    """Scan a buffer that grows by the cuts; also how far the scan came."""
    fields, numbers, position = array("i"), array("q"), 0
    for stop in [*sorted(cuts), len(chunk)]:
        if stop > position:
            position = kernel.scan_deliveries(chunk, position, stop, SID, fields, numbers)
    return position, fields, numbers


def rows(kernel, chunk, fields, numbers):
    count = len(numbers) // kernel.NUMBERS
    subjects = kernel.binary_column(
        chunk, fields, 0, count, kernel.SUBJECT_START, kernel.SUBJECT_STOP
    )
    data = kernel.binary_column(chunk, fields, 0, count, kernel.PAYLOAD_START, kernel.PAYLOAD_STOP)
    block = kernel.binary_column(chunk, fields, 0, count, kernel.HEADER_START, kernel.PAYLOAD_START)
    table = [tuple(numbers[i : i + kernel.NUMBERS]) for i in range(0, len(numbers), kernel.NUMBERS)]
    return list(zip(subjects.to_pylist(), data.to_pylist(), block.to_pylist(), table, strict=True))


@settings(max_examples=120, deadline=None)
@given(items=messages, data=st.data())
def test_any_cut_gives_the_same_messages(kernel, items, data):
    chunk = encoded(items)
    cuts = data.draw(st.lists(st.integers(0, len(chunk)), max_size=8))
    position, fields, numbers = scanned(kernel, chunk, cuts)
    assert position == len(chunk)
    assert rows(kernel, chunk, fields, numbers) == [
        (subject, body, block, (5 + i, 1 + i, 1795270504684123456 + i, 99 - i))
        for i, (subject, body, block, _) in enumerate(items)
    ]


def test_byte_by_byte(kernel):
    chunk = encoded(
        [(b"a", b"MSG x\r\n 3\r\n", b"", "short"), (b"b", b"", b"NATS/1.0\r\nK: v\r\n\r\n", "long")]
    )
    _, fields, numbers = scanned(kernel, chunk, list(range(len(chunk))))
    assert [row[0] for row in rows(kernel, chunk, fields, numbers)] == [b"a", b"b"]


@settings(max_examples=200, deadline=None)
@given(good=messages, junk=st.binary(max_size=60), seed=st.integers(0, 1000))
def test_whatever_follows_ends_the_scan_and_never_raises(kernel, good, junk, seed):
    chunk = bytearray(encoded(good) + junk)
    generator = random.Random(seed)
    for _ in range(seed % 4):
        if chunk:
            chunk[generator.randrange(len(chunk))] = generator.randrange(256)
    fields, numbers = array("i"), array("q")
    position = kernel.scan_deliveries(chunk, 0, len(chunk), SID, fields, numbers)
    assert 0 <= position <= len(chunk)
    assert len(fields) // kernel.STRIDE == len(numbers) // kernel.NUMBERS
    rows(kernel, chunk, fields, numbers)


GOOD = frame(b"a", reply(1, 1, 2, 3), b"hello")


@pytest.mark.parametrize(
    "other",
    [
        b"PING\r\n",
        b"+OK\r\n",
        b"-ERR 'Slow Consumer'\r\n",
        b"INFO {}\r\n",
        frame(b"a", reply(1, 1, 2, 3), b"of another", sid=b"8"),
        frame(b"a", reply(1, 1, 2, 3), b"of another", sid=b"77"),
        b"MSG a 7 5\r\nhello\r\n",
        b"MSG a 7 reply.to 5\r\nhello\r\n",
        b"HMSG _INBOX.1 7 28 28\r\nNATS/1.0 404 No Messages\r\n\r\n\r\n",
        b"MSG a 7 $JS.ACK.S.c.1.x.1.1.1 5\r\nhello\r\n",
        b"MSG a 7 $JS.ACK.S.c.1.1.1.1.-4 5\r\nhello\r\n",
        b"MSG a 7 $JS.ACK.S.c.1.1.1.1 5\r\nhello\r\n",
        b"MSG a 7 $JS.ACK.S.c.1.1.1.1.1 5\r\nhelloX\r\n",
        b"MSG a 7 $JS.ACK.S.c.1.1.1.1.1 6\r\nhello\r\n",
        b"MSG a 7 $JS.ACK.S.c.1.1.1.1.1 99999999999999999999\r\nhello\r\n",
        b"HMSG a 7 $JS.ACK.S.c.1.1.1.1.1 9 5\r\nhello\r\n",
        b"\r\n",
        b"MSG a 7 $JS.ACK.S.c.1.1.1.1.1 5",
    ],
)
def test_anything_else_stops_the_scan_at_its_line(kernel, other):
    for before in (0, 1, 3):
        chunk = GOOD * before + other + GOOD
        fields, numbers = array("i"), array("q")
        position = kernel.scan_deliveries(chunk, 0, len(chunk), SID, fields, numbers)
        assert position == before * len(GOOD)
        assert len(numbers) == before * kernel.NUMBERS


def test_positions_count_from_the_start_of_the_chunk(kernel):
    chunk = b"PING\r\n" + GOOD + b"rest"
    fields, numbers = array("i"), array("q")
    assert kernel.scan_deliveries(chunk, 6, len(chunk), SID, fields, numbers) == 6 + len(GOOD)
    assert rows(kernel, chunk, fields, numbers) == [(b"a", b"hello", b"", (1, 1, 2, 3))]


def test_columns_of_a_part_do_not_depend_on_the_buffer(kernel):
    chunk = bytearray(encoded([(b"a", b"%d" % i, b"", "short") for i in range(10)]))
    fields, numbers = array("i"), array("q")
    kernel.scan_deliveries(chunk, 0, len(chunk), SID, fields, numbers)
    column = kernel.binary_column(chunk, fields, 3, 6, kernel.PAYLOAD_START, kernel.PAYLOAD_STOP)
    chunk[:] = b"\0" * len(chunk)
    assert column.to_pylist() == [b"3", b"4", b"5"]
    column.validate(full=True)


@pytest.mark.parametrize("subjects", [[], ["a"], ["a", "orders.eu.1", ""], ["~", "a.b"]])
def test_ascii_is_text_as_it_is(kernel, subjects):
    chunk, fields = side_by_side([subject.encode() for subject in subjects])
    column = kernel.ascii_column(chunk, fields, 0, len(subjects), 0, 1)
    assert column.type == pa.string()
    column.validate(full=True)
    assert column.to_pylist() == subjects
    assert kernel.ascii_column(chunk, fields, 1, 9, 0, 1).to_pylist() == subjects[1:]


@pytest.mark.parametrize("subject", ["straße".encode(), b"\x80", b"a\xff"])
def test_what_is_not_ascii_is_left_to_others(kernel, subject):
    chunk, fields = side_by_side([b"a", subject, b"b"])
    assert kernel.ascii_column(chunk, fields, 0, 3, 0, 1) is None
    assert kernel.ascii_column(chunk, fields, 2, 3, 0, 1).to_pylist() == ["b"]


def side_by_side(values: list[bytes]):
    fields = array("i")
    for at, value in enumerate(values):
        start = sum(map(len, values[:at]))
        fields.extend([start, start + len(value), 0, 0, 0])
    return b"".join(values), fields


@pytest.mark.parametrize(
    ("start", "before", "count"),
    [(0, 4, 3), (0, 5, 0), (0, 3, 0), (1, 5, 2), (3, 8, 1), (3, 7, 0), (4, 9, 0)],
)
def test_how_far_a_column_rises_by_one(kernel, start, before, count):
    numbers = array("q")
    for sequence in (5, 6, 7, 9):
        numbers.extend([sequence, 1, 2, 3])
    assert kernel.rising_by_one(numbers, start, kernel.SEQUENCE, before) == count
    assert kernel.rising_by_one(array("q"), 0, kernel.SEQUENCE, before) == 0
    assert kernel.rising_by_one(numbers, 0, kernel.TIMESTAMP, 1) == 1


def test_headers_become_a_map_of_lists(kernel):
    chunk = encoded(
        [
            (b"a", b"1", b"NATS/1.0\r\nK: a\r\nOther:\r\nK:  b \r\nno colon\r\n\r\n", "short"),
            (b"a", b"2", b"", "short"),
            (b"a", b"3", b"NATS/1.0\r\nbad: \xff:\r\n\r\n", "short"),
        ]
    )
    fields, numbers = array("i"), array("q")
    kernel.scan_deliveries(chunk, 0, len(chunk), SID, fields, numbers)
    column = kernel.header_column(chunk, fields, 0, 3)
    assert column.type.equals(pa.map_(pa.string(), pa.list_(pa.field("element", pa.string()))))
    assert [dict(entry) for entry in column.to_pylist()] == [
        {"K": ["a", "b"], "Other": [""]},
        {},
        {"bad": ["\ufffd:"]},
    ]


@settings(max_examples=300, deadline=None)
@given(items=messages, seed=st.integers(0, 10_000))
def test_both_twins_find_the_same_in_damaged_chunks(kernel, items, seed):
    chunk, generator = bytearray(encoded(items)), random.Random(seed)
    for _ in range(seed % 4):
        if chunk:
            chunk[generator.randrange(len(chunk))] = generator.choice(b"0x9 .\r\n:HM+-\xff")
    found = []
    for twin in (wire_to_arrow_pure, kernel):
        fields, numbers = array("i"), array("q")
        position = twin.scan_deliveries(chunk, 0, len(chunk), SID, fields, numbers)
        headers = twin.header_column(chunk, fields, 0, len(numbers) // 4)
        headers.validate(full=True)
        found.append((position, fields, numbers, headers.to_pylist()))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("number", "is_read"),
    [
        (b"0", True),
        (b"1", True),
        (b"12345678", True),
        (b"123456789", True),
        (b"1234567890123456", True),
        (b"9223372036854775807", True),
        (b"0000000000000000012", True),
        (b"9223372036854775808", False),
        (b"99999999999999999999", False),
        (b"00000000000000000000012", False),
        (b"", False),
        (b"+1", False),
        (b"0x1f", False),
        (b"1234567x", False),
    ],
)
def test_numbers_are_digits_that_fit_in_63_bits(kernel, number, is_read):
    for position in range(4):
        tokens = [b"1", b"2", b"3", b"4"]
        tokens[position] = number
        ack = b"$JS.ACK.ORDERS.c.1." + b".".join(tokens)
        chunk = GOOD + frame(b"a", ack, b"hello") + GOOD
        fields, numbers = array("i"), array("q")
        kernel.scan_deliveries(chunk, 0, len(chunk), SID, fields, numbers)
        assert len(numbers) // kernel.NUMBERS == (3 if is_read else 1)
        if is_read:
            assert numbers[kernel.NUMBERS + [0, 1, 2, 3][position]] == int(number)


def test_more_messages_than_one_run_of_the_loop(kernel):
    chunk = GOOD * 9000 + GOOD[:-1]
    fields, numbers = array("i"), array("q")
    position = kernel.scan_deliveries(chunk, 0, len(chunk), SID, fields, numbers)
    assert position == 9000 * len(GOOD)
    column = kernel.binary_column(chunk, fields, 0, 9000, kernel.PAYLOAD_START, kernel.PAYLOAD_STOP)
    column.validate(full=True)
    assert column.unique().to_pylist() == [b"hello"]


def test_a_name_with_many_values_among_others(kernel):
    lines = b"".join(b"A: %d\r\nN%d: x\r\n" % (n, n) for n in range(50))
    chunk = encoded([(b"a", b"1", b"NATS/1.0\r\n" + lines + b"\r\n", "short")])
    fields, numbers = array("i"), array("q")
    kernel.scan_deliveries(chunk, 0, len(chunk), SID, fields, numbers)
    (entry,) = kernel.header_column(chunk, fields, 0, 1).to_pylist()
    assert entry[0] == ("A", [str(n) for n in range(50)])
    assert [name for name, _ in entry[1:]] == [f"N{n}" for n in range(50)]
