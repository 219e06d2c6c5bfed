"""What a session does until it is known whether its password is right."""

from __future__ import annotations

import bcrypt
import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.node.auth.auth import Authenticator, User

HASHED = bcrypt.hashpw(b"pw", bcrypt.gensalt(4)).decode()
OTHER = bcrypt.hashpw(b"other", bcrypt.gensalt(4)).decode()
QUIET = b'"verbose":false,"pedantic":false'


class Slowly:
    """A checker that answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list = []
        self.forgotten: list = []

    def ask(self, question, host, answered) -> None:
        self.asked.append((question, host, answered))

    def forget(self, answered) -> None:
        self.forgotten.append(answered)

    def answer(self) -> None:
        question, _, answered = self.asked.pop(0)
        answered(question.answer())


@pytest.fixture
def checker():
    return Slowly()


@pytest.fixture
def node(make_node, checker):
    node = make_node([User(name="h", password=HASHED), User(name="p", password="pw")])
    node.password_checker = checker
    return node


def connect(name: str, password: str) -> bytes:
    return b'CONNECT {"user":"%b","pass":"%b",%b}\r\nPING\r\n' % (
        name.encode(),
        password.encode(),
        QUIET,
    )


def test_others_are_served_meanwhile_and_what_it_says_waits(node, checker, make_client):
    client, other = make_client(node), make_client(node)
    assert client.say(connect("h", "pw") + b"SUB a 1\r\n") == b""
    assert client.session.has_postponed
    assert other.say(connect("p", "pw")).startswith(b"PONG")
    assert client.say(b"PING\r\n") == b""
    assert len(checker.asked) == 1 and node.next_deadline() != 0
    checker.answer()
    assert node.next_deadline() == 0
    assert client.say(b"").count(b"PONG") == 2
    assert client.session.subscription_count == 1
    assert not client.session.has_postponed


def test_a_wrong_password_is_refused(node, checker, make_client):
    client = make_client(node)
    client.say(connect("h", "no"))
    checker.answer()
    assert b"Authorization Violation" in client.say(b"")
    assert client.session.closing and not checker.asked


def test_the_time_to_sign_in_goes_on(node, checker, make_client):
    client = make_client(node)
    client.now += SECOND
    client.say(connect("h", "pw"))
    client.now += SECOND - 1
    assert client.say(b"") == b""
    client.now += 1
    node.run(client.now)
    assert b"Authentication Timeout" in client.read()
    node.close_session(client.session, client.session.closing, client.now)
    assert checker.forgotten == [client.session.sign_in._inquiry.answered]
    checker.answer()  # which was too late to be taken back
    assert node.next_deadline() != 0


def test_who_writes_and_closes_has_published_once_the_password_is_compared(
    node, checker, make_client
):
    client, other = make_client(node), make_client(node)
    other.say(connect("p", "pw") + b"SUB a 1\r\n")
    client.say(connect("h", "pw") + b"SUB a 1\r\nPUB a 2\r\nhi\r\n")
    node.close_session(client.session, "Client Closed", client.now)
    assert len(checker.asked) == 1 and not checker.forgotten
    assert other.say(b"") == b""
    checker.answer()
    assert other.say(b"") == b"MSG a 1 2\r\nhi\r\n"
    assert client.read() == b"" and list(node.sessions.values()) == [other.session]
    assert not client.session.account.clients - {other.session.cid}


def test_who_closes_is_heard_no_longer_than_it_has_to_sign_in(node, checker, make_client):
    client = make_client(node)
    client.say(connect("h", "pw"))
    node.close_session(client.session, "Client Closed", client.now)
    node.run(client.now + 2 * SECOND - 1)
    assert node.sessions
    for _ in range(2):
        node.run(client.now + 2 * SECOND)
    assert not node.sessions and len(checker.forgotten) == 1
    (closed,) = node.closed
    assert closed.reason == "Authentication Timeout"


def test_who_signs_in_again_is_asked_again_and_has_as_long(node, checker, make_client):
    client = make_client(node)
    assert b"PONG" in client.say(connect("p", "pw"))
    client.now += 10 * SECOND
    assert client.say(connect("h", "pw")) == b""
    node.run(client.now)
    assert not client.session.closing
    checker.answer()
    assert b"PONG" in client.say(b"")
    assert client.session.user.name == "h"
    client.say(connect("h", "other"))  # what was found out is not kept
    assert [question.given for question, _, _ in checker.asked] == ["other"]


def test_another_hash_by_the_time_of_the_answer_is_another_question(node, checker, make_client):
    client = make_client(node)
    client.say(connect("h", "other"))
    node.authenticator = Authenticator([User(name="h", password=OTHER)])
    checker.answer()
    assert client.say(b"") == b""
    checker.answer()
    assert b"PONG" in client.say(b"")
