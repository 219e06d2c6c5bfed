"""Log lines of conversations, as nats-server 2.15.1 writes them."""

from __future__ import annotations

from typing import Any

import pytest
from jetstream_server.node.trace import Trace, label
from jetstream_server.protocol.parser import Parser


class Log:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, level: str, text: str) -> None:
        self.lines.append(f"[{level}] {text}")

    def take(self) -> list[str]:
        """Return what follows the client's label, lines since the last call."""
        taken = [line.partition("cid:1 - ")[2] for line in self.lines]
        self.lines.clear()
        return taken


@pytest.fixture
def session(node: Any) -> Any:
    return node.open_session("127.0.0.1", 52060, 0)


def said(data: bytes, trace: Trace, session: Any) -> None:
    parser = Parser(4096, 1 << 20)
    parser.headers = True
    for op in parser.feed(data):
        trace.arrived(session, op)


def test_what_clients_say(session: Any) -> None:
    log = Log()
    data = (
        b'CONNECT {"verbose":false,"user":"u","pass":"secret","auth_token":"t","name":"me"}\r\n'
        b"PING\r\nPONG\r\nSUB a 1\r\nSUB b q 2\r\nUNSUB 1 7\r\nUNSUB 2\r\n"
        b"PUB a 5\r\nhello\r\nPUB a r 0\r\n\r\n"
        b"HPUB a 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nxx\r\nPUB a 5\r\na\x00\xff\r\n\r\n"
    )
    said(data, Trace(log), session)
    assert log.lines[0].startswith("[TRC] 127.0.0.1:52060 - cid:1 - <<- [CONNECT {")
    assert log.take() == [
        '<<- [CONNECT {"verbose":false,"user":"u","pass":"[REDACTED]",'
        '"auth_token":"[REDACTED]","name":"me"}]',
        "<<- [PING]",
        "<<- [PONG]",
        "<<- [SUB a 1]",
        "<<- [SUB b q 2]",
        "<<- [UNSUB 1 7]",
        "<<- [UNSUB 2]",
        "<<- [PUB a 5]",
        '<<- MSG_PAYLOAD: ["hello"]',
        "<<- [PUB a r 0]",
        "<<- [HPUB a 18 20]",
        r'<<- MSG_PAYLOAD: ["NATS/1.0\r\nA: b\r\n\r\nxx"]',
        "<<- [PUB a 5]",
        r'<<- MSG_PAYLOAD: ["a\x00\xff\r\n"]',
    ]


def test_what_the_server_says(session: Any) -> None:
    log = Log()
    Trace(log).left(
        session,
        b"INFO {} \r\n+OK\r\nPONG\r\nPING\r\nMSG a 1 5\r\nhello\r\nMSG a 1 r 0\r\n\r\n"
        b"HMSG a 1 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nxx\r\n-ERR 'Unknown Protocol Operation'\r\n",
    )
    assert log.take() == [
        "->> [OK]",
        "->> [PONG]",
        "->> [PING]",
        "->> [MSG a 1 5]",
        '->> MSG_PAYLOAD: ["hello"]',
        "->> [MSG a 1 r 0]",
        "->> [HMSG a 1 18 20]",
        r'->> MSG_PAYLOAD: ["NATS/1.0\r\nA: b\r\n\r\nxx"]',
        "->> [-ERR Unknown Protocol Operation]",
    ]


def test_long_payloads_are_cut(session: Any) -> None:
    log = Log()
    trace = Trace(log, payload_max=10)
    said(b"PUB a 12\r\n0123456789ab\r\nPUB a 10\r\n0123456789\r\n", trace, session)
    assert log.take()[1::2] == [
        '<<- MSG_PAYLOAD: ["0123456789..."]',
        '<<- MSG_PAYLOAD: ["0123456789"]',
    ]


def test_who_comes_and_goes(session: Any) -> None:
    log = Log()
    trace = Trace(log)
    trace.opened(session)
    session.closing = "Client Closed"
    trace.closed(session)
    assert log.lines == [
        "[DBG] 127.0.0.1:52060 - cid:1 - Client connection created",
        "[DBG] 127.0.0.1:52060 - cid:1 - Client connection closed: Client Closed",
    ]


def test_names_of_clients(node: Any) -> None:
    session = node.open_session("::1", 7, 0)
    assert label(session) == "[::1]:7 - cid:1"
    session.feed(b'CONNECT {"name":"me","lang":"python3","version":"2.9"}\r\n')
    node.run(0)
    assert label(session) == '[::1]:7 - cid:1 - "v2.9:python3:me"'
    session.sign_in.options = {"name": "me", "user": "u"}
    assert label(session) == '[::1]:7 - cid:1 - "me" - "$G/user:u"'


def test_a_session_is_traced_when_asked_for(node: Any) -> None:
    log = Log()
    node.trace = Trace(log)
    quiet = node.open_session("127.0.0.1", 1, 0)
    quiet.feed(b"PING\r\n")
    node.run(0)
    assert log.take() == ["Client connection created"]
    node.protocol_trace = node.trace
    quiet.feed(b'CONNECT {"verbose":false}\r\nPING\r\n')
    node.run(0)
    quiet.take_output()
    node.close_session(quiet, "Client Closed")
    assert log.take() == [
        '<<- [CONNECT {"verbose":false}]',
        "<<- [PING]",
        "->> [PONG]",
        "Client connection closed: Client Closed",
    ]


def test_headers_may_be_all_that_is_shown(session: Any) -> None:
    log = Log()
    trace = Trace(log, headers_only=True)
    head = b"NATS/1.0\r\nA: b\r\n\r\n"
    said(b"PUB a 2\r\nhi\r\nHPUB a 18 22\r\n" + head + b"body\r\n", trace, session)
    trace.left(session, b"MSG a 1 2\r\nhi\r\nHMSG a 1 18 22\r\n" + head + b"body\r\n")
    shown = 'MSG_PAYLOAD: ["NATS/1.0\\r\\nA: b"]'
    assert log.take() == [
        "<<- [PUB a 2]",
        "<<- [HPUB a 18 22]",
        f"<<- {shown}",
        "->> [MSG a 1 2]",
        "->> [HMSG a 1 18 22]",
        f"->> {shown}",
    ]
