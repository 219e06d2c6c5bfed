"""Requests about JWTs; played beside the genuine server by `test_resolver.py`."""

import json

import pytest
from jetstream_server.base.clock import MILLISECOND
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.options import OperatorOptions
from jetstream_server.monitor.claims_services import ClaimsServices
from jetstream_server.node.accounts.account_changes import UNITS_OF_STEP, AccountChanges

from tests.server.monitor.conftest import NOW


class Kept:
    """Stands for where JWTs are kept."""

    def __init__(self):
        self.held = {}
        self.wrong = ""

    def tokens(self):
        return self.held

    def change(self, changed, now):
        if self.wrong:
            raise ConfigError(self.wrong)
        yield 1
        held = self.held | changed
        self.held = {key: jwt for key, jwt in held.items() if jwt is not None}


@pytest.fixture
def kept():
    return Kept()


@pytest.fixture
def ask(node, connect, credentials, kept):
    operator = OperatorOptions((credentials.OPERATOR.public,), may_delete=True)
    changes = AccountChanges(node.accounts["$SYS"], node.workload)
    ClaimsServices(node, operator, kept, changes).subscribe()
    client = connect("s")
    client.say(b"SUB r 9\r\n")

    def ask(subject, body=""):
        data = body.encode()
        said = client.say(b"PUB $SYS.REQ.%b r %d\r\n%b\r\n" % (subject.encode(), len(data), data))
        parts = said.split(b"\r\n")
        return [part.decode() for part in parts[1::2]]

    return ask


def test_updates_and_look_ups(ask, kept, credentials):
    key, token = credentials.account_key("A").public, credentials.account("A", {})
    (answer,) = ask("CLAIMS.UPDATE", token)
    assert json.loads(answer)["data"] == {"account": key, "code": 200, "message": "jwt updated"}
    assert kept.held == {key: token}
    assert ask(f"ACCOUNT.{key}.CLAIMS.LOOKUP") == [token]
    assert ask("ACCOUNT.AX.CLAIMS.LOOKUP") == [""]
    assert json.loads(ask("CLAIMS.LIST")[0])["data"] == [key]
    assert ask("CLAIMS.PACK") == [f"{key}|{token}", ""]
    assert "jwt updated" in ask(f"ACCOUNT.{key}.CLAIMS.UPDATE", token)[0]


def test_what_is_no_update(ask, kept, credentials):
    foreign = credentials.account("A", {}, credentials.Key("operator", "other"))
    for subject, body, text in (
        ("CLAIMS.UPDATE", "x", "jwt update resulted in error - expected 3 chunks"),
        ("CLAIMS.UPDATE", foreign, "not signed by a trusted operator"),
        ("ACCOUNT.AX.CLAIMS.UPDATE", credentials.account("A", {}), "subject does not match"),
        ("ACCOUNT.AX.CLAIMS.UPDATE", "x", "expected 3 chunks"),
        ("ACCOUNT.AX.CLAIMS.UPDATE", foreign, "not signed by a trusted operator"),
    ):
        error = json.loads(ask(subject, body)[0])["error"]
        assert error["code"] == 500 and text in error["description"]
        whose = {"x": "n/a", foreign: credentials.account_key("A").public}
        assert error["account"] == whose.get(body, "AX")
    kept.wrong = "no room"
    error = json.loads(ask("CLAIMS.UPDATE", credentials.account("A", {}))[0])["error"]
    assert error["description"] == "jwt update resulted in error - no room"
    assert kept.held == {}


def test_a_mapping_that_cannot_be_is_no_update(ask, kept, credentials):
    for destination, text in (
        ("b.$2", "invalid mapping destination: wildcard index out of range in $2: [2]"),
        ("b.>", "invalid subject"),
        ("a.*", "invalid subject"),
    ):
        mappings = {"c": [{"subject": "c"}], "a.*": [{"subject": destination}]}
        (answer,) = ask("CLAIMS.UPDATE", credentials.account("A", {}, mappings=mappings))
        description = json.loads(answer)["error"]["description"]
        assert description == f'jwt validation failed - mapping "a.*" -> "{destination}": {text}'
    assert kept.held == {}


