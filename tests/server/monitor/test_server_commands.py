"""KICK, LDM and RELOAD, as asked by the system account."""

from __future__ import annotations

import json

import pytest
from jetstream_server.base.errors import ConfigError
from jetstream_server.monitor.server_commands import ServerCommands


@pytest.fixture
def reloads(node):
    """Return the times at which a reload was asked for; an error in `refusal` is raised."""

    class Reloads(list):
        refusal = ""

        def __call__(self, now):
            self.append(now)
            if self.refusal:
                raise ConfigError(self.refusal)

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


def test_reload(ask, reloads, now):
    assert list(ask("RELOAD")[0]) == ["server"] and reloads == [now]
    reloads.refusal = "config reload not supported for MaxSubs: old=0, new=50"
    assert ask("RELOAD")[0]["error"] == {"code": 500, "description": reloads.refusal}


def test_others_may_not(node, connect, reloads):
    assert connect("a").ask(f"$SYS.REQ.SERVER.{node.server_id}.RELOAD") == []
    assert reloads == []
