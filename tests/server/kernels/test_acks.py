"""The acks kernel: stretches answered alike, PubAck frames, plain consumer acks."""

from __future__ import annotations

from array import array
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jetstream_server.kernels.acks import pure as acks_pure
from jetstream_server.protocol.ops import PubRun


@pytest.fixture(scope="module")
def acks(twins: Any) -> Any:
    return twins.load("jetstream_server.kernels.acks")


def replies_run(*replies: bytes) -> PubRun:
    return PubRun.of((b"s", reply, b"", b"x") for reply in replies)


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        ([b""], (1, b"", True)),
        ([b"", b"", b"a.b"], (2, b"", True)),
        ([b"a.b"], (1, b"a.b", True)),
        ([b"a.b", b""], (1, b"a.b", True)),
        ([b"a.b", b"a.b", b"a.c"], (2, b"a.b", True)),
        ([b"a.b", b"a.c", b"a.c", b"a.d"], (4, b"a", False)),
        ([b"_INBOX.abc.1", b"_INBOX.abc.22", b"_INBOX.abd.3"], (2, b"_INBOX.abc", False)),
        ([b"a.b", b"a.b.c"], (1, b"a.b", True)),
        ([b"a.b", b"a."], (1, b"a.b", True)),
        ([b"a.b", b"a"], (1, b"a.b", True)),
        ([b"a.", b"a.b"], (1, b"a.", True)),
        ([b".a", b".b"], (1, b".a", True)),
        ([b"ab", b"ac"], (1, b"ab", True)),
    ],
)
def test_reply_run(acks: Any, replies: list[bytes], expected: tuple[int, bytes, bool]) -> None:
    run = replies_run(*replies)
    assert acks.reply_run(run.chunk, run.fields, 0, run.count) == expected
    run = replies_run(b"other.1", *replies, b"other.2")
    cut, reply, exact = acks.reply_run(run.chunk, run.fields, 1, run.count - 1)
    assert (cut - 1, reply, exact) == expected


@settings(max_examples=80)
@given(st.lists(st.sampled_from([b"", b"a", b"a.b", b"a.c", b"a.b.c", b"a.", b"."]), min_size=1))
def test_reply_runs_cover_the_run(acks: Any, replies: list[bytes]) -> None:
    run = replies_run(*replies)
    start = 0
    while start < run.count:
        found = acks.reply_run(run.chunk, run.fields, start, run.count)
        assert found == acks_pure.reply_run(run.chunk, run.fields, start, run.count)
        cut, reply, exact = found
        assert cut > start
        for held in replies[start:cut]:
            assert held == reply if exact else held.rpartition(b".")[0] == reply
        start = cut


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from([b"a", b"_INBOX.x.y"]), min_size=1, max_size=30),
    st.one_of(st.integers(1, 120), st.integers(99_990, 100_010), st.just(2**63)),
)
def test_pub_acks(acks: Any, replies: list[bytes], first_seq: int) -> None:
    head = b'{"stream":"ORDERS","seq":'
    run = replies_run(b"before", *replies)
    encoded = acks.encode_pub_acks(run.chunk, run.fields, 1, run.count, b"17", head, first_seq)
    expected, content_bytes = b"", 0
    for sequence, reply in enumerate(replies, first_seq):
        body = b"%b%d}" % (head, sequence)
        expected += b"MSG %b 17 %d\r\n%b\r\n" % (reply, len(body), body)
        content_bytes += len(body)
    assert encoded == (expected, content_bytes)
    assert acks.encode_pub_acks(run.chunk, run.fields, 1, 1, b"1", head, 1) == (b"", 0)


SUBJECT = b"$JS.ACK.S.C.1.42.9.1700000000000000000.3"


