"""Every subject of the JSON API with bodies, names and replies that nobody should send.

The rule: whoever gave a reply subject gets one well-formed answer, or none because the genuine
server is silent there too; the server logs nothing, keeps nothing and goes on.
"""

from __future__ import annotations

import json
from random import Random

import pytest
from jetstream_server.jetstream.api.dispatch import HANDLERS
from jetstream_server.jetstream.api.request import ROUTES

assert HANDLERS
PATTERNS = sorted({".".join(route.pattern) for route in ROUTES})

NAMES = [
    "S", "C", "x" * 255, "x" * 256, "x" * 1000, "é", "日本", "a b".replace(" ", "\u00a0"), "..",
    "a/b", "a\\b", "$JS", "\x7f", "\x01", "-", "null", "0", "%", "{}", "'", '"',
]  # fmt: skip
WRONG = [
    None, True, False, 0, -1, 1, 2**31, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 1e308, -0.5, "",
    "x", "-1", "1970-01-01T00:00:00Z", "not a time", "x" * 300, "a.b.>", "*", "a b", "\u0000", [],
    {}, [None], [[]], [1, "x"], {"": ""}, {"name": {"name": 1}}, [{}], "9" * 400,
]  # fmt: skip
FIELDS = [
    "name", "subjects", "retention", "max_consumers", "max_msgs", "max_bytes", "max_age",
    "max_msgs_per_subject", "max_msg_size", "discard", "storage", "num_replicas",
    "duplicate_window", "sealed", "allow_rollup_hdrs", "republish", "mirror", "sources",
    "subject_transform", "metadata", "placement", "compression", "first_seq", "consumer_limits",
    "stream_name", "config", "durable_name", "deliver_subject", "deliver_policy", "ack_policy",
    "ack_wait", "max_deliver", "backoff", "filter_subject", "filter_subjects", "opt_start_seq",
    "opt_start_time", "sample_freq", "priority_groups", "priority_policy", "pause_until",
    "inactive_threshold", "action", "seq", "last_by_subj", "next_by_subj", "keep", "filter",
    "offset", "no_erase", "batch", "expires", "no_wait", "idle_heartbeat", "state",
    "deliver_subject", "chunk_size", "unheard_of", "group", "multi_last", "up_to_time",
    "start_time",
]  # fmt: skip
SYNTAX = [
    b"", b"{", b"}", b"[]", b"null", b'"', b"{]", b'{"a"', b'{"a":}', b"\xff\xfe", b"{}{}",
    b"nul", b"[" * 5000, b'{"a":' * 5000, b"\0" * 10, b"9" * 5000, b'{"name":"\\ud800"}',
    b'{"seq":1e400}', b" {} ", b'{"name":"S",}', b"\xef\xbb\xbf{}", b'{"config":null}',
    b'{"config":[]}', b"x" * 100_000,
]  # fmt: skip


def subject(random: Random, pattern: str) -> bytes:
    """Return a subject for a pattern, its names drawn from the bad ones."""
    tokens = []
    for token in pattern.split("."):
        if token == "*":
            token = random.choice(NAMES)
        elif token == ">":
            token = ".".join(random.choices(NAMES, k=random.randint(1, 5)))
        tokens.append(token)
    return ("$JS.API." + ".".join(tokens)).encode().replace(b" ", b"_")


def body(random: Random) -> bytes:
    """Return a body that is no JSON, or JSON of the wrong shape."""
    if random.random() < 0.3:
        return random.choice(SYNTAX)
    fields = {name: random.choice(WRONG) for name in random.choices(FIELDS, k=random.randint(1, 6))}
    if random.random() < 0.6:
        fields |= {"name": "S", "stream_name": "S", "storage": "memory"}
    if random.random() < 0.4:
        fields = {"stream_name": "S", "config": fields}
    return json.dumps(fields).encode()


def asked(subject: bytes, reply: bytes, body: bytes) -> bytes:
    return b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(body), body)


@pytest.fixture
def peer(unharmed, connect):
    """A client with an inbox, and a stream and a consumer to be harmed."""
    peer = connect(unharmed.port)
    peer.subscribe_answers()
    yield peer
    peer.say(b"PUB $JS.API.STREAM.NAMES _INBOX.fuzz.names 0\r\n\r\n")
    names = []
    for found, _, payload in peer.messages():
        if found == b"_INBOX.fuzz.names":
            names = json.loads(payload)["streams"] or []
    for name in names:
        peer.say(b"PUB $JS.API.STREAM.DELETE.%b 0\r\n\r\n" % name.encode())
    assert list(peer.messages()) == []
    peer.close()


