"""The frames kernel: finding publishes in a chunk, cutting runs, writing MSG frames."""

from __future__ import annotations

import os
import subprocess
import sys
from array import array
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jetstream_server.jetstream.streams.publish_headers import special_headers
from jetstream_server.kernels import frames_pure
from jetstream_server.protocol import ops
from jetstream_server.protocol.ops import PubRun

Message = tuple[bytes, bytes, bytes, bytes]

CONTROL_LINE_MAX = 64
PAYLOAD_MAX = 1000


@pytest.fixture(scope="module")
def frames(twins: Any) -> Any:
    return twins.load("frames")


def scan(
    frames: Any, chunk: bytes, start: int = 0, *, headers: bool = True
) -> tuple[int, list[Message]]:
    fields = array("i")
    stop = frames.scan_publishes(chunk, start, fields, CONTROL_LINE_MAX, PAYLOAD_MAX, headers)
    return stop, messages_of(PubRun(chunk, fields))


def messages_of(run: PubRun) -> list[Message]:
    return [
        (run.subject(i), run.reply(i), run.headers(i), run.payload(i)) for i in range(run.count)
    ]


def publish(subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> bytes:
    names = b" ".join((subject, reply)) if reply else subject
    if headers:
        total = len(headers) + len(payload)
        return b"HPUB %b %d %d\r\n%b%b\r\n" % (names, len(headers), total, headers, payload)
    return b"PUB %b %d\r\n%b\r\n" % (names, len(payload), payload)


TOKENS = st.text("abcxyz019$_-*>.", min_size=1, max_size=12).map(str.encode)
BLOCKS = st.sampled_from(
    [
        b"",
        b"NATS/1.0\r\n\r\n",
        b"NATS/1.0\r\nA: b\r\n\r\n",
        b"NATS/1.0\r\nNats-Msg-Id: 7\r\n\r\n",
        b"NATS/1.0 503\r\n\r\n",
        b"garbage",
        b"NATS/1.0\r\nX: Nats-Msg-Id\r\n\r\n",
    ]
)
MESSAGES = st.lists(
    st.tuples(TOKENS, st.one_of(st.just(b""), TOKENS), BLOCKS, st.binary(max_size=40)), max_size=8
)


def test_the_layout_is_that_of_the_ops() -> None:
    assert frames_pure.STRIDE == ops.STRIDE
    columns = (ops.SUBJECT_START, ops.SUBJECT_STOP, ops.REPLY_START, ops.REPLY_STOP)
    assert columns == (0, 1, 2, 3)
    assert (ops.HEADER_START, ops.PAYLOAD_START, ops.PAYLOAD_STOP) == (4, 5, 6)


@settings(max_examples=60)
@given(messages=MESSAGES, lead=st.binary(max_size=5))
def test_scan_finds_what_was_written(frames: Any, messages: list[Message], lead: bytes) -> None:
    chunk = lead + b"".join(publish(*message) for message in messages)
    assert scan(frames, chunk, len(lead)) == (len(chunk), messages)


@settings(max_examples=60)
@given(messages=MESSAGES, cut=st.integers(0, 400))
def test_scan_of_a_cut_chunk_ends_at_the_last_whole_frame(
    frames: Any, messages: list[Message], cut: int
) -> None:
    whole = [publish(*message) for message in messages]
    chunk = b"".join(whole)[:cut]
    stop, found = scan(frames, chunk)
    assert found == messages[: len(found)]
    assert stop == sum(map(len, whole[: len(found)]))
    if len(found) < len(messages):
        assert stop + len(whole[len(found)]) > cut


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"P",
        b"PUB a 1\r\n",
        b"PUB a 1\r\nx",
        b"PUB a 1\r\nx\r",
        b"PUB a 1\r\nxy\r\n",
        b"PUB a 1\r\nx\n",
        b"PUB a 1\nx\r\n",
        b"PUB  a 1\r\nx\r\n",
        b"PUB a  1\r\nx\r\n",
        b"PUB a 1 \r\nx\r\n",
        b"PUB\ta 1\r\nx\r\n",
        b"PUB a\tb 1\r\nx\r\n",
        b"PUB a\rb 1\r\nx\r\n",
        b"PUB a\nb 1\r\nx\r\n",
        b"pub a 1\r\nx\r\n",
        b"PUB a\r\nx\r\n",
        b"PUB 1\r\nx\r\n",
        b"PUB a b c 1\r\nx\r\n",
        b"PUB a +1\r\nx\r\n",
        b"PUB a -1\r\nx\r\n",
        b"PUB a 1_0\r\nxxxxxxxxxx\r\n",
        b"PUB a 0000000001\r\nx\r\n",
        b"PUB a 1001\r\n" + bytes(1001) + b"\r\n",
        b"PUB " + b"a" * (CONTROL_LINE_MAX - 1) + b" 1\r\nx\r\n",
        b"HPUB a 0\r\n\r\n",
        b"HPUB a 2 1\r\nxx\r\n",
        b"HPUB a b c 0 1\r\nx\r\n",
        b"HPUB " + b"a" * (CONTROL_LINE_MAX - 3) + b" 0 1\r\nx\r\n",
        b"PING\r\n",
        b"\x00\xff",
    ],
)
def test_scan_leaves_anything_unusual_to_the_parser(frames: Any, frame: bytes) -> None:
    before = publish(b"first", b"", b"", b"payload")
    stop, found = scan(frames, before + frame + b"PUB a 0\r\n\r\n" * bool(frame))
    assert stop == len(before)
    assert [message[0] for message in found] == [b"first"]


