"""Monitoring paths and system services with parameters that nobody should send."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from random import Random

from jetstream_server.monitor.routes import PATHS

NAMES = [
    "acc", "account", "accounts", "auth", "cid", "config", "consumer", "consumers", "details",
    "filter_subject", "js-enabled", "js-enabled-only", "js-server-only", "limit", "offset", "sort",
    "state", "stream", "streams", "subs", "test", "unused", "user", "callback",
]  # fmt: skip
VALUES = [
    "", "0", "1", "-1", "true", "detail", "x", "9" * 40, "a..b", "a.*", ">", "$G", "S", "cid",
    "stop", "closed", "\0", "é", "\ud7ff", "x" * 3000, "1e9", "1_0", "null", "[]", "..", "%",
    "/../../etc",
]  # fmt: skip
WRONG = [
    None,
    True,
    0,
    -1,
    2**63,
    2**64,
    1.5,
    "",
    "x",
    "$G",
    "a.*",
    "x" * 500,
    [],
    {},
    [None],
    [{}],
]


def test_paths(seed, unharmed):
    random = Random(f"paths {seed}")
    for path in PATHS:
        for _ in range(12):
            chosen = {random.choice(NAMES): random.choice(VALUES) for _ in range(3)}
            query = urllib.parse.urlencode(chosen)
            address = f"http://127.0.0.1:{unharmed.monitor}{path}?{query}"
            try:
                with urllib.request.urlopen(address, timeout=20) as answer:
                    json.loads(answer.read())
            except urllib.error.HTTPError as error:
                assert error.code in (400, 404)
                assert error.read()


def test_system_services(seed, unharmed, connect):
    random = Random(f"services {seed}")
    peer = connect(unharmed.port)
    peer.subscribe_answers()
    subjects = [b"USER.INFO", b"ACCOUNT.PING.CONNZ", b"ACCOUNT.PING.STATZ", b"SERVER.PING", b""]
    asked = 0
    for number in range(200):
        fields = {
            random.choice([*NAMES, "server_name", "tags", "exact_match"]): random.choice(WRONG)
        }
        body = random.choice([json.dumps(fields).encode(), b"{", b"[]", b"\xff", b"[" * 999])
        subject = b"$SYS.REQ." + random.choice(subjects)
        peer.say(b"PUB %b _INBOX.fuzz.%d %d\r\n%b\r\n" % (subject, number, len(body), body))
        asked += subject.endswith(b"INFO")
    answers = list(peer.messages())
    assert len(answers) >= asked
    for _, headers, payload in answers:
        assert headers or json.loads(payload)["server"]
    peer.close()


def test_templates_by_the_hundred(unharmed, connect):
    """What a template makes goes with it, also when many clients make it at once."""
    peer = connect(unharmed.port)
    peer.subscribe_answers()
    body = b'{"name":"T","max_streams":100,"config":{"subjects":["tt.>"],"storage":"memory"}}'
    peer.say(b"PUB $JS.API.STREAM.TEMPLATE.CREATE.T _INBOX.fuzz.1 %d\r\n%b\r\n" % (len(body), body))
    assert [b"error" in payload for _, _, payload in peer.messages()] == [False]
    subjects = [b"tt.%d" % number for number in range(120)]
    subjects += [b"tt.a/b", b"tt.\xff", b"tt." + b"y" * 300, b"tt.a_b", b"tt.a.b"]
    for subject in subjects * 2:
        peer.say(b"PUB %b _INBOX.fuzz.2 1\r\nx\r\n" % subject)
    acks = [payload for subject, _, payload in peer.messages() if subject == b"_INBOX.fuzz.2"]
    assert len(acks) == 2 * len(subjects)
    assert sum(b'"error"' not in ack for ack in acks) == 200
    peer.say(b"PUB $JS.API.STREAM.TEMPLATE.DELETE.T _INBOX.fuzz.3 0\r\n\r\n")
    assert [b'"success":true' in payload for _, _, payload in peer.messages()] == [True]
    peer.close()
