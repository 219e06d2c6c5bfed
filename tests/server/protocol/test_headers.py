"""Header blocks: exact lookup, byte-exact surgery, no failure on garbage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jetstream_server.protocol import headers

BLOCK = b"NATS/1.0\r\nA: 1\r\nNats-Msg-Id:  id 7 \r\nA:2\r\na: lower\r\nEmpty:\r\n\r\n"


def test_get_is_exact() -> None:
    assert headers.get(BLOCK, b"A") == b"1"
    assert headers.get(BLOCK, b"a") == b"lower"
    assert headers.get(BLOCK, b"Nats-Msg-Id") == b"id 7 "
    assert headers.get(BLOCK, b"Empty") == b""
    for absent in (b"Msg-Id", b"Nats-Msg", b"NATS/1.0", b"1", b"B"):
        assert headers.get(BLOCK, absent) is None


def test_a_key_counts_only_at_the_start_of_a_line() -> None:
    block = b"NATS/1.0\r\nX: B: 1\nB: 2\r\n B: 3\r\n\r\n"
    assert headers.get(block, b"B") is None
    assert headers.get(block, b"X") == b"B: 1\nB: 2"


def test_pairs_keep_order() -> None:
    assert headers.pairs(BLOCK) == [
        (b"A", b"1"),
        (b"Nats-Msg-Id", b"id 7 "),
        (b"A", b"2"),
        (b"a", b"lower"),
        (b"Empty", b""),
    ]


@pytest.mark.parametrize(
    ("block", "status"),
    [
        (b"NATS/1.0\r\n\r\n", b""),
        (b"NATS/1.0 503\r\n\r\n", b"503"),
        (b"NATS/1.0 404 No Messages\r\nA: 1\r\n\r\n", b"404 No Messages"),
        (b"", b""),
        (b"garbage 503\r\n\r\n", b""),
    ],
)
def test_status(block: bytes, status: bytes) -> None:
    assert headers.status(block) == status


def test_strip_takes_out_every_such_line_and_nothing_else() -> None:
    stripped = headers.strip(BLOCK, (b"A", b"Nats-Msg-Id"))
    assert stripped == b"NATS/1.0\r\na: lower\r\nEmpty:\r\n\r\n"
    assert headers.strip(BLOCK, (b"B",)) is BLOCK


def test_strip_of_the_last_line_leaves_no_block() -> None:
    assert headers.strip(b"NATS/1.0\r\nA: 1\r\n\r\n", (b"A",)) == b""
    assert headers.strip(b"NATS/1.0 503\r\nA: 1\r\n\r\n", (b"A",)) == b"NATS/1.0 503\r\n\r\n"
    untouched = b"NATS/1.0\r\n\r\n"
    assert headers.strip(untouched, (b"A",)) == untouched


def test_strip_leaves_a_line_that_does_not_end() -> None:
    assert headers.strip(b"NATS/1.0\r\nA: 1\r\nA: 2", (b"A",)) == b"NATS/1.0\r\nA: 2"


def test_strip_by_how_keys_begin() -> None:
    block = b"NATS/1.0\r\nB-1: x\r\nA: 1\r\nB-\r\nb-2: y\r\nB-:\r\nB-3: z"
    stripped = headers.strip(block, frozenset({b"A"}), (b"B-", b"C"))
    assert stripped == b"NATS/1.0\r\nB-\r\nb-2: y\r\nB-3: z"


def test_strip_looks_at_each_line_once() -> None:
    """The block was copied once for each line that went."""
    looks = []

    class Keys(frozenset[bytes]):
        def __contains__(self, key: object) -> bool:
            looks.append(key)
            return super().__contains__(key)

    keys = [b"K-%d" % number for number in range(2000)]
    block = b"NATS/1.0\r\n%b\r\n" % b"".join(b"%b:\r\n" % key for key in keys)
    assert headers.strip(block, Keys(keys)) == b""
    assert looks == keys


def test_append_goes_before_the_empty_line() -> None:
    block = b"NATS/1.0\r\nA:2\r\n\r\n"
    added = headers.append(block, [(b"Nats-Stream", b"S"), (b"Nats-Sequence", b"7")])
    assert added == b"NATS/1.0\r\nA:2\r\nNats-Stream: S\r\nNats-Sequence: 7\r\n\r\n"
    assert headers.append(b"", [(b"A", b"1")]) == b"NATS/1.0\r\nA: 1\r\n\r\n"


def test_build() -> None:
    assert headers.build([]) == b"NATS/1.0\r\n\r\n"
    block = headers.build([(b"Nats-Pending-Messages", b"1")], b"408 Request Timeout")
    assert block == b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 1\r\n\r\n"


KEYS = st.sampled_from([b"A", b"B", b"Nats-Msg-Id", b""])
VALUES = st.text("abc :19é", max_size=6).map(str.encode)
PAIRS = st.lists(st.tuples(KEYS, VALUES), max_size=6)


@given(PAIRS, PAIRS)
def test_what_is_built_is_found_again(first: list, second: list) -> None:
    block = headers.append(headers.build(first), second)
    expected = [(key, value.lstrip(b" ")) for key, value in first + second]
    assert headers.pairs(block) == expected
    for key in (b"A", b"B"):
        values = [value for name, value in expected if name == key]
        assert headers.get(block, key) == (values[0] if values else None)
    left = [pair for pair in expected if pair[0] != b"A"]
    assert headers.pairs(headers.strip(block, [b"A"])) == left


@given(st.lists(st.sampled_from([b"NATS/1.0", b"\r\n", b"\r", b"A", b":", b" ", b"x"])))
def test_garbage_is_no_error(words: list[bytes]) -> None:
    block = b"".join(words)
    headers.get(block, b"A")
    headers.pairs(block)
    headers.status(block)
    stripped = headers.strip(block, [b"A"])
    assert len(stripped) <= len(block)
    added = headers.append(block, [(b"Z", b"9")])
    assert added.endswith(b"Z: 9\r\n\r\n")
    assert headers.get(added, b"Z") == b"9"