def test_scan_takes_frames_right_at_the_limits(frames: Any) -> None:
    subject = b"a" * (CONTROL_LINE_MAX - 5)
    chunk = publish(subject, b"", b"", bytes(PAYLOAD_MAX))
    assert scan(frames, chunk) == (len(chunk), [(subject, b"", b"", bytes(PAYLOAD_MAX))])
    chunk = publish(b"a" * (CONTROL_LINE_MAX - 6), b"", b"h", b"p" * 99)
    assert scan(frames, chunk)[0] == len(chunk)
    assert scan(frames, b"PUB a 000000001\r\nx\r\n")[1] == [(b"a", b"", b"", b"x")]
    assert scan(frames, b"HPUB a 12 0 2\r\nxx\r\n")[1] == [(b"a", b"12", b"", b"xx")]


def test_scan_stops_at_hpub_when_headers_are_off(frames: Any) -> None:
    first = publish(b"a", b"", b"", b"1")
    chunk = first + publish(b"a", b"", b"NATS/1.0\r\n\r\n", b"2")
    assert scan(frames, chunk, headers=False)[0] == len(first)


@settings(max_examples=150)
@given(
    st.binary(max_size=60),
    st.lists(
        st.sampled_from(
            [
                b"PUB ",
                b"HPUB ",
                b"a ",
                b"a.b ",
                b"1",
                b"0 2",
                b"\r\n",
                b" ",
                b"\t",
                b"x",
                b"\xff",
                b"999999999",
            ]
        ),
        max_size=14,
    ),
)
def test_scan_never_raises_and_agrees_with_the_reference(
    frames: Any, tail: bytes, words: list[bytes]
) -> None:
    chunk = b"".join(words) + tail
    assert scan(frames, chunk) == scan(frames_pure, chunk)


def test_scan_of_a_long_line_is_linear(frames: Any) -> None:
    fields = array("i")
    chunk = b"PUB " + b"a" * 1_000_000 + b" b" * 100_000
    assert frames.scan_publishes(chunk, 0, fields, 4096, 1 << 20, True) == 0
    assert not fields


def subjects_run(*subjects: bytes) -> PubRun:
    return PubRun.of((subject, b"", b"", b"x") for subject in subjects)


