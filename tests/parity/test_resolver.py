"""Accounts of an operator that change while the server runs, on both servers."""

from __future__ import annotations

import importlib
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

pytestmark = pytest.mark.genuine

CONFIG = """
operator: %s
system_account: %s
default_sentinel: %s
resolver: {type: full, dir: "{folder}/jwt", allow_delete: %s}
resolver_preload { %s }
jetstream { max_mem: 64MB, max_file: 64MB }
"""
IMPOSSIBLE_EXPORTS = (
    {"response_type": "x"},
    {"response_type": "stream"},
    {"type": "stream", "response_type": "Stream"},
    {"response_threshold": -1},
    {"type": "stream", "response_threshold": 5},
    {"type": "stream", "service_latency": {"sampling": 5, "results": "told"}},
    {"service_latency": {"sampling": 101, "results": "told"}},
    {"service_latency": {"sampling": 5, "results": "to.*"}},
    {"account_token_position": 3},
    {"account_token_position": 1},
    {"subject": "q", "account_token_position": 1},
)
IMPORTED = {"name": "i", "subject": "q", "type": "stream"}
IMPOSSIBLE_IMPORTS = (
    {"share": True},
    {"type": "service", "allow_trace": True},
    {"to": "x", "local_subject": "y"},
    {"account": ""},
    {"subject": ""},
    {"subject": "a b"},
    {"subject": "a..b"},
    {"local_subject": "a..b"},
    {"subject": "q.*", "local_subject": "x"},
    {"subject": "q.*", "local_subject": "x.$1.*"},
    {"type": "service", "subject": "q.$1", "local_subject": "x.*"},
    {"subject": "q.>", "local_subject": "x"},
    {"type": "service", "local_subject": ">"},
    {"token": "x"},
    {"type": "service", "token": "x.y.z"},
)
POSSIBLE_IMPORTS = (
    {"type": "service", "share": True},
    {"allow_trace": True},
    {"to": "a b"},
    {"subject": "q.*", "local_subject": "x.$1"},
    {"subject": "q.*", "local_subject": "x.*"},
    {"subject": "q.>", "local_subject": "x.>"},
    {"type": "service", "to": ">"},
)
IMPOSSIBLE = (
    {"mappings": {"a": [{"subject": "b", "weight": 60}, {"subject": "c", "weight": 60}]}},
    {"mappings": {"a": [{"subject": ""}]}},
    {"mappings": {"": [{"subject": "b"}]}},
    {"mappings": {"a": [{"subject": "b c"}]}},
    {"signing_keys": ["x"]},
    {"trace": {}},
    {"trace": {"dest": "t", "sampling": 101}},
    {"trace": {"dest": "t", "sampling": -1}},
    {"trace": {"dest": "a.*"}},
    {"trace": {"dest": "a b"}},
    {"description": "x" * 8193},
    {"cluster_traffic": "x"},
    {"authorization": {"auth_users": ["x"]}},
)
POSSIBLE = (
    {"mappings": {"a": []}},
    {"mappings": {"a": [{"subject": "b", "weight": 60, "cluster": "x"}, {"subject": "c"}]}},
    {"mappings": {"$JS.API.>": [{"subject": "b.>"}]}},
    {"trace": {"dest": "t", "sampling": 50}},
    {"description": "x" * 8192},
    {"cluster_traffic": "owner"},
    {"cluster_traffic": "system"},
    {"revocations": {"x": 1}},
    {"unknown": 1},
)
STORAGE = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}


@pytest.fixture
def credentials(player):
    return importlib.import_module("tests.parity.credentials")


@pytest.fixture
def both(player, credentials, genuine_binary):
    def config(may_delete: str) -> str:
        key, jwts = credentials.OPERATOR, credentials.accounts()
        named = {credentials.account_key(name).public: jwts[name] for name in ("SYS", "OPEN")}
        preload = "\n".join(f"{account}: {jwt}" for account, jwt in named.items())
        operator = credentials.token("operator", key, key.public, "operator", {})
        sentinel = credentials.users()["sentinel"]
        return CONFIG % (operator, next(iter(named)), sentinel, may_delete, preload)

    def compare(act, may_delete="true"):
        def run(command):
            server = player.ServerProcess(command, config(may_delete))
            server.start()
            try:
                play = Talk(player, server)
                act(play)
                return play.lines
            finally:
                server.end()

        with ThreadPoolExecutor(2) as pool:
            ours, theirs = pool.map(run, (player.bundled_command(), [genuine_binary]))
        assert "\n".join(ours) == "\n".join(theirs)
        return ours

    return compare


class Talk:
    """Steps on one server, and what they bring."""

    def __init__(self, player, server):
        self.player, self.server = player, server
        self.play = player.Play(server)
        self.lines = []
        self("enter s sys")

    def __call__(self, step):
        self.lines += [f"> {step}", *self.play._step(step)]

    def ask(self, subject, body=""):
        subject = "$SYS.REQ." + subject
        self.lines += [subject, self.player.shown(self.play._request(subject, body.encode()))]

    def update(self, token):
        self.ask("CLAIMS.UPDATE", token)