def begin(peer) -> None:
    """Make a stream and a consumer, with a message for it."""
    stream = b'{"name":"S","subjects":["s.>"],"storage":"memory"}'
    consumer = b'{"stream_name":"S","config":{"durable_name":"C","ack_policy":"explicit"}}'
    peer.say(asked(b"$JS.API.STREAM.CREATE.S", b"_INBOX.fuzz.a", stream))
    peer.say(asked(b"$JS.API.CONSUMER.DURABLE.CREATE.S.C", b"_INBOX.fuzz.b", consumer))
    peer.say(b"PUB s.a 1\r\nx\r\n")


def answers(peer) -> int:
    """Read what was asked for; every answer is an object with a type, or a bare status."""
    count = 0
    for _, headers, payload in peer.messages():
        count += 1
        if payload and not headers:
            answer = json.loads(payload)
            assert isinstance(answer, dict)
            if "error" in answer:
                error = answer["error"]
                assert set(error) <= {"code", "err_code", "description"}
                assert error["description"] and "Traceback" not in error["description"]
                assert 400 <= error["code"] < 600
            elif "deliver_subject" in answer:  # a restore that nobody means to fill
                peer.say(asked(answer["deliver_subject"].encode(), b"_INBOX.fuzz.end", b""))
    return count


@pytest.mark.parametrize("pattern", PATTERNS)
def test_bad_requests(pattern, rounds, peer):
    random = Random(f"api {pattern}")
    for _ in range(rounds):
        begin(peer)
        for number in range(60):
            peer.say(asked(subject(random, pattern), b"_INBOX.fuzz.%d" % number, body(random)))
        assert answers(peer) > 2


def test_a_field_of_the_wrong_type_each(peer):
    """Each field alone, with each wrong value, in the requests that take most of them."""
    begin(peer)
    for name in FIELDS:
        for wrong in WRONG:
            config = {"name": "T", "storage": "memory", name: wrong}
            consumer = {"durable_name": "D", name: wrong}
            wrapped = {"stream_name": "S", "config": consumer}
            peer.say(
                asked(b"$JS.API.STREAM.CREATE.T", b"_INBOX.fuzz.1", json.dumps(config).encode())
                + asked(
                    b"$JS.API.CONSUMER.DURABLE.CREATE.S.D",
                    b"_INBOX.fuzz.2",
                    json.dumps(wrapped).encode(),
                )
                + asked(b"$JS.API.STREAM.DELETE.T", b"", b"")
                + asked(b"$JS.API.CONSUMER.DELETE.S.D", b"", b"")
            )
        assert answers(peer) >= 2 * len(WRONG)


def test_requests_that_nobody_waits_for(peer):
    random = Random("no reply")
    begin(peer)
    for pattern in PATTERNS:
        head = subject(random, pattern)
        peer.say(b"PUB %b 2\r\n{}\r\n" % head)
        # Replies into the server's own subjects must not loop or be believed.
        for reply in (b"$JS.API.INFO", head, b"s.a", b"$JS.ACK.S.C.1.1.1.1.1", b"a..b", b">"):
            peer.say(asked(head, reply, b"{}"))
    answers(peer)


def test_subjects_of_four_kilobytes(peer):
    begin(peer)
    for pattern in PATTERNS:
        long = pattern.replace("*", "n" * 3500, 1).replace(">", "n" * 3500)
        peer.say(asked(b"$JS.API." + long.encode()[:4000], b"_INBOX.fuzz.1", b"{}"))
        tokens = b".".join([b"t"] * 1900)
        peer.say(asked(b"$JS.API." + pattern.split(".")[0].encode() + b"." + tokens, b"r", b"{}"))
    answers(peer)


def test_ten_thousand_requests_at_once(unharmed, connect):
    """From ten connections, none of which reads before everything is sent."""
    peers = [connect(unharmed.port, inbox=b"_INBOX.p%d" % number) for number in range(10)]
    for peer in peers:
        peer.subscribe_answers()
    begin(peers[0])
    answers(peers[0])
    for peer in peers:
        peer.say(
            b"".join(
                asked(request, b"%b.%d" % (peer.inbox, n), b"")
                for n in range(250)
                for request in (
                    b"$JS.API.INFO",
                    b"$JS.API.STREAM.INFO.S",
                    b"$JS.API.CONSUMER.INFO.S.C",
                    b"$JS.API.STREAM.INFO.NONE",
                )
            )
        )
    for peer in peers:
        assert answers(peer) == 1000
    peers[0].say(asked(b"$JS.API.STREAM.DELETE.S", b"_INBOX.p0.1", b""))
    assert answers(peers[0]) == 1
    for peer in peers:
        peer.close()