def test_segment_cuts_where_the_target_changes(frames: Any) -> None:
    one, two = ["target"], ["target"]
    routes = {b"a": one, b"b": one, b"c": two}
    run = subjects_run(b"a", b"b", b"a", b"c", b"c", b"nobody", b"a")
    cuts = [frames.segment(run.chunk, run.fields, start, 7, routes, {}) for start in (0, 3, 5, 6)]
    assert [cut for cut, _ in cuts] == [3, 5, 5, 7]
    assert cuts[0][1] is one
    assert cuts[1][1] is two
    assert cuts[2][1] is None
    assert cuts[3][1] is one
    assert frames.segment(run.chunk, run.fields, 1, 2, routes, {}) == (2, one)


@settings(max_examples=40)
@given(st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), min_size=1, max_size=12))
def test_segments_cover_the_run(frames: Any, subjects: list[bytes]) -> None:
    run = subjects_run(*subjects)
    routes = {b"a": "one", b"b": "one", b"c": "two"}
    start = 0
    while start < len(subjects):
        cut, target = frames.segment(run.chunk, run.fields, start, len(subjects), routes, {})
        assert target is routes.get(subjects[start])
        if target is None:
            assert cut == start
            cut += 1
        assert all(routes.get(subject) is target for subject in subjects[start:cut])
        if target is not None and cut < len(subjects):
            assert routes.get(subjects[cut]) is not target
        start = cut


@pytest.mark.parametrize(
    ("subject", "family"),
    [
        (b"a", (b"", 0)),
        (b".a", (b"", 0)),
        (b"a.", (b"", 0)),
        (b"a.b", (b"a", 1)),
        (b"a..b", (b"a.", 1)),
        (b"a.b.c", (b"a.b", 1)),
        (b"$JS.ACK.S.C.1.2.3.4.5", (b"$JS.ACK.S.C", 5)),
        (b"$JS.ACK.S.C.1.2.3.4", (b"", 0)),
        (b"$JS.ACK.S.C.1.2.3.4.5.6", (b"", 0)),
        (b"$JS.ACK.S.C.1..3.4.5", (b"", 0)),
        (b"$JS.ACK.S.C.1.2.3.4.", (b"", 0)),
        (b"$JS.ACK.S", (b"", 0)),
        (b"$JS.ACK.", (b"", 0)),
        (b"", (b"", 0)),
    ],
)
def test_family(frames: Any, subject: bytes, family: tuple[bytes, int]) -> None:
    assert frames.family(subject) == family


@settings(max_examples=100)
@given(
    st.lists(
        st.sampled_from(
            [
                b"a",
                b"f.1",
                b"f.2",
                b"f.",
                b"f.1.2",
                b"g.1",
                b"$JS.ACK.S.C.1.2.3.4.5",
                b"$JS.ACK.S.C.1.3.4.5.6",
                b"$JS.ACK.S.C.1",
                b"$JS.ACK.S.C.1.2.3.4.5.6",
                b"$JS.ACK.S.D.1.2.3.4.5",
            ]
        ),
        min_size=1,
        max_size=8,
    )
)
def test_segments_go_by_family(frames: Any, subjects: list[bytes]) -> None:
    run = subjects_run(*subjects)
    one, two = "one", "two"
    routes = {b"a": one, b"f.1": two, b"f.1.2": two, b"$JS.ACK.S.D.1.2.3.4.5": one}
    families = {b"f": one, b"$JS.ACK.S.C": two}
    targets = []
    for subject in subjects:
        by_family = families.get(frames_pure.family(subject)[0])
        targets.append(by_family or routes.get(subject))
    cut, target = frames.segment(run.chunk, run.fields, 0, run.count, routes, families)
    assert target is targets[0]
    expected = 0
    while target is not None and expected < len(targets) and targets[expected] is target:
        expected += 1
    assert cut == expected


