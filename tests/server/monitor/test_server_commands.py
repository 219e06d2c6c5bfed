"""KICK, LDM and RELOAD, as asked by the system account."""

from __future__ import annotations

import json

import pytest
from jetstream_server.monitor.server_commands import ServerCommands


@pytest.fixture
def reloads(node, now):
    """Return those who have asked for a reload; they are told at once, unless that is slow."""

    class Reloads(list):
        refusal = ""
        is_slow = False

        def __call__(self, told):
            self.append(told)
            if not self.is_slow:
                told(self.refusal, now)

    reloads = Reloads()
    ServerCommands(node, reloads).subscribe()
    return reloads


@pytest.fixture
def ask(node, connect, reloads):
    admin = connect("s")

    def ask(verb, body=""):
        answers = admin.ask(f"$SYS.REQ.SERVER.{node.server_id}.{verb}", body)
        return [json.loads(answer) for answer in answers]

    return ask


def test_kick(ask, connect):
    client = connect("a")
    (answer,) = ask("KICK", json.dumps({"cid": client.session.cid}))
    assert list(answer) == ["server"]
    assert client.session.closing == "Kicked"


def test_move_on(ask, connect):
    client = connect("a")
    client.say(b'CONNECT {"user":"a","pass":"x","verbose":false,"protocol":1}\r\nPING\r\n')
    (answer,) = ask("LDM", json.dumps({"cid": client.session.cid}))
    assert list(answer) == ["server"]
    assert b'"ldm":true' in client.say(b"") and not client.session.closing


@pytest.mark.parametrize("body", ['{"cid":99}', '{"cid":"1"}', "{}", "[]"])
def test_nobody_of_that_number(ask, body):
    assert ask("KICK", body)[0]["error"] == {
        "code": 500,
        "description": "no such client or leafnode id",
    }
    assert ask("LDM", body)[0]["error"] == {"code": 500, "description": "no such client id"}


@pytest.mark.parametrize("body", ["", "{bad"])
def test_what_cannot_be_read_is_not_answered(ask, body):
    assert ask("KICK", body) == ask("LDM", body) == []


def test_reload(ask, reloads):
    assert list(ask("RELOAD")[0]) == ["server"] and len(reloads) == 1
    reloads.refusal = "config reload not supported for MaxSubs: old=0, new=50"
    assert ask("RELOAD")[0]["error"] == {"code": 500, "description": reloads.refusal}


def test_who_reloads_is_not_heard_until_it_is_followed(node, connect, reloads, now):
    """And what it asks for then is answered under the new configuration."""
    reloads.is_slow = True
    admin, other = connect("s"), connect("a")
    base = b"$SYS.REQ.SERVER.%b" % node.server_id.encode()
    asked = b"PUB %b.RELOAD _R 0\r\n\r\n" % base * 2 + b"PING\r\n"
    assert admin.say(asked) == b"" and len(reloads) == 1
    assert other.say(b"PING\r\n") == b"PONG\r\n"
    reloads[0]("", now)
    assert admin.say(b"").startswith(b"MSG _R 1 ") and len(reloads) == 2
    reloads[1]("not allowed", now)
    said = admin.say(b"")
    assert b"not allowed" in said and b"PONG\r\n" in said


def test_others_may_not(node, connect, reloads):
    assert connect("a").ask(f"$SYS.REQ.SERVER.{node.server_id}.RELOAD") == []
    assert reloads == []
