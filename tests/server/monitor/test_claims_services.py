"""Requests about JWTs; played beside the genuine server by `test_resolver.py`."""

import json

import pytest
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.options import OperatorOptions
from jetstream_server.monitor.claims_services import ClaimsServices


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
        self.held |= changed
        self.held = {key: jwt for key, jwt in self.held.items() if jwt is not None}


@pytest.fixture
def kept():
    return Kept()


@pytest.fixture
def ask(node, connect, credentials, kept):
    operator = OperatorOptions((credentials.OPERATOR.public,), may_delete=True)
    ClaimsServices(node, operator, kept).subscribe()
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
    ):
        error = json.loads(ask(subject, body)[0])["error"]
        assert error["code"] == 500 and text in error["description"]
    kept.wrong = "no room"
    error = json.loads(ask("CLAIMS.UPDATE", credentials.account("A", {}))[0])["error"]
    assert error["description"] == "jwt update resulted in error - no room"
    assert kept.held == {}


def test_a_mapping_that_cannot_be_is_no_update(ask, kept, credentials):
    for destination, text in (
        ("b.$2", "invalid mapping destination: wildcard index out of range in $2: [2]"),
        ("b.>", "invalid subject"),
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