@pytest.mark.parametrize(
    ("message", "sequence"),
    [
        ((SUBJECT, b"", b"", b""), 42),
        ((SUBJECT, b"", b"", b"+ACK"), 42),
        ((SUBJECT, b"", b"", b"+OK"), 42),
        ((SUBJECT, b"", b"NATS/1.0\r\n\r\n", b"+ACK"), 42),
        ((b"$JS.ACK.S.C.x.7.y.z.w", b"", b"", b""), 7),
        ((b"$JS.ACK.S.C.1.9999999999999999999.1.1.1", b"", b"", b""), 9999999999999999999),
        ((SUBJECT, b"reply", b"", b"+ACK"), None),
        ((SUBJECT, b"", b"", b"-NAK"), None),
        ((SUBJECT, b"", b"", b"+TERM"), None),
        ((SUBJECT, b"", b"", b"+NXT"), None),
        ((SUBJECT, b"", b"", b"+ack"), None),
        ((SUBJECT, b"", b"", b"+OKK"), None),
        ((b"$JS.ACK.S.C.1.0.9.1.3", b"", b"", b""), None),
        ((b"$JS.ACK.S.C.1.-4.9.1.3", b"", b"", b""), None),
        ((b"$JS.ACK.S.C.1.4x.9.1.3", b"", b"", b""), None),
        ((b"$JS.ACK.S.C.1..9.1.3", b"", b"", b""), None),
        ((b"$JS.ACK.S.C.1.99999999999999999999.9.1.3", b"", b"", b""), None),
        ((b"$JS.ACK.S.C.1.4.9.1", b"", b"", b""), None),
        ((b"$JS.ACK.S.C.1.4.9.1.3.4", b"", b"", b""), None),
        ((b"$JS.ACK.S.C.1.4.9.1.", b"", b"", b""), None),
        ((b"$JS.ACK.S..1.4.9.1.3", b"", b"", b""), None),
        ((b"$JS.ACKS.S.C.1.4.9.1.3", b"", b"", b""), None),
        ((b"", b"", b"", b""), None),
    ],
)
def test_plain_acks(
    acks: Any, message: tuple[bytes, bytes, bytes, bytes], sequence: int | None
) -> None:
    first = (b"$JS.ACK.S.C.1.1.1.1.1", b"", b"", b"")
    run = PubRun.of([first, message, first])
    sequences = array("Q", [5])
    stop = acks.take_plain_acks(run.chunk, run.fields, 0, 3, sequences)
    if sequence is None:
        assert (stop, list(sequences)) == (1, [5, 1])
    else:
        assert (stop, list(sequences)) == (3, [5, 1, sequence, 1])


@settings(max_examples=80)
@given(st.lists(st.sampled_from([b"$JS.ACK.", b"S", b".", b".1", b".0", b"1.2.3.4.5", b"\xff"])))
def test_plain_acks_agree_with_the_reference(acks: Any, words: list[bytes]) -> None:
    run = PubRun.single(b"".join(words))
    found, expected = array("Q"), array("Q")
    stop = acks.take_plain_acks(run.chunk, run.fields, 0, 1, found)
    assert stop == acks_pure.take_plain_acks(run.chunk, run.fields, 0, 1, expected)
    assert found == expected


@pytest.mark.parametrize("seed", range(20))
def test_flagged(acks: Any, seed: int) -> None:
    random = Random(seed)
    words = array("Q", [random.randrange(1 << 64) for _ in range(random.choice([0, 1, 50]))])
    flags = bytearray(random.choice(b"\0\1") for _ in range(random.choice([0, len(words), 60])))
    for _ in range(20):
        start, stop = random.randrange(55), random.randrange(70)
        held = zip(words[start:stop], flags[start:stop], strict=False)
        assert list(acks.flagged(words, flags, start, stop)) == [
            word for word, flag in held if flag
        ]


NUMBERS = st.lists(st.integers(1, 40), min_size=1, unique=True).map(sorted)


@settings(max_examples=100)
@given(
    st.one_of(NUMBERS, st.integers(1, 20).map(lambda first: list(range(first, first + 15)))),
    st.lists(st.integers(0, 50), max_size=30).map(sorted),
    st.binary(min_size=40, max_size=40),
    st.integers(0, 3),
)
def test_settle(
    acks: Any, sequences: list[int], given: list[int], flags: bytes, start: int
) -> None:
    live = bytearray(flag & 1 for flag in flags[: len(sequences)])
    start = min(start, len(given))
    wanted = given[start:]
    stop = start + sum(sequence <= sequences[-1] for sequence in wanted)
    pending = {sequence for sequence, flag in zip(sequences, live, strict=True) if flag}
    hits = sorted(pending.intersection(wanted))
    taken = array("Q", [7])
    cut = acks.settle(array("Q", sequences), live, array("Q", given), start, taken)
    assert cut == stop
    assert list(taken) == [7, *hits]
    left = [sequence for sequence, flag in zip(sequences, live, strict=True) if flag]
    assert left == sorted(pending.difference(hits))
