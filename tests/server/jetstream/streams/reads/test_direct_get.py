"""Every form of direct get, with answers as recorded from the genuine server."""

from __future__ import annotations

import json
from array import array
from random import Random
from typing import Any

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import StoreError
from jetstream_server.core.subscription import Stretch
from jetstream_server.jetstream.streams.reads import direct_get
from jetstream_server.protocol.ops import PubRun

_PAST, _FUTURE = "2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z"


class Asker:
    """A stream of eight messages on `A.>`, one a second, and its direct gets."""

    def __init__(self, bench: Any) -> None:
        self.bench = bench
        self.stream = bench.stream(name="A", subjects=["A.>"], allow_direct=True)
        for subject, headers, payload in (
            (b"A.a", b"", b"one"),
            (b"A.b", b"NATS/1.0\r\nX: y\r\n\r\n", b"two"),
            (b"A.a", b"", b"three"),
            (b"A.b", b"", b"four"),
            (b"A.c", b"junk", b"five"),
            (b"A.d", b"NATS/1.0\r\n\r\n", b""),
            (b"A.c", b"NATS/1.0 200 OK\r\nA: b\r\n\r\n", b"six"),
            (b"A.c", b"NATS/1.0 200 OK\r\n\r\n", b"seven"),
        ):
            run = PubRun.of([(subject, b"", headers, payload)])
            self.stream.receive(Stretch(run, 0, 1, bench.inbox, None, bench.now))
            bench.advance(SECOND)

    def ask(
        self,
        body: dict[str, Any] | bytes = b"",
        *,
        subject: bytes = b"",
        headers: bytes = b"",
        reply: bytes = b"_INBOX.d",
    ) -> list[tuple[bytes, bytes]]:
        """Return (headers, payload) of the answers."""
        if isinstance(body, dict):
            body = json.dumps(body).encode()
        address = b"$JS.API.DIRECT.GET.A" + (b"." + subject if subject else b"")
        ((target,),) = self.bench.sublist.match(address).queues
        run = PubRun.of([(address, reply, headers, body)])
        target.receiver.receive(Stretch(run, 0, 1, target, None, self.bench.now))
        return [(headers, payload) for _, headers, payload in self.bench.sent()]

    def ask_many(self, requests: list[tuple[bytes, bytes, bytes]]) -> list[tuple[bytes, ...]]:
        """Return (reply, headers, payload) of the answers to (subject, headers, body), which come
        in one run from one client; the reply to each is its number."""
        address = b"$JS.API.DIRECT.GET.A"
        ((target,),) = self.bench.sublist.match(address).queues
        run = PubRun.of(
            [
                (address + subject, b"_INBOX.d.%d" % number, headers, body)
                for number, (subject, headers, body) in enumerate(requests)
            ]
        )
        target.receiver.receive(Stretch.of_server(run, target, self.bench.now))
        return [tuple(each) for each in self.bench.sent()]


@pytest.fixture
def asker(bench: Any) -> Asker:
    return Asker(bench)


def status(line: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"NATS/1.0 %b\r\n\r\n" % line, b"")]


def end(pending: int, last: int, up_to: int | None = None) -> tuple[bytes, bytes]:
    tail = b"" if up_to is None else b"Nats-UpTo-Sequence: %d\r\n" % up_to
    return (
        b"NATS/1.0 204 EOB\r\nNats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n%b\r\n"
        % (pending, last, tail),
        b"",
    )


def message(sequence: int, batch: tuple[int, int] | None = None) -> tuple[bytes, bytes]:
    """Return an answer; `batch` is its Nats-Num-Pending and Nats-Last-Sequence."""
    subject = b"ababcdcc"[sequence - 1 : sequence]
    text = ["", "one", "two", "three", "four", "five", "", "six", "seven"][sequence].encode()
    heads = {2: b"NATS/1.0\r\nX: y\r\n", 5: b"ju", 7: b"NATS/1.0\r\nA: b\r\n"}
    more = b"" if batch is None else b"Nats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n" % batch
    headers = (
        b"%bNats-Stream: A\r\nNats-Subject: A.%b\r\nNats-Sequence: %d\r\n"
        b"Nats-Time-Stamp: 2023-11-14T22:13:2%dZ\r\n%b\r\n"
        % (heads.get(sequence, b"NATS/1.0\r\n"), subject, sequence, sequence - 1, more)
    )
    return headers, text