@pytest.mark.parametrize(
    ("block", "special"),
    [
        (b"", False),
        (b"NATS/1.0\r\n\r\n", False),
        (b"NATS/1.0\r\nA: Nats-Msg-Id: 1\r\n\r\n", False),
        (b"NATS/1.0\r\nnats-msg-id: 1\r\n\r\n", False),
        (b"NATS/1.0\r\nA: 1\nNats-Msg-Id: 1\r\n\r\n", False),
        (b"NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n", True),
        (b"NATS/1.0\r\nA: 1\r\nNats-Rollup: sub\r\n\r\n", True),
        (b"NATS/1.0 503\r\n\r\n", True),
        (b"garbage", True),
        (b"NATS/1.0", True),
    ],
)
def test_first_special(frames: Any, block: bytes, special: bool) -> None:
    payload = b"\r\nNats-Msg-Id: in the payload"
    plain = (b"a", b"", b"NATS/1.0\r\nA: b\r\n\r\n", payload)
    run = PubRun.of([plain, (b"a", b"", b"", payload), (b"a", b"r", block, payload), plain])
    find = frames.first_special
    assert find(run.chunk, run.fields, 0, 4) == (2 if special else 4)
    assert find(run.chunk, run.fields, 0, 2) == 2
    assert find(run.chunk, run.fields, 3, 4) == 4
    assert find(run.chunk, run.fields, 4, 4) == 4


LINES = st.sampled_from(
    [
        b"Nats-Msg-Id: a\r\n",
        b"Nats-Msg-Id:b\r\n",
        b"Nats-Msg-Id:  c \r\n",
        b"Nats-Msg-Id: \r\n",
        b"Nats-Msg-Id\r\n",
        b"Nats-Msg-Id2: a\r\n",
        b"Nats-Msg-Id: a\nb\r\n",
        b"Nats-Msg-Id: a\rb\r\n",
        b"Nats-Expected-Stream: S\r\n",
        b"Nats-Expected-Stream:  S\r\n",
        b"Nats-Expected-Stream:\r\n",
        b"Nats-Expected-Stream: S \r\n",
        b"Nats-Expected-Stream: T\r\n",
        b"Nats-TTL: 1\r\n",
        b"nats-msg-id: a\r\n",
        b"X: y\r\n",
    ]
)
ID_BLOCKS = st.one_of(
    st.lists(LINES, max_size=4).map(lambda lines: b"NATS/1.0\r\n" + b"".join(lines) + b"\r\n"),
    st.sampled_from([b"", b"junk", b"NATS/1.0\r\nNats-Msg-Id: x", b"NATS/1.0 2 x\r\n\r\n"]),
    st.sampled_from([b"NATS/1.0\r\nNats-Expected-Stream: S", b"NATS/1.0\r\nNats-Msg-Id: x\r"]),
)


@settings(max_examples=150)
@given(st.lists(ID_BLOCKS, min_size=1, max_size=5), st.integers(0, 2))
def test_message_ids_agree_with_the_headers(frames: Any, blocks: list[bytes], start: int) -> None:
    # A payload that looks like an id header must not be taken for one.
    run = PubRun.of([(b"s", b"", block, b"\r\nNats-Msg-Id: p\r\n\r\n") for block in blocks])
    start = min(start, run.count)
    ids = frames.message_ids(run.chunk, run.fields, start, run.count, b"S")
    taken = blocks[start : start + len(ids)]
    for block, value in zip(taken, ids, strict=True):
        found = special_headers(block)
        assert found.pop(b"Nats-Msg-Id") == value
        assert found in ({}, {b"Nats-Expected-Stream": b"S"})
    special = frames.first_special(run.chunk, run.fields, start, run.count, b"S")
    for block in blocks[start:special]:
        assert special_headers(block) in ({}, {b"Nats-Expected-Stream": b"S"})
    assert ids == frames_pure.message_ids(run.chunk, run.fields, start, run.count, b"S")
    assert special == frames_pure.first_special(run.chunk, run.fields, start, run.count, b"S")


