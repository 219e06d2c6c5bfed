"""The parser: every way to cut the input gives the same ops, and nothing makes it fail."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jetstream_server.protocol import encoder, errors
from jetstream_server.protocol import parser as parser_module
from jetstream_server.protocol.ops import Connect, Op, Ping, Pong, PubRun, Sub, Unsub, Violation
from jetstream_server.protocol.parser import OPS_MAX, Parser

CONTROL_LINE_MAX = 256
PAYLOAD_MAX = 2000

Message = tuple[str, bytes, bytes, bytes, bytes]

UNKNOWN = errors.UNKNOWN_OPERATION.violation()
SILENT = errors.MALFORMED.violation()
TOO_LONG = errors.CONTROL_LINE_EXCEEDED.violation()
TOO_LARGE = errors.PAYLOAD_EXCEEDED.violation()
PARSE_ERROR = errors.CLIENT_SENT_ERROR.violation()

INF = float("inf")
HEADERS_ON = b'CONNECT {"headers":true}\r\n'


def message(
    subject: bytes, payload: bytes = b"", reply: bytes = b"", headers: bytes = b""
) -> Message:
    return ("message", subject, reply, headers, payload)


def flat(ops: Iterable[Op]) -> list[Op | Message]:
    """Return the ops with every run taken apart, so that cuts between runs do not show."""
    found: list[Op | Message] = []
    for op in ops:
        if isinstance(op, PubRun):
            for index in range(op.count):
                found.append(
                    message(
                        op.subject(index), op.payload(index), op.reply(index), op.headers(index)
                    )
                )
        else:
            found.append(op)
    return found


def parser() -> Parser:
    return Parser(CONTROL_LINE_MAX, PAYLOAD_MAX)


def fed(pieces: Iterable[bytes]) -> list[Op | Message]:
    under_test = parser()
    return flat(op for piece in pieces for op in under_test.feed(piece))


def fed_unjoined(pieces: Iterable[bytes]) -> list[Op | Message]:
    """Feed as if every piece were too long to be copied."""
    with patch("jetstream_server.protocol.parser._JOINED_BYTES_MAX", 0):
        return fed(pieces)


def byte_by_byte(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def cut_at_random(data: bytes, random: Random) -> list[bytes]:
    cuts = sorted(random.randrange(len(data) + 1) for _ in range(random.randrange(6)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def parsed_every_way(data: bytes) -> list[Op | Message]:
    """Return the ops of `data`, having checked that its cuts do not matter."""
    whole = fed([data])
    assert fed(byte_by_byte(data)) == whole
    for seed in range(4):
        assert fed(cut_at_random(data, Random(seed))) == whole
        assert fed_unjoined(cut_at_random(data, Random(seed))) == whole
    return whole


# What nats-server 2.15.1 does with each; docs/reference/protocol.md#framing and further probes.
TRANSCRIPTS: list[tuple[bytes, list[Op | Message]]] = [
    # Verbs in any case, blanks of any kind, lines that end in LF or CR LF.
    (b"PING\r\nPONG\r\n", [Ping(), Pong()]),
    (b"ping\npInG\r\n", [Ping(), Ping()]),
    (b"SUB a 1\r\nsub\tb  q\t 2 \nUNSUB 1\r\nunsub 2 5\r\n", [
        Sub(b"a", b"", b"1"), Sub(b"b", b"q", b"2"), Unsub(b"1", 0), Unsub(b"2", 5),
    ]),
    (b"PUB a 2\r\nhi\r\npub\ta.b\t r  2 \nyo\r\n", [
        message(b"a", b"hi"), message(b"a.b", b"yo", b"r"),
    ]),
    (b"PUB a 0\r\n\r\nPING\r\n", [message(b"a"), Ping()]),
    # Trailing junk after PING, PONG and +OK has no limit and no meaning.
    (b"PING foo\r\nPINGX\nPING  \r\n+OKjunk\r\nPONG" + b"x" * 5000 + b"\r\nPING\r\n", [
        Ping(), Ping(), Ping(), Pong(), Ping(),
    ]),
    # A payload shorter than declared swallows what follows.
    (b"PUB z 9\r\nabc\r\nPING\r\nPING\r\n", [message(b"z", b"abc\r\nPING"), Ping()]),
    # The payload must end in CR LF.
    (b"PUB a 1\r\nxy", [UNKNOWN]),
    (b"PUB a 1\r\nx\n", [UNKNOWN]),
    (b"PUB a 0\r\nPING\r\n", [UNKNOWN]),
    (b"PUB a 3\r\nabcdPING\r\n", [UNKNOWN]),
    (b"PUB a 1\r\nx\rx", [UNKNOWN]),
    # Wrong arguments close without a word.
    *[(line + b"\r\nPING\r\n", [SILENT]) for line in (
        b"PUB a", b"PUB a b c 1", b"PUB a -1", b"PUB a x", b"PUB a +1", b"PUB a 0000000001",
        b"PUB ", b"SUB a", b"SUB a q 1 x", b"SUB ", b"UNSUB 1 2 3", b"UNSUB ", b"HPUB a 12",
        b"HPUB a 0 1", b"CONNECT", b"CONNECT {bad", b"CONNECT []", b'CONNECT "a"', b"CONNECT {}{}",
        b"CONNECTX", b"CONNECT ", b'CONNECT {"a":"\x01"}', b"INFO {bad", b"INFO []", b"INFO",
    )],
    *[(HEADERS_ON + line + b"\r\n", [Connect({"headers": True}), SILENT]) for line in (
        b"HPUB a 2 1", b"HPUB a 12", b"HPUB a b c 1 1", b"HPUB a x 1", b"HPUB a 9999 5000",
        b"HPUB a 9999999999 1",
    )],
    # Unknown verbs, or a known one without a blank behind it.
    *[(line, [UNKNOWN]) for line in (
        b"PUB\r\n", b"SUB\r\n", b"UNSUB\r\n", b"HPUB\r\n", b"HMSG\r\n", b"-ERR\r\n", b"\r\n", b"\n",
        b" PING\r\n", b"PUBX", b"SUBX", b"CONN\r\n", b"H\r\n", b"MSG a 1 0\r\n\r\n", b"RS+ a b",
        b"LS+ a", b"A+ a", b"RMSG a", b"XYZ", b"PIX", b"p\n", b"SU B", b"+O\r\n", b"\x00", b"\xff",
        b"GET / HTTP/1.1\r\n",
    )],
    (b"PING\n\n", [Ping(), UNKNOWN]),
    # UNSUB with a maximum that is none removes at once.
    (b"UNSUB 1 x\r\nUNSUB 1 -1\r\nUNSUB 1 0\r\nUNSUB 1 9999999999\r\nUNSUB 1 000000001\r\n", [
        Unsub(b"1", 0), Unsub(b"1", 0), Unsub(b"1", 0), Unsub(b"1", 0), Unsub(b"1", 1),
    ]),
    # CONNECT: numbers without bounds, halves of surrogate pairs.
    (b'CONNECT {"a":1e400,"b":[-1e999],"c":"x\\ud800y\\udfff","\\ud801":%b}\r\n' % (b"9" * 50), [
        Connect({"a": INF, "b": [-INF], "c": "x\ufffdy\ufffd", "\ufffd": 1e50}),
    ]),
    # CONNECT: null is {}, the blank is optional, keys in any case, bad UTF-8 replaced.
    (b'CONNECT null\r\nconnect{"Verbose":false} \r\nCONNECT\t{"name":"\xff"}\r\n', [
        Connect({}), Connect({"verbose": False}), Connect({"name": "\ufffd"}),
    ]),
    # What a client should not send.
    (b"-ERR 'x'\r\nPING\r\n", [PARSE_ERROR]),
    (b"-err\t\r\n", [PARSE_ERROR]),
    (b'+OK\r\nINFO {"a":1}\r\nINFO null\r\nINFO{}\r\nPING\r\n', [Ping()]),
    (b"HMSG a 1 0 0\r\n\r\nhmsg a\r\n\r\nPING\r\n", [Ping()]),
    (b"HMSG a 1 2 2\r\nxx\r\nPING\r\n", [UNKNOWN]),
    (b"HMSG a 1 0 0\r\n\rx", [UNKNOWN]),
    # Control line: the limit counts the arguments, without verb, blanks and line end.
    (b"SUB " + b"a" * 254 + b" 1\r\n", [Sub(b"a" * 254, b"", b"1")]),
    (b"SUB   " + b"a" * 254 + b" 1\n", [Sub(b"a" * 254, b"", b"1")]),
    (b"SUB " + b"a" * 255 + b" 1\r\n", [TOO_LONG]),
    (b"SUB " + b"a" * 255 + b" 1\n", [TOO_LONG]),
    (b"SUB " + b"a" * 257, [TOO_LONG]),
    (b"PUB " + b"a" * 254 + b" 1\r\nx\r\n", [message(b"a" * 254, b"x")]),
    (b"PUB " + b"a" * 255 + b" 1\r\nx\r\n", [TOO_LONG]),
    *[(verb + b" " + b"a" * 500 + b"\r\n", [TOO_LONG]) for verb in (
        b"PUB", b"HPUB", b"UNSUB", b"CONNECT", b"INFO", b"-ERR", b"HMSG",
    )],
    # Payload: for HPUB the total counts. The line alone is enough.
    (b"PUB a 2000\r\n" + bytes(2000) + b"\r\n", [message(b"a", bytes(2000))]),
    (b"PUB a 2001\r\n", [TOO_LARGE]),
    (HEADERS_ON + b"HPUB a 2 2001\r\n", [Connect({"headers": True}), TOO_LARGE]),
    # HPUB: the block may be empty or garbage.
    (HEADERS_ON + b"HPUB a 0 2\r\nhi\r\nhpub a r 2 4\r\nxxhi\r\n", [
        Connect({"headers": True}), message(b"a", b"hi"), message(b"a", b"hi", b"r", b"xx"),
    ]),
    # Subjects may hold any byte but blanks and line feeds.
    (b"PUB a\x0cb\xff\x00 1\r\nx\r\nPUB a\rb 1\r\nx\r\n", [
        message(b"a\x0cb\xff\x00", b"x"), message(b"a\rb", b"x"),
    ]),
    # A lone CR separates other arguments.
    (b"SUB a\rq 1\r\r\n", [Sub(b"a", b"q", b"1")]),
    (b"UNSUB \r\r\n", [SILENT]),
    # A line feed in place of arguments ends the line (our departure).
    (b"PUB \nfoo 1\r\nx\r\n", [SILENT]),
]  # fmt: skip


@pytest.mark.parametrize(("data", "expected"), TRANSCRIPTS)
def test_transcripts(data: bytes, expected: list[Op | Message]) -> None:
    assert parsed_every_way(data) == expected


@pytest.mark.parametrize(
    "data",
    [
        b"P",
        b"PU",
        b"conn",
        b"PUB",
        b"PUB  ",
        b"PUB a 1",
        b"PUB a 1\r\nx\r",
        b"+O",
        b"PING",
        b"-ERR x",
    ],
)
def test_an_incomplete_frame_waits(data: bytes) -> None:
    assert parsed_every_way(data) == []


def test_nothing_comes_after_a_violation() -> None:
    under_test = parser()
    assert under_test.feed(b"PING\r\nXYZ\r\nPING\r\n") == [Ping(), UNKNOWN]
    assert under_test.feed(b"PING\r\n") == []


@pytest.mark.parametrize("is_put_off", [False, True])
def test_nothing_is_held_after_the_end(is_put_off: bool) -> None:
    """A client may go after half a message of 64 MB."""
    under_test, said = parser(), bytearray(b"PUB a 5\r\nhalf")
    data = bytes(said)
    before = sys.getrefcount(data)
    assert not (under_test.put_off(data) if is_put_off else under_test.feed(data))
    assert sys.getrefcount(data) > before or not is_put_off
    under_test.end()
    assert sys.getrefcount(data) == before and not under_test.later
    assert under_test.feed(b"PING\r\n") == [] == under_test.read_on()
    assert not under_test._held


def test_what_came_before_a_violation_counts() -> None:
    found = parsed_every_way(b"SUB a 1\r\nPUB a 1\r\nx\r\nPUB a x\r\n")
    assert found == [Sub(b"a", b"", b"1"), message(b"a", b"x"), SILENT]


def test_hpub_follows_the_option() -> None:
    hpub = b"HPUB a 2 4\r\nxxhi\r\n"
    assert flat(parser().feed(hpub)) == [SILENT]
    under_test = parser()
    under_test.feed(HEADERS_ON)
    assert under_test.headers
    assert flat(under_test.feed(hpub)) == [message(b"a", b"hi", b"", b"xx")]
    under_test.feed(b"CONNECT {}\r\n")
    assert under_test.headers
    under_test.feed(b'CONNECT {"headers":false}\r\n')
    assert flat(under_test.feed(hpub)) == [SILENT]
    without = Parser(CONTROL_LINE_MAX, PAYLOAD_MAX, headers_supported=False)
    assert flat(without.feed(HEADERS_ON + hpub))[1:] == [SILENT]


def test_limits_may_change_between_chunks() -> None:
    under_test = parser()
    under_test.payload_max = 3
    assert flat(under_test.feed(b"PUB a 3\r\nxxx\r\n")) == [message(b"a", b"xxx")]
    assert flat(under_test.feed(b"PUB a 4\r\nxxxx\r\n")) == [TOO_LARGE]


def test_a_chunk_of_publishes_is_one_run() -> None:
    frames = [b"PUB orders.%d _INBOX.a.%d 5\r\nhello\r\n" % (i, i) for i in range(1000)]
    frames[500] = b"pub\torders.500  _INBOX.a.500 5\nhello\r\n"
    frames[600] = b"+OK\r\n" + frames[600]
    data = b"".join(frames)
    (run,) = parser().feed(data)
    assert isinstance(run, PubRun)
    assert run.count == 1000
    assert run.chunk is data
    assert run.subject(500) == b"orders.500"
    assert run.reply(500) == b"_INBOX.a.500"


def test_runs_keep_their_place_among_other_ops() -> None:
    data = b"PUB a 0\r\n\r\nPUB b 0\r\n\r\nPING\r\nPUB c 0\r\n\r\nSUB d 1\r\nSUB e 2\r\n"
    kinds = [type(op) for op in parser().feed(data)]
    assert kinds == [PubRun, Ping, PubRun, Sub, Sub]
    assert len(parsed_every_way(data)) == 6


TOKENS = st.text("abcXYZ019$_-*>.é", min_size=1, max_size=12).map(str.encode)
PAYLOADS = st.binary(max_size=40)
BLOCKS = st.one_of(st.just(b""), st.binary(min_size=1, max_size=20))
OPS = st.one_of(
    st.builds(message, TOKENS, PAYLOADS, st.one_of(st.just(b""), TOKENS), BLOCKS),
    st.builds(Sub, TOKENS, st.one_of(st.just(b""), TOKENS), TOKENS),
    st.builds(Unsub, TOKENS, st.integers(0, 999_999_999)),
    st.sampled_from([Ping(), Pong()]),
)


def written(op: Op | Message) -> bytes:
    match op:
        case ("message", subject, reply, headers, payload):
            names = b"%b %b" % (subject, reply) if reply else subject
            if headers:
                total = len(headers) + len(payload)
                return b"HPUB %b %d %d\r\n%b%b\r\n" % (names, len(headers), total, headers, payload)
            return b"PUB %b %d\r\n%b\r\n" % (names, len(payload), payload)
        case Sub(subject, queue, sid):
            return b"SUB " + b" ".join(filter(None, (subject, queue, sid))) + b"\r\n"
        case Unsub(sid, max_messages):
            return b"UNSUB %b %d\r\n" % (sid, max_messages)
        case Ping():
            return encoder.PING
    return encoder.PONG


@settings(max_examples=60)
@given(st.lists(OPS, max_size=10), st.randoms(use_true_random=False))
def test_what_is_written_is_read_again(ops: list[Op | Message], random: Random) -> None:
    data = HEADERS_ON + b"".join(map(written, ops))
    expected = [Connect({"headers": True}), *ops]
    assert fed([data]) == expected
    assert fed(byte_by_byte(data)) == expected
    assert fed(cut_at_random(data, random)) == expected


WORDS = st.sampled_from([
    b"PUB ", b"HPUB ", b"SUB ", b"UNSUB ", b"PING", b"+OK", b"-ERR ", b"CONNECT ", b"INFO ",
    b"HMSG ", b"a", b" ", b"\t", b"0", b"1", b"12", b"999999999", b"x" * 300, b"\r\n", b"\r",
    b"\n", b"{}", b"null", b'{"headers":true}', b"{", b"\xff", b"\x00",
])  # fmt: skip


@settings(max_examples=300)
@given(
    st.one_of(st.binary(max_size=80), st.lists(WORDS, max_size=16).map(b"".join)),
    st.randoms(use_true_random=False),
)
def test_any_bytes_give_ops_however_they_are_cut(data: bytes, random: Random) -> None:
    for prefix in (b"", HEADERS_ON):
        whole = fed([prefix + data])
        assert fed(byte_by_byte(prefix + data)) == whole
        assert fed(cut_at_random(prefix + data, random)) == whole
        assert fed_unjoined(cut_at_random(prefix + data, random)) == whole
        violations = [op for op in whole if isinstance(op, Violation)]
        assert violations == whole[len(whole) - len(violations) :]
        assert len(violations) <= 1


def pieces_of(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


MB = 1 << 20


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(
            lambda n: pieces_of(b"PUB a %d\r\n" % n + bytes(n) + b"\r\n", 1024), id="payload"
        ),
        pytest.param(lambda n: pieces_of(b"SUB " + b"a" * n + b" 1\r\n", 16), id="line"),
        pytest.param(lambda n: [b"SUB " + b"a" * n], id="line at once"),
        pytest.param(lambda n: pieces_of(b"PUB " + b" " * n + b"a 0\r\n\r\n", 16), id="blanks"),
        pytest.param(
            lambda n: [b"PUB " + b" " * n + b"a", *[b"b"] * (n // 50)], id="blanks, then bytes"
        ),
        pytest.param(lambda n: pieces_of(b"PING" + b"x" * n + b"\r\n", 16), id="junk"),
        pytest.param(lambda n: [b"PUB a 0\r\n\r\n" * (n // 11)], id="publishes"),
        pytest.param(lambda n: [b"PING\r\n" * (n // 6)], id="pings"),
    ],
)
def test_work_is_linear(make: Callable[[int], list[bytes]]) -> None:
    def seconds(size: int) -> float:
        pieces = make(size)
        best = 60.0
        for _ in range(3):
            under_test = Parser(8 * MB, 8 * MB)
            began = time.thread_time()
            for piece in pieces:
                under_test.feed(piece)
                while under_test.later:
                    under_test.read_on()
            best = min(best, time.thread_time() - began)
        return best

    # Sixteen times the input: quadratic work would take 256 times as long.
    assert seconds(MB) < 64 * max(seconds(MB // 16), 0.0005)


def test_a_large_payload_in_small_pieces() -> None:
    payload = bytes(range(256)) * (32 * 1024)
    under_test = Parser(4096, len(payload))
    data = b"PUB big %d\r\n%b\r\nPING\r\n" % (len(payload), payload)
    began = time.thread_time()
    ops = [op for piece in pieces_of(data, 1024) for op in under_test.feed(piece)]
    assert time.thread_time() - began < 2.0
    assert flat(ops) == [message(b"big", payload), Ping()]


@settings(max_examples=20)
@given(st.randoms(use_true_random=False))
def test_long_reads_of_long_messages(random: Random) -> None:
    messages = [
        message(b"s.%d" % index, bytes([index]) * random.randrange(70_000), b"r")
        for index in range(12)
    ]
    data = b"".join(
        b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(payload), payload)
        for _, subject, reply, _, payload in messages
    )
    under_test = Parser(4096, 70_000)
    pieces = cut_at_random(data, random)
    assert flat(op for piece in pieces for op in under_test.feed(piece)) == messages


def test_a_torn_frame_costs_a_long_read_no_copy() -> None:
    under_test = Parser(4096, 100_000)
    frame = b"PUB a 100\r\n%b\r\n" % bytes(100)
    data = frame * 1000
    assert under_test.feed(data[:50]) == []
    first, rest = under_test.feed(data[50:])
    assert isinstance(first, PubRun) and isinstance(rest, PubRun)
    assert (first.count, rest.count) == (1, 999)
    assert first.chunk == frame and len(rest.chunk) == len(data) - 50


@pytest.mark.parametrize("seed", range(20))
def test_plain_lines_are_read_as_all_others_are(seed, monkeypatch):
    random = Random(seed)
    words = [b"SUB", b"sub", b"UNSUB", b"a", b"b.c", b"*", b"1", b"22", b"x" * 30, b"\xff", b"\r"]
    text = b"".join(
        random.choice([b"SUB", b"UNSUB", b"SUB", b"sub"])
        + b"".join(
            random.choice([b" ", b" ", b"  ", b"\t"]) + random.choice(words)
            for _ in "abc"[: random.randrange(1, 4)]
        )
        + random.choice([b"\r\n", b"\r\n", b"\n", b" \r\n", b"\r\r\n"])
        for _ in range(8)
    )
    cut = random.randrange(len(text))

    def ops():
        parser = Parser(34, 1024)
        return [*parser.feed(text[:cut]), *parser.feed(text[cut:])]

    with_plain = ops()
    monkeypatch.setattr(parser_module, "_PLAIN", re.compile(rb"(?!)"))
    assert with_plain == ops()


def test_many_ops_are_given_a_few_at_a_time_and_in_order():
    random = Random(7)
    for _ in range(20):
        count = random.randrange(1, 3 * OPS_MAX)
        said = b"".join(
            b"SUB a.%d %d\r\n" % (n, n) if n % 7 else b"PUB x 3\r\n%03d\r\n" % (n % 1000)
            for n in range(count)
        )
        parser, whole = Parser(4096, 1024), []
        at = 0
        while at < len(said) or parser.later:
            if at < len(said) and (not parser.later or random.random() < 0.3):
                size = random.choice((1, 100, 10_000, 100_000))
                ops = parser.feed(said[at : at + size])
                at += size
            else:
                ops = parser.read_on()
            assert len(ops) <= OPS_MAX + 2
            whole += ops
        seen = []
        for op in whole:
            if isinstance(op, PubRun):
                seen += [op.payload(index) for index in range(op.count)]
            else:
                seen.append(op.sid)
        assert seen == [b"%d" % n if n % 7 else b"%03d" % (n % 1000) for n in range(count)]
    assert parser.feed(b"PING\r\n") == [Ping()]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_put_off_is_read_when_it_is_asked_for(seed):
    """In order, a few at a time, and wherever the pieces were cut."""
    random = Random(seed)
    frames = [
        random.choice([b"PING\r\n", b"SUB a.%d %d\r\n" % (n, n), b"PUB b.%d 2\r\nhi\r\n" % n])
        for n in range(300)
    ]
    data, at, pieces = b"".join(frames), 0, list[bytes]()
    while at < len(data):
        size = random.choice([1, 7, 100, 1000])
        pieces.append(data[at : at + size])
        at += size
    found, lazy = list[Op](), parser()
    for piece in pieces:
        if lazy.later or random.random() < 0.3:
            lazy.put_off(piece)
        else:
            found += lazy.feed(piece)
        if random.random() < 0.4:
            ops_max = random.choice([1, 5, 50])
            some = lazy.read_on(ops_max)
            assert len(some) <= ops_max + 2
            found += some
    while lazy.later:
        found += lazy.read_on(3)
    assert flat(found) == fed(pieces)


def test_of_what_was_put_off_little_pieces_are_read_together():
    """A client that sends a line at a time had one of them read in each turn."""
    lazy = parser()
    for number in range(300):
        lazy.put_off(b"SUB a %d\r\n" % number)
    assert [len(lazy.read_on(100)) for _ in range(3)] == [100, 100, 100]
    assert not lazy.later
    lazy = Parser(4096, 10_000)
    for number in range(4):
        lazy.put_off(b"PUB a 9000\r\n%09000d\r\n" % number)
    assert [len(lazy.read_on(100)) for _ in range(2)] == [2, 2], "and large ones are not"


def test_nothing_is_read_behind_a_violation():
    parser = Parser(4096, 1024)
    assert len(parser.feed(b"PING\r\n" * OPS_MAX + b"NONSENSE\r\nPING\r\n")) == OPS_MAX
    assert parser.feed(b"PING\r\n") == []
    ops = parser.read_on()
    assert [type(op) for op in ops] == [Violation]
    assert not parser.later