def test_by_sequence(asker: Asker) -> None:
    for sequence in range(1, 9):
        assert asker.ask({"seq": sequence}) == [message(sequence)]
    assert asker.ask({"SEQ": 1, "unknown": 2, "start_time": None}) == [message(1)]
    assert asker.ask({"seq": 2, "no_hdr": True}) == [(b"", b"two")]
    assert asker.ask({"seq": 2, "max_bytes": 1}) == [message(2)]
    assert asker.ask({"seq": 2, "batch": 0}) == [message(2)]
    assert asker.ask({"seq": 99}) == status(b"404 Message Not Found")


def test_gaps(asker: Asker) -> None:
    asker.stream.delete_message(2, False, asker.bench.now)
    assert asker.ask({"seq": 2}) == status(b"404 Message Not Found")
    assert asker.ask({"seq": 2, "next_by_subj": ">"}) == [message(3)]
    assert asker.ask({"seq": 2, "batch": 1}) == [message(3, (5, 0)), end(5, 3)]


@pytest.mark.parametrize(
    "body",
    [
        b"x",
        b"[]",
        b" ",
        b'{"seq":-1}',
        b'{"seq":1} x',
        b'{"seq":1}{"seq":2}',
        b'{"seq":"1"}',
        b'{"seq":1.0}',
        b'{"start_time":"bad"}',
        b'{"last_by_subj":7}',
        b'{"multi_last":"a"}',
        b'{"no_hdr":1}',
        b'{"batch":true}',
    ],
)
def test_malformed(asker: Asker, body: bytes) -> None:
    assert asker.ask(body) == status(b"408 Malformed Request")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"null",
        {"seq": 0},
        {"foo": 1},
        {"batch": 2},
        {"batch": -1},
        {"multi_last": []},
        {"up_to_seq": 3},
        {"up_to_seq": 3, "up_to_time": _PAST},
    ],
    ids=str,
)
def test_empty(asker: Asker, body: Any) -> None:
    assert asker.ask(body) == status(b"408 Empty Request")


@pytest.mark.parametrize(
    "body",
    [
        {"seq": 1, "last_by_subj": "A.a"},
        {"seq": 1, "start_time": _PAST, "batch": 2},
        {"start_time": _PAST, "last_by_subj": "A.a"},
        {"last_by_subj": "A.a", "next_by_subj": "A.a"},
        {"last_by_subj": "A.a", "batch": 2},
        {"last_by_subj": "A.a", "multi_last": ["A.a"]},
        {"next_by_subj": "A.a", "multi_last": ["A.a"]},
        {"multi_last": ["A.a"], "up_to_seq": 3, "up_to_time": _PAST},
    ],
    ids=str,
)
def test_contradictory(asker: Asker, body: Any) -> None:
    assert asker.ask(body) == status(b"408 Bad Request")


def test_by_subject(asker: Asker) -> None:
    not_found = status(b"404 Message Not Found")
    assert asker.ask({"last_by_subj": "A.a"}) == [message(3)]
    assert asker.ask({"last_by_subj": "A.*"}) == [message(8)]
    assert asker.ask({"last_by_subj": "A.z"}) == not_found
    assert asker.ask({"last_by_subj": "A.."}) == not_found
    assert asker.ask({"next_by_subj": "A.b"}) == [message(2)]
    assert asker.ask({"next_by_subj": "A.b", "seq": 3}) == [message(4)]
    assert asker.ask({"next_by_subj": "A.b", "seq": 5}) == not_found


def test_by_time(asker: Asker) -> None:
    assert asker.ask({"start_time": _PAST}) == [message(1)]
    assert asker.ask({"start_time": "2023-11-14T22:13:21.5Z"}) == [message(3)]
    assert asker.ask({"start_time": _PAST, "next_by_subj": "A.b"}) == [message(2)]
    assert asker.ask({"start_time": _FUTURE}) == status(b"404 Message Not Found")


def test_subject_in_the_address(asker: Asker) -> None:
    assert asker.ask(subject=b"A.a") == [message(3)]
    assert asker.ask(subject=b"A.*") == [message(8)]
    assert asker.ask(subject=b"A.z") == status(b"404 Message Not Found")
    assert asker.ask({}, subject=b"A.b") == [message(4)]
    assert asker.ask({"no_hdr": True}, subject=b"A.b") == [(b"", b"four")]
    assert asker.ask({"max_bytes": 2, "multi_last": []}, subject=b"A.b") == [message(4)]
    for body in ({"seq": 1}, {"batch": 2}, {"last_by_subj": "A.a"}):
        assert asker.ask(body, subject=b"A.b") == status(b"408 Bad Request")
    assert asker.ask(b"x", subject=b"A.b") == status(b"408 Malformed Request")