def test_message_ids_of_what_writers_send(frames: Any) -> None:
    lines = [b"Nats-Msg-Id: %d\r\nX: y\r\nNats-Expected-Stream: S\r\n" % i for i in range(4)]
    blocks = [b"NATS/1.0\r\n%b\r\n" % line for line in lines]
    run = PubRun.of([(b"s", b"", block, b"x") for block in blocks])
    find = frames.message_ids
    assert find(run.chunk, run.fields, 1, 4, b"S") == [b"1", b"2", b"3"]
    assert find(run.chunk, run.fields, 1, 3, b"S") == [b"1", b"2"]
    assert find(run.chunk, run.fields, 0, 4, b"T") == []
    assert find(run.chunk, run.fields, 2, 2, b"S") == []


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"$GR.", b"$GR.a", b"a", b"a.$GR.b", b"$JS.ACK.x", b"$NRG.x"]),
            st.sampled_from([b"", b"r", b"$JS.ACK.", b"$JS.ACK.x", b"$GR.a"]),
        ),
        max_size=6,
    ),
    st.integers(0, 2),
)
def test_first_reserved(frames: Any, names: list[tuple[bytes, bytes]], start: int) -> None:
    run = PubRun.of([(subject, reply, b"", b"$GR.x $JS.ACK.y") for subject, reply in names])
    reserved = [
        index
        for index, (subject, reply) in enumerate(names)
        if index >= start and (subject in (b"$GR.a", b"$NRG.x") or reply == b"$JS.ACK.x")
    ]
    find = frames.first_reserved
    found = find(run.chunk, run.fields, start, run.count, (b"$GR.", b"$NRG."), (b"$JS.ACK.",))
    assert found == (reserved[0] if reserved else max(start, run.count))


@pytest.mark.parametrize("name", [b"S", b"", b"T", b"SS"])
def test_a_message_that_names_its_stream_is_not_special(frames: Any, name: bytes) -> None:
    block = b"NATS/1.0\r\nNats-Expected-Stream: S\r\nA: b\r\n\r\n"
    run = PubRun.of([(b"s", b"", block, b"x")] * 3)
    expected = 3 if name == b"S" else 0
    assert frames.first_special(run.chunk, run.fields, 0, 3, name) == expected
    assert frames.message_ids(run.chunk, run.fields, 0, 3, name) == []


@settings(max_examples=60)
@given(MESSAGES, st.booleans(), st.sampled_from([b"1", b"a-long-sid"]))
def test_encoded_messages(frames: Any, messages: list[Message], headers: bool, sid: bytes) -> None:
    expected = b""
    for subject, reply, block, payload in messages:
        names = b" ".join(filter(None, (subject, sid, reply)))
        if block and headers:
            total = len(block) + len(payload)
            expected += b"HMSG %b %d %d\r\n%b%b\r\n" % (names, len(block), total, block, payload)
        else:
            expected += b"MSG %b %d\r\n%b\r\n" % (names, len(payload), payload)
    run = PubRun.of(messages)
    assert frames.encode_messages(run.chunk, run.fields, 0, run.count, sid, headers) == expected
    assert frames.encode_messages(run.chunk, run.fields, 0, 0, sid, headers) == b""


def test_encoded_messages_of_a_part_of_a_run(frames: Any) -> None:
    run = PubRun.of([(b"s%d" % i, b"", b"", b"p%d" % i) for i in range(5)])
    encoded = frames.encode_messages(run.chunk, run.fields, 1, 3, b"9", True)
    assert encoded == b"MSG s1 9 2\r\np1\r\nMSG s2 9 2\r\np2\r\n"


@pytest.mark.parametrize("kernel", ["frames", "acks", "deliveries"])
def test_the_environment_forces_the_pure_twin(kernel: str) -> None:
    code = f"from jetstream_server.kernels import {kernel} as k; print(k.TWIN, *k.__all__)"
    forced, free = (
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "JETSTREAM_PURE": pure},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for pure in ("1", "")
    )
    built = find_spec(f"jetstream_server.kernels.{kernel}_fast") is not None
    assert forced[0] == "pure"
    assert free[0] == ("compiled" if built else "pure")
    assert forced[1:] == free[1:]