def test_accounts_come_and_change(both, credentials):
    def act(talk):
        key = credentials.account_key("PLAIN").public
        talk.ask("CLAIMS.LIST")
        talk.ask(f"ACCOUNT.{key}.CLAIMS.LOOKUP")
        talk("enter b plain")
        talk("as s")
        talk.update(credentials.account("PLAIN", {}))
        talk.ask(f"ACCOUNT.{key}.CLAIMS.LOOKUP")
        talk.ask("CLAIMS.LIST")
        talk.ask("CLAIMS.PACK")
        talk("enter b plain")
        talk("req $SYS.REQ.USER.INFO")
        talk("api STREAM.NAMES")
        talk("as s")
        talk.update(credentials.account("PLAIN", STORAGE))
        talk("as b")
        talk('until "total":0 api STREAM.NAMES')
        talk("as s")
        talk.update(credentials.account("PLAIN", STORAGE | {"payload": 10}))
        talk("as b")
        talk("raw PUB x 11\\r\\n" + "x" * 11)
        talk("restart")
        talk("enter s sys")
        talk.ask("CLAIMS.LIST")
        talk("enter b plain")
        talk("api STREAM.NAMES")

    lines = both(act)
    assert sum("jwt updated" in line for line in lines) == 3
    assert "-ERR 'Maximum Payload Violation'" in lines


def test_what_cannot_be_an_update(both, credentials):
    def act(talk):
        talk.update("nonsense")
        talk.update(credentials.users()["plain"])
        exports = [{"name": "x", "subject": "x", "type": "stream"}]
        talk.update(credentials.account("PLAIN", {"exports": 0}, exports=exports))
        other = credentials.account_key("FEW").public
        talk.ask(f"ACCOUNT.{other}.CLAIMS.UPDATE", credentials.account("PLAIN", {}))
        talk.ask(f"ACCOUNT.{other}.CLAIMS.UPDATE", credentials.account("FEW", {}))
        for destination in ("b.$2", "b.{{wildcard(7)}}", "b.>"):
            mappings = {"a.*": [{"subject": destination}]}
            talk.update(credentials.account("PLAIN", {}, mappings=mappings))
        for export in IMPOSSIBLE_EXPORTS:
            made = {"name": "x", "subject": "q.*", "type": "service", **export}
            talk.update(credentials.account("PLAIN", STORAGE | {"exports": -1}, exports=[made]))
        talk.ask("CLAIMS.LIST")
        talk("as a")
        talk.ask("CLAIMS.LIST")

    lines = both(act)
    assert sum('"code":500' in line for line in lines) == 7 + len(IMPOSSIBLE_EXPORTS)


def test_what_accounts_may_claim(both, credentials):
    limits = STORAGE | {"exports": -1, "imports": -1}
    whose = {"account": credentials.account_key("OPEN").public}

    def act(talk):
        for each in (*IMPOSSIBLE_IMPORTS, *POSSIBLE_IMPORTS):
            imports = [IMPORTED | whose | each]
            talk.update(credentials.account("PLAIN", limits, imports=imports))
        for fields in (*IMPOSSIBLE, *POSSIBLE):
            talk.update(credentials.account("PLAIN", limits, **fields))

    lines = both(act)
    refused = sum('"code":500' in line for line in lines)
    assert refused == len(IMPOSSIBLE_IMPORTS) + len(IMPOSSIBLE)
    followed = sum('"message":"jwt updated"' in line for line in lines)
    assert followed == len(POSSIBLE_IMPORTS) + len(POSSIBLE)


def test_a_revoked_user_is_sent_away(both, credentials):
    def act(talk):
        talk.update(credentials.account("PLAIN", {}))
        talk("enter b plain")
        talk("enter c bearer")
        talk("as s")
        revocations = {credentials.Key("user", "plain").public: credentials.ISSUED}
        talk.update(credentials.account("PLAIN", {}, revocations=revocations))
        talk("as b")
        talk("ending x")
        talk("enter b plain")
        talk("as c")
        talk("req $SYS.REQ.USER.INFO")
        talk("as s")
        talk.update(credentials.account("PLAIN", {"disallow_bearer": True}))
        talk("as c")
        talk("ending x")

    assert "-ERR 'User Authentication Revoked'" in both(act)


def test_accounts_go(both, credentials):
    def gone(accounts, signer=None, subject=None):
        signer = signer or credentials.OPERATOR
        subject = (subject or signer).public
        return credentials.token("generic", signer, subject, "gone", {"accounts": accounts})

    def act(talk):
        talk.update(credentials.account("PLAIN", {}))
        talk("enter b plain")
        talk("as s")
        key = credentials.account_key("PLAIN").public
        other = credentials.Key("operator", "other")
        talk.ask("CLAIMS.DELETE", "nonsense")
        talk.ask("CLAIMS.DELETE", gone([key], other, credentials.OPERATOR))
        talk.ask("CLAIMS.DELETE", gone([key], other))
        talk.ask("CLAIMS.DELETE", gone("x"))
        talk.ask("CLAIMS.DELETE", gone([credentials.account_key("SYS").public]))
        talk.ask("CLAIMS.DELETE", gone([key]))
        talk("as b")
        talk("ending x")
        talk("enter b plain")
        talk("as s")
        talk.ask("CLAIMS.LIST")
        talk.update(credentials.account("PLAIN", {}, claims={"iat": credentials.ISSUED + 1}))
        talk("enter b plain")

    lines = both(act)
    assert "-ERR 'Account Authentication Expired'" in lines


def test_accounts_stay_where_they_may_not_go(both, credentials):
    def act(talk):
        key = credentials.OPERATOR
        token = credentials.token("generic", key, key.public, "gone", {"accounts": []})
        talk.ask("CLAIMS.DELETE", token)

    assert json.dumps("delete must be enabled in server config")[1:-1] in both(act, "false")[-1]
