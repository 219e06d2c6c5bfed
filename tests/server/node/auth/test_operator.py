"""Users with JWTs; the whole way is played by `tests/parity/scenarios/operator.txt`."""

import json
from dataclasses import replace
from random import Random

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.config.account_options import claimed_accounts
from jetstream_server.config.claims.user_claims import UserGrants
from jetstream_server.config.options import OperatorOptions
from jetstream_server.node.auth.auth import SignInFacts, User
from jetstream_server.node.auth.operator import OperatorGatekeeper
from jetstream_server.node.node import Node
from jetstream_server.protocol import errors as faults
from jetstream_server.protocol.errors import Fault

NONCE = "n" * 15


@pytest.fixture
def gatekeeper(credentials):
    def make(accounts=None, now=0, **fields):
        keys = (credentials.OPERATOR.public, credentials.OPERATOR_SIGNING.public)
        named = accounts or credentials.accounts()
        tokens = {credentials.account_key(name).public: jwt for name, jwt in named.items()}
        made, _ = claimed_accounts(tokens, keys, (now or moment(credentials)) // SECOND)
        options = OperatorOptions(keys, **fields)
        return OperatorGatekeeper(options, {each.name: each for each in made}, lambda: NONCE)

    return make


def connect_line(jwt: str, signature: str) -> bytes:
    return json.dumps({"verbose": False, "jwt": jwt, "sig": signature}).encode()


def moment(credentials):
    return (credentials.ISSUED + 1000) * SECOND


@pytest.fixture
def enter(credentials, gatekeeper):
    def enter(name, keeper=None, jwt="", now=0, **facts):
        options = {
            "jwt": jwt or credentials.users()[name],
            "sig": credentials.Key("user", name).sign(NONCE),
        }
        here = SignInFacts(NONCE, now=now or moment(credentials), **{"host": "127.0.0.1"} | facts)
        return (keeper or gatekeeper()).authenticate(options, here)

    return enter


def test_a_user_of_an_account(enter, credentials):
    user = enter("plain")
    assert user.account == credentials.account_key("PLAIN").public
    assert user.nkey == credentials.Key("user", "plain").public
    assert (user.subscriptions_max, user.payload_bytes_max, user.expires_at) == (-1, -1, 0)
    assert user.permissions is None
    small = enter("small")
    assert (small.subscriptions_max, small.payload_bytes_max) == (1, 10)


@pytest.mark.parametrize(
    "name",
    [
        "unborne", "revoked", "unscoped", "stranger", "expired", "unborn", "elsewhere", "socket",
        "late", "nowhere", "forged", "folder", "lengthy", "newer", "proxied", "misspelt",
        "two_queues",
    ],
)  # fmt: skip
def test_who_may_not_come(enter, name):
    assert enter(name) is None


def test_nothing_is_looked_at_of_what_a_stranger_has_signed(enter, gatekeeper, monkeypatch):
    keeper = gatekeeper()
    monkeypatch.setattr(UserGrants, "problem", lambda grants: pytest.fail("looked at"))
    for name in ("forged", "nowhere", "late"):
        assert enter(name, keeper) is None


def test_a_user_of_the_first_version(enter, credentials):
    user = enter("old")
    assert user.account == credentials.account_key("OLD").public
    assert (user.subscriptions_max, user.payload_bytes_max) == (-1, 40)
    assert enter("old_signed") is not None and enter("old_elsewhere") is None


def test_a_distant_end_is_the_last_moment_there_is(enter, credentials):
    jwt = credentials.user("plain", "PLAIN", claims={"exp": 253402300799})
    assert enter("plain", jwt=jwt).expires_at == 2**63 - 1


def test_ways_to_connect_are_of_the_user(enter):
    assert enter("socket", connection_type="WEBSOCKET") is not None
    assert enter("local", host="11.0.0.1") is None and enter("local", host="10.0.0.1") is not None


def test_a_signature_of_another_nonce(gatekeeper, credentials):
    token = credentials.users()["plain"]
    signature = credentials.Key("user", "plain").sign("another")
    facts = SignInFacts(NONCE, now=moment(credentials))
    for options in ({"jwt": token, "sig": signature}, {"jwt": token}, {"jwt": "x"}, {}):
        assert gatekeeper().authenticate(options, facts) is None
    assert gatekeeper().authenticate({"jwt": token, "sig": signature}, SignInFacts("")) is None


def test_a_bearer_signs_nothing_and_the_sentinel_is_one(gatekeeper, credentials):
    users = credentials.users()
    facts = SignInFacts(NONCE, now=moment(credentials))
    assert gatekeeper().authenticate({"jwt": users["bearer"]}, facts) is not None
    keeper = gatekeeper(default_sentinel=users["sentinel"])
    assert keeper.anonymous() is None
    for options in ({}, {"user": "a", "pass": "b"}, {"jwt": "nonsense"}):
        user = keeper.authenticate(options, facts)
        assert user is not None and user.claims is not None and user.claims.name == "sentinel"
    assert keeper.authenticate({"jwt": users["expired"]}, facts) is None


def test_permissions_are_the_user_s_the_scope_s_or_the_account_s(enter):
    assert enter("restricted").permissions.publish.allowed == ("a.>", "ask")
    assert enter("keys").permissions.publish.denied == ("secret",)
    scoped = enter("scoped")
    assert scoped.permissions.publish.allowed == ("to.scoped.>", "red.x")
    assert (scoped.subscriptions_max, scoped.payload_bytes_max) == (3, 50)


def test_pinned_accounts(enter, gatekeeper, credentials):
    keeper = gatekeeper(pinned_accounts=(credentials.account_key("PLAIN").public,))
    assert enter("plain", keeper) is not None and enter("store", keeper) is None


def test_when_it_ends(enter, gatekeeper, credentials):
    issued = credentials.ISSUED
    jwt = credentials.user("plain", "PLAIN", claims={"exp": issued + 2000})
    assert enter("plain", jwt=jwt).expires_at == (issued + 2000) * SECOND
    hours = [{"start": "00:00:00", "end": "00:20:00"}]
    jwt = credentials.user("plain", "PLAIN", times=hours, claims={"exp": issued + 2000})
    assert enter("plain", jwt=jwt).expires_at == (issued + 1200) * SECOND
    assert enter("plain", jwt=jwt, now=(issued + 1201) * SECOND) is None
    short = credentials.account("PLAIN", {}, claims={"exp": issued + 1500})
    keeper = gatekeeper({"PLAIN": short})
    assert enter("plain", keeper).account_expires_at == (issued + 1500) * SECOND
    assert enter("plain", keeper, now=(issued + 1501) * SECOND) is None


def test_under_new_rules(enter, gatekeeper, credentials):
    now = moment(credentials)
    user, signed = enter("plain"), enter("signed")
    plain, key = credentials.account("PLAIN", {"subs": 5}), credentials.Key("user", "plain").public

    def successor(who: User, **accounts: str) -> User | Fault | None:
        return gatekeeper(credentials.accounts() | accounts).successor(who, now)

    assert successor(user, PLAIN=plain) == user
    revoking = credentials.account("PLAIN", {}, revocations={key: credentials.ISSUED})
    assert successor(user, PLAIN=revoking) == faults.USER_REVOKED
    unsigned = credentials.account("KEYS", {})
    assert successor(signed, KEYS=unsigned) == faults.SIGNING_KEY_GONE
    bad = credentials.account("PLAIN", {"tiered_limits": {"": {}}})
    assert successor(user, PLAIN=bad) == faults.ACCOUNT_EXPIRED
    assert successor(User()) == faults.ACCOUNT_EXPIRED
    bearer = enter("bearer")
    unborne = credentials.account("PLAIN", {"disallow_bearer": True})
    assert successor(bearer, PLAIN=unborne) == faults.AUTHORIZATION_VIOLATION


@pytest.mark.parametrize(("whose", "text"), [("user", b"User"), ("account", b"Account")])
def test_a_connection_ends_with_its_rights(
    whose, text, gatekeeper, credentials, options, make_client
):
    now, ends = moment(credentials), {"exp": credentials.ISSUED + 1030}
    accounts = {
        "PLAIN": credentials.account("PLAIN", {}, claims=ends if whose == "account" else {})
    }
    claims = ends if whose == "user" else {}
    options = replace(options, max_control_line=4096)
    node = Node(options, gatekeeper(accounts), Random(1), lambda level, text: None, port=4222)
    node.add_account(credentials.account_key("PLAIN").public)
    client = make_client(node, now=now)
    assert b'"auth_required":true' in client.info and NONCE.encode() in client.info
    jwt = credentials.user("plain", "PLAIN", claims=claims)
    signature = credentials.Key("user", "plain").sign(NONCE)
    assert client.connect(connect_line(jwt, signature)) == b""
    assert client.say(b"PING\r\n").startswith(b"PONG")
    client.now += 29 * SECOND
    client.say(b"PONG\r\n")  # it is time for a ping of the server, too
    deadline = node.next_deadline()
    assert deadline == (credentials.ISSUED + 1030) * SECOND
    node.run(deadline)
    assert client.read() == b"-ERR '%b Authentication Expired'\r\n" % text
    assert client.session.closing == "Authentication Expired"


def test_what_others_are_told_of_such_a_client(gatekeeper, credentials, options, make_client):
    options = replace(options, max_control_line=4096)
    node = Node(options, gatekeeper(), Random(1), lambda level, text: None, port=4222)
    node.add_account(credentials.account_key("KEYS").public).name_tag = "KEYS"
    client = make_client(node, now=moment(credentials))
    jwt = credentials.users()["scoped"]
    signature = credentials.Key("user", "scoped").sign(NONCE)
    client.connect(connect_line(jwt, signature))
    info = client.session.client_info(client.now)
    assert info["user"] == credentials.Key("user", "scoped").public and info["jwt"] == jwt
    assert info["issuer_key"] == credentials.SCOPED_SIGNER.public
    assert (info["name_tag"], info["tags"]) == ("KEYS", ["team:red"])


def test_the_end_is_not_missed_between_pings(gatekeeper, credentials, options, make_client):
    now = moment(credentials)
    options = replace(options, max_control_line=4096)
    node = Node(options, gatekeeper(), Random(1), lambda level, text: None, port=4222)
    node.add_account(credentials.account_key("PLAIN").public)
    client = make_client(node, now=now)
    jwt = credentials.user("plain", "PLAIN", claims={"exp": credentials.ISSUED + 1001})
    client.connect(connect_line(jwt, credentials.Key("user", "plain").sign(NONCE)))
    assert node.next_deadline() == now + SECOND
    client.session.adopt(replace(client.session.user, account_expires_at=now + 5))
    assert node.next_deadline() == now + 5