def test_accounts_are_deleted_by_the_operator(ask, kept, credentials):
    key = credentials.account_key("A").public
    kept.held = {key: "x"}
    operator, other = credentials.OPERATOR, credentials.Key("operator", "other")

    def delete(accounts, signer=operator, subject=operator):
        nats = {"accounts": accounts}
        token = credentials.token("generic", signer, subject.public, "x", nats)
        return json.loads(ask("CLAIMS.DELETE", token)[0])

    for answer, text in (
        (delete([key], other), "not self signed"),
        (delete([key], other, other), "not trusted"),
        (delete("x"), "malformed request"),
        (delete([5]), "malformed request"),
        (delete(["$SYS"]), "not allowed to delete system account"),
    ):
        assert answer["error"]["description"].endswith(f"failed - {text}")
    assert delete([key])["data"]["message"] == "deleted 1 accounts"
    assert kept.held == {}


@pytest.fixture
def steps(kept):
    """Have changes take so many turns each, and note what is done."""

    class Steps:
        count, done = 3, []

    def change(changed, now):
        for number in range(Steps.count):
            Steps.done.append(number)
            yield UNITS_OF_STEP
        kept.held |= changed

    kept.change = change
    return Steps


def turns(client, count=30):
    said = b""
    for number in range(count):
        said += client.say(b"", NOW + number * MILLISECOND)
    return said


def test_what_takes_long_is_done_in_several_turns_and_its_client_not_heard_meanwhile(
    ask, node, connect, kept, credentials, steps
):
    tokens = [credentials.account("A", {"conn": number}) for number in range(2)]
    key = credentials.account_key("A").public
    client, other = connect("s"), connect("s", 5001)
    update = b"PUB $SYS.REQ.CLAIMS.UPDATE _R %d\r\n%b\r\n"
    said = client.say(
        b"".join(update % (len(each), each.encode()) for each in tokens)
        + b"PUB $SYS.REQ.ACCOUNT.%b.CLAIMS.LOOKUP _R 0\r\n\r\n" % key.encode()
    )
    assert said == b"" and kept.held == {} and steps.done == [0]
    assert b"PONG" in other.say(b"PING\r\n"), "others are heard"
    said = turns(client)
    assert said.count(b"jwt updated") == 2 and said.endswith(tokens[1].encode() + b"\r\n")
    assert steps.done == [0, 1, 2] * 2 and kept.held == {key: tokens[1]}


def test_two_updates_of_one_account_are_followed_in_their_order(
    ask, connect, kept, credentials, steps
):
    """Whoever they come from."""
    clients = [connect("s", 5000 + number) for number in range(3)]
    key = credentials.account_key("A").public
    for number, client in enumerate(clients):
        token = credentials.account("A", {"conn": number})
        client.say(b"PUB $SYS.REQ.CLAIMS.UPDATE _R %d\r\n%b\r\n" % (len(token), token.encode()))
        steps.count = 1  # those that come later take less
    turns(clients[0])
    assert kept.held == {key: credentials.account("A", {"conn": 2})}
    assert steps.done == [0, 1, 2, 0, 0]


def test_an_unforeseen_error_in_the_middle_is_answered_and_the_next_one_made(
    ask, connect, kept, credentials, node, monkeypatch
):
    def change(changed, now):
        yield UNITS_OF_STEP
        if credentials.account_key("B").public in changed:
            raise KeyError("a bug")
        kept.held |= changed

    kept.change = change
    contained = []
    monkeypatch.setattr(
        node.containment, "contain", lambda error, now: contained.append(error) or "incident 1"
    )
    client = connect("s")
    tokens = [credentials.account(name, {}).encode() for name in "BA"]
    client.say(
        b"".join(b"PUB $SYS.REQ.CLAIMS.UPDATE _R %d\r\n%b\r\n" % (len(t), t) for t in tokens)
    )
    said = turns(client)
    assert b"incident 1" in said and b"jwt updated" in said and len(contained) == 1
    assert list(kept.held) == [credentials.account_key("A").public]