@pytest.mark.parametrize("reply", [b"_INBOX.d", b"nobody.known"])
def test_batch(asker: Asker, reply: bytes) -> None:
    assert asker.ask({"batch": 3, "seq": 1}, reply=reply) == [
        message(1, (7, 0)),
        message(2, (6, 1)),
        message(3, (5, 2)),
        end(5, 3),
    ]
    assert asker.ask({"batch": 2, "seq": 7}, reply=reply) == [
        message(7, (1, 0)),
        message(8, (0, 7)),
        end(0, 8),
    ]
    assert asker.ask({"batch": 2, "seq": 99}) == status(b"404 Message Not Found")
    assert asker.ask({"batch": -1, "seq": 1}) == [end(8, 0)]
    assert asker.ask({"batch": 2, "next_by_subj": "A.a", "seq": 2}) == [
        message(3, (0, 0)),
        end(0, 3),
    ]
    assert asker.ask({"batch": 1, "start_time": _PAST}) == [message(1, (7, 0)), end(7, 1)]
    assert asker.ask({"batch": 1, "start_time": _FUTURE}) == status(b"404 Message Not Found")


def test_a_batch_is_one_buffer(asker: Asker) -> None:
    ((target,),) = asker.bench.sublist.match(b"$JS.API.DIRECT.GET.A").queues
    run = PubRun.of([(b"$JS.API.DIRECT.GET.A", b"_INBOX.d", b"", b'{"batch":8,"seq":1}')])
    target.receiver.receive(Stretch(run, 0, 1, target, None, asker.bench.now))
    assert [send.count for send in asker.bench.output.sends_after_flush] == [9]


def test_no_hdr_batch_does_not_count_down(asker: Asker) -> None:
    bare = [(b"", text) for text in (b"one", b"two", b"three")]
    assert asker.ask({"batch": 3, "seq": 1, "no_hdr": True}) == [*bare, end(8, 3)]


@pytest.mark.parametrize(("max_bytes", "count"), [(6, 1), (7, 2), (1, 1), (-1, 1), (0, 5)])
def test_max_bytes(asker: Asker, max_bytes: int, count: int) -> None:
    answers = asker.ask({"batch": 5, "seq": 1, "max_bytes": max_bytes})
    assert answers[:-1] == [message(n, (8 - n, n - 1)) for n in range(1, count + 1)]
    assert answers[-1] == end(8 - count, count)


def test_multi_last(asker: Asker) -> None:
    everything = [
        message(3, (3, 0)),
        message(4, (2, 3)),
        message(6, (1, 4)),
        message(8, (0, 6)),
        end(0, 8, 8),
    ]
    for more in (
        {},
        {"multi_last": ["A.>", "A.a"]},
        {"up_to_seq": 8},
        {"no_hdr": True},
        {"up_to_time": _FUTURE},
        {"batch": -1},
    ):
        assert asker.ask({"multi_last": ["A.>"], **more}) == everything
    assert asker.ask({"multi_last": ["A.>"], "batch": 2}) == [*everything[:2], end(2, 4, 8)]
    assert asker.ask({"multi_last": ["A.>"], "max_bytes": 9}) == [*everything[:2], end(2, 4, 8)]
    assert asker.ask({"multi_last": ["A.>"], "seq": 4, "batch": 1}) == [
        message(4, (2, 0)),
        end(2, 4, 8),
    ]
    assert asker.ask({"multi_last": ["A.>"], "seq": 99}) == [end(0, 0, 8)]
    assert asker.ask({"multi_last": ["A.>"], "up_to_seq": 2}) == [
        message(1, (1, 0)),
        message(2, (0, 1)),
        end(0, 2, 2),
    ]
    assert asker.ask({"multi_last": ["A.>"], "up_to_time": "2023-11-14T22:13:21Z"}) == [
        message(1, (0, 0)),
        end(0, 1, 1),
    ]


@pytest.mark.parametrize(
    "body",
    [
        {"multi_last": ["A.z"]},
        {"multi_last": ["A.."]},
        {"multi_last": ["A.>"], "up_to_seq": 9},
        {"multi_last": ["A.>"], "up_to_time": _PAST},
    ],
    ids=str,
)
def test_multi_last_without_results(asker: Asker, body: Any) -> None:
    assert asker.ask(body) == status(b"404 No Results")


