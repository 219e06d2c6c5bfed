"""The frames kernel: finding publishes in a chunk, writing MSG frames; and which twin is chosen."""

from __future__ import annotations

import os
import subprocess
import sys
from array import array
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jetstream_server.kernels.frames import pure as frames_pure
from jetstream_server.protocol import ops
from jetstream_server.protocol.ops import PubRun

Message = tuple[bytes, bytes, bytes, bytes]

CONTROL_LINE_MAX = 64
PAYLOAD_MAX = 1000
KERNELS = sorted(
    path.parent.name for path in Path(frames_pure.__file__).parents[1].glob("*/pure.py")
)


@pytest.fixture(scope="module")
def frames(twins: Any) -> Any:
    return twins.load("jetstream_server.kernels.frames")


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


@settings(max_examples=60)
@given(MESSAGES, st.booleans(), st.sampled_from([b"1", b"a-long-sid"]))
def test_encoded_messages(frames: Any, messages: list[Message], headers: bool, sid: bytes) -> None:
    expected, contents = b"", 0
    for subject, reply, block, payload in messages:
        contents += len(block) * headers + len(payload)
        names = b" ".join(filter(None, (subject, sid, reply)))
        if block and headers:
            total = len(block) + len(payload)
            expected += b"HMSG %b %d %d\r\n%b%b\r\n" % (names, len(block), total, block, payload)
        else:
            expected += b"MSG %b %d\r\n%b\r\n" % (names, len(payload), payload)
    run = PubRun.of(messages)
    encoded = frames.encode_messages(run.chunk, run.fields, 0, run.count, sid, headers)
    assert encoded == (expected, contents)
    assert frames.encode_messages(run.chunk, run.fields, 0, 0, sid, headers) == (b"", 0)


@settings(max_examples=40)
@given(MESSAGES, st.lists(st.sampled_from([b"1", b"22", b"a-long-sid"]), max_size=5), st.data())
def test_messages_encoded_for_each_of_several(
    frames: Any, messages: list[Message], sids: list[bytes], data: st.DataObject
) -> None:
    run = PubRun.of(messages)
    start = data.draw(st.integers(0, run.count))
    stop = data.draw(st.integers(start, run.count))
    headers = data.draw(st.booleans())
    each = [
        frames_pure.encode_messages(run.chunk, run.fields, start, stop, sid, headers)
        for sid in sids
    ]
    together = frames.encode_for_each(run.chunk, run.fields, start, stop, sids, headers)
    assert together == (b"".join(sent for sent, _ in each), sum(held for _, held in each))


def test_encoded_messages_of_a_part_of_a_run(frames: Any) -> None:
    run = PubRun.of([(b"s%d" % i, b"", b"", b"p%d" % i) for i in range(5)])
    encoded = frames.encode_messages(run.chunk, run.fields, 1, 3, b"9", True)
    assert encoded == (b"MSG s1 9 2\r\np1\r\nMSG s2 9 2\r\np2\r\n", 4)


def test_long_chunks_are_read_and_written_as_short_ones_are(frames: Any) -> None:
    messages = [
        (b"s.%d" % i, b"r.%d" % i, b"NATS/1.0\r\n\r\n" * (i % 2), b"p" * i) for i in range(600)
    ]
    chunk = b"".join(publish(*message) for message in messages) + b"PUB torn"
    assert len(chunk) > 2 * 65_536
    assert scan(frames, chunk) == scan(frames_pure, chunk)
    fields = array("i")
    frames.scan_publishes(chunk, 0, fields, 4096, 1 << 20, True)
    assert messages_of(PubRun(chunk, fields)) == messages
    written = frames.encode_messages(chunk, fields, 0, 600, b"7", True)
    assert written == frames_pure.encode_messages(chunk, fields, 0, 600, b"7", True)


@pytest.mark.parametrize("kernel", KERNELS)
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
    built = find_spec(f"jetstream_server.kernels.{kernel}.fast") is not None
    assert forced[0] == "pure"
    assert free[0] == ("compiled" if built else "pure")
    assert forced[1:] == free[1:]


@given(messages=MESSAGES, headers=st.booleans())
def test_what_messages_hold_is_counted(frames: Any, messages: list[Message], headers: bool) -> None:
    chunk = b"".join(publish(*message) for message in messages)
    fields = array("i")
    frames.scan_publishes(chunk, 0, fields, 10_000, 10_000, True)
    contents = [len(block) * headers + len(payload) for _, _, block, payload in messages]
    written, _ = frames.encode_messages(chunk, fields, 0, len(messages), b"7", headers)
    assert frames.delivered_bytes(written) == sum(contents)
    if headers:
        assert frames.published_bytes(fields) == sum(contents)


HEADER_LINES = st.lists(
    st.sampled_from(
        [
            b"Nats-Trace-Dest: a",
            b"Nats-Trace-Dest:",
            b"nats-trace-dest: a",
            b"Nats-Trace-Destination: a",
            b"Nats-Trace-Dest",
            b"traceparent:",
            b"TraceParent: b",
            b"traceparen",
            b"Nats-Msg-Id: Nats-Trace-Dest: 1",
            b"X: traceparent: 1",
            b"",
            b"N",
            b"T",
        ]
    ),
    max_size=4,
)


@given(blocks=st.lists(st.none() | HEADER_LINES, max_size=5), data=st.data())
def test_messages_that_ask_for_a_trace_are_found(frames: Any, blocks: Any, data: Any) -> None:
    run = PubRun.of(
        (
            b"Nats-Trace-Dest:",
            b"",
            b"" if lines is None else b"\r\n".join([b"NATS/1.0", *lines, b"", b""]),
            b"\r\nNats-Trace-Dest: a",
        )
        for lines in blocks
    )
    start = data.draw(st.integers(0, len(blocks)))
    wanted = [
        at
        for at in range(start, len(blocks))
        if any(
            line.startswith(b"Nats-Trace-Dest:") or line.lower().startswith(b"traceparent:")
            for line in blocks[at] or ()
        )
    ]
    found = frames.first_traced(run.chunk, run.fields, start, len(blocks))
    assert found == (wanted[0] if wanted else len(blocks))