def test_too_many_results(asker: Asker) -> None:
    messages = [(b"A.many.%d" % n, b"", ()) for n in range(1025)]
    asker.bench.publish_all(asker.stream, messages)
    assert asker.ask({"multi_last": ["A.many.*"], "batch": 1}) == status(b"413 Too Many Results")
    asker.stream.purge(b"A.many.7", 0, 0, asker.bench.now)
    assert len(asker.ask({"multi_last": ["A.many.*"]})) == 1025


def test_required_level(asker: Asker) -> None:
    refused = status(b"412 Required Api Level")
    for value, answer in (
        ("99", refused),
        ("text", refused),
        ("1", None),
        ("", None),
        ("-1", None),
    ):
        headers = asker.bench.block(f"Nats-Required-Api-Level: {value}")
        assert asker.ask({"seq": 1}, headers=headers) == (answer or [message(1)])


def test_a_client_without_headers(asker: Asker) -> None:
    asker.bench.client.headers = False
    answers = asker.ask({"seq": 1, "batch": 2})
    assert answers == [(b"", b"one"), (b"", b"two"), (b"", b"")]


def test_no_reply_no_answer(asker: Asker) -> None:
    assert asker.ask({"seq": 1}, reply=b"") == []


def test_an_empty_stream(bench: Any) -> None:
    asker = Asker(bench)
    asker.stream.purge(b"", 0, 0, bench.now)
    assert asker.ask({"seq": 1}) == status(b"404 Message Not Found")
    assert asker.ask({"seq": 1, "batch": 1}) == status(b"404 Message Not Found")
    assert asker.ask({"multi_last": ["A.>"]}) == status(b"404 No Results")
    assert asker.ask(subject=b"A.a") == status(b"404 Message Not Found")


def test_fractions_of_a_second(bench: Any) -> None:
    bench.now += 120_000_001
    stream = bench.stream(name="A", subjects=["A.>"], allow_direct=True)
    bench.publish(stream, b"A.a")
    asker_body = b'{"seq":1}'
    ((target,),) = bench.sublist.match(b"$JS.API.DIRECT.GET.A").queues
    run = PubRun.of([(b"$JS.API.DIRECT.GET.A", b"_INBOX.d", b"", asker_body)])
    target.receiver.receive(Stretch(run, 0, 1, target, None, bench.now))
    ((_, headers, _),) = bench.sent()
    assert b"Nats-Time-Stamp: 2023-11-14T22:13:20.120000001Z\r\n" in headers


_ASKED = [
    *[(b"", b"", b'{"seq":%d}' % sequence) for sequence in (1, 2, 5, 6, 7, 8, 0, 9, 3)],
    *[(b".A.%b" % name, b"", b"") for name in (b"a", b"b", b"c", b"d", b"none", b"*")],
    (b"", b"", b""),
    (b"", b"NATS/1.0\r\nA: b\r\n\r\n", b'{"seq":1}'),
    (b"", b"", b'{"seq":1,"no_hdr":true}'),
    (b"", b"", b'{"last_by_subj":"A.b"}'),
    (b"", b"", b"junk"),
    (b".A.a", b"", b'{"seq":1}'),
]


def test_many_at_once_are_answered_as_one_by_one(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asker = Asker(bench)
    asker.stream.delete_message(3, False, bench.now)
    bench.sent()
    random = Random(1)
    for _ in range(100):
        asked = random.choices(_ASKED, k=random.randrange(20))
        asked += random.choices(_ASKED[:14], k=20) + random.choices(_ASKED, k=5)
        with monkeypatch.context() as patch:
            patch.setattr(direct_get.DirectGet, "_asked", lambda *given: array("Q"))
            expected = asker.ask_many(asked)
        assert asker.ask_many(asked) == expected
        assert [reply for reply, *_ in expected] == [
            b"_INBOX.d.%d" % number for number in range(len(asked))
        ]


@pytest.mark.parametrize("method", ["locate", "subject_lasts"])
def test_many_at_once_hear_of_an_offline_store(
    asker: Asker, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def fail(*arguments: object) -> None:
        raise StoreError("the disk failed")

    monkeypatch.setattr(asker.stream.store, method, fail)
    monkeypatch.setattr(asker.stream.store, "load", fail)
    monkeypatch.setattr(asker.stream.store, "load_last", fail)
    told = b"NATS/1.0 500 the disk failed\r\n\r\n"
    for asked in (_ASKED[0], (b".A.a", b"", b"")):
        answers = asker.ask_many([asked] * 6)
        assert [headers for _, headers, _ in answers] == [told] * 6
