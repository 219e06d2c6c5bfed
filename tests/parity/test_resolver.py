"""Accounts of an operator that change while the server runs, on both servers."""

from __future__ import annotations

import importlib
import json
from concurrent.futures import ThreadPoolExecutor
from itertools import product

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
IMPOSSIBLE_MAPPINGS = (
    ("a.*", "b.$2"), ("a.*", "b.{{wildcard(7)}}"), ("a.*", "b.>"), ("a.*", "a.*"), ("a.b", "a.*"),
    ("a.{{x()}}", "a.{{x()}}"),
)  # fmt: skip
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
    {"trace": {"dest": "a..*", "sampling": 101}},
    {"trace": {"dest": "a.* b", "sampling": -1}},
    {"description": "x" * 8193},
    {"cluster_traffic": "x"},
    {"authorization": {"auth_users": ["x"]}},
    {"authorization": {"auth_users": ["x"], "allowed_accounts": ["y"], "xkey": "z"}},
    {"authorization": {"allowed_accounts": ["*", "*"]}},
    {"limits": {"imports": -2}, "imports": [None]},
    {"limits": {"tiered_limits": {"": {}}}},
    {"mappings": {"a": [{"subject": "b", "weight": 150}]}},
    {"mappings": {"a": [None, {"subject": "b c"}]}},
    {"mappings": {"a": [{"subject": "b", "cluster": "x"}] * 3}},
    {"mappings": {".a": []}},
    {
        "default_permissions": {
            "sub": {"allow": ["a b c"], "deny": ["d."]},
            "pub": {"deny": ["e f"]},
        }
    },
    {"default_permissions": {"sub": {"allow": ["a.. b..c", " "]}}},
    {"signing_keys": [{"kind": "user_scope", "key": "x"}]},
    {"signing_keys": [{"kind": "user_scope"}]},
)
ADDRESSES = (
    "x", "//a.b", "a.b:c", "http:", "http://", "mailto:x@y", "http://[::1", "http://[a]", "%zz", "://",
    "http://a/%zz", "http://a%20b", "http://a:b", "http://a b", "h\ttp://a", "1x:y", "http://u p@h",
    "http://a[", "http://[::1]x", "http://:80", "x" * 8193,
)  # fmt: skip
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
    {"info_url": "https://a.b/c d"},
    {"info_url": "http://[::1]:80#%20"},
    {"signing_keys": [5, None, ["x"]]},
    {"mappings": {"a": None}},
    {"revocations": {"x": None}},
    {"limits": {"disk_storage": 5, "tiered_limits": {"R1": {"disk_storage": 5}, "R3": None}}},
    {"default_permissions": {"pub": {"allow": ["a.>.b"]}}},
    {"tags": [None]},
)
# Only one of these is told at a time: which comes first changes from one request to the next.
OVERLAPPING_EXPORTS = (
    ("a", "a"), ("a.*", "a.b"), ("a.b", "a.*"), ("a.>", "a.*.b"), (">", "a"), ("a", "b", "a", "a"),
    ("*a", "*"), ("a..b", "a..b"), ("", ""),
)  # fmt: skip
SEPARATE_EXPORTS = (("a.*", "*.b"), ("a.*", "a.*.b"), ("a", "a.>"), ("a", "A"))
OVERLAPPING_IMPORTS = (
    ({"to": "a"}, {"local_subject": "a"}),
    ({"subject": "a.>"}, {"subject": "a.b"}),
    ({"subject": "a.b"}, {"subject": "a.*"}),
    ({"subject": "a.*"}, {"subject": "a.>"}),
    ({"subject": "a.*", "local_subject": "x.$1"}, {"subject": "b.*", "local_subject": "x.$01"}),
    ({"subject": "a.*", "local_subject": "x.$1"}, {"to": "x.b"}),
    ({"subject": "a.*", "to": "x.$1"}, {"to": "x.*"}),
    ({"to": "x", "local_subject": "y"}, {"to": "x", "local_subject": "z"}),
    ({"subject": "a..b"}, {"subject": "a..b"}, {"subject": ""}),
    ({"account": ""}, {"account": ""}),
)
SEPARATE_IMPORTS = (
    ({"subject": "a.*"}, {"subject": "*.b"}),
    ({}, {"type": "stream"}),
    ({"type": "stream"}, {"type": "stream"}),
    ({}, {"account": "x"}),
    ({"to": "x"}, {"to": "y"}),
)
ALL_AT_ONCE = {
    "response_type": "x", "allow_trace": True, "account_token_position": 9, "info_url": "x",
    "service_latency": {"sampling": 101, "results": "a b.*"}, "description": "x" * 8193,
}  # fmt: skip
WRONG_EXPORTS = (
    {"type": "stream", "subject": "a b.*", "response_threshold": 5, **ALL_AT_ONCE},
    {"type": "service", "subject": "a..*", "response_threshold": -5, **ALL_AT_ONCE},
    {"subject": ".a", **ALL_AT_ONCE},
    {"type": "service", "subject": "a.*", "account_token_position": 2**64 - 1},
    {"type": "stream", "subject": "a", "service_latency": {}},
    {},
    None,
)
WRONG_IMPORTS = (
    {"type": "stream", "subject": "a..*", "share": True, "token": "x", "to": "a b",
     "local_subject": "x y.$9"},
    {"type": "service", "subject": "a.>", "allow_trace": True, "local_subject": "$2.*"},
    {"subject": "q", "local_subject": "$1.$1"},
    {"subject": "q", "local_subject": "$+1.$-1.$99999999999"},
    {},
    None,
)  # fmt: skip
MISFITS = (
    *({name: 5} for name in ("imports", "exports", "limits", "revocations", "mappings", "tags")),
    *({name: "x"} for name in ("default_permissions", "trace", "authorization", "signing_keys")),
    *({name: [True]} for name in ("imports", "exports", "tags", "description", "info_url")),
    *({"limits": {name: "x"}} for name in ("subs", "wildcards", "tiered_limits", "mem_storage")),
    *({"limits": {"subs": number}} for number in (1.5, 2**63, [], None, True)),
    *({"limits": {"tiered_limits": {"R1": value}}} for value in (5, [], {"streams": "x"})),
    *({"revocations": {"x": value}} for value in ("y", 1.5, {})),
    *({"mappings": {"a": value}} for value in (5, [5], [{"subject": 5}], [{"weight": 256}])),
    {"default_permissions": {"pub": {"allow": "x"}}},
    {"default_permissions": {"sub": {"deny": ["a", 5]}}},
    {"default_permissions": {"resp": {"max": "x"}}},
    {"default_permissions": {"resp": {"ttl": "5s"}}},
    {"authorization": {"auth_users": "x"}},
    {"authorization": {"xkey": 5}},
    {"trace": {"dest": 5}},
    {"trace": {"sampling": 1.5}},
    {"signing_keys": {"x": 1}},
    {"signing_keys": [{"kind": "x", "key": "y"}]},
    {"signing_keys": [{"kind": "user_scope", "role": 5}]},
    {"signing_keys": [{"kind": "user_scope", "template": {"pub": {"allow": [5]}}}]},
    {"cluster_traffic": 5},
    {"exports": [{"type": "x"}]},
    {"exports": [{"type": None}]},
    {"exports": [{"type": "service", "advertise": 1}]},
    {"exports": [{"type": "service", "account_token_position": -1}]},
    {"exports": [{"type": "service", "response_threshold": "5s"}]},
    {"imports": [{"type": "stream", "local_subject": 5}]},
    {"imports": [{"type": "stream", "share": "true"}]},
    {"Exports": [{"Type": "stream", "SUBJECT": "a..b"}]},
)
DAY = {"start": "00:00:00", "end": "23:59:59"}
USERS = (
    *({"src": networks} for networks in (
        ["127.0.0.1/32"], ["127.0.0.0/8", "x"], ["10.0.0.0/8"], ["::ffff:127.0.0.0/104"], ["::/0"],
        "127.0.0.0/8,", ",", " ", ["fe80::1%lo/64", "127.0.0.0/8"], [None], 5,
    )),
    *({"times": times} for times in (
        [DAY], [None], [{}], [DAY, {}], [{"start": "00:00:00.5", "end": "23:59:59,5"}], 5, [],
        [{"start": "00:00", "end": "23:59:59"}], [{"Start": "00:00:00", "END": "23:59:59"}],
    )),
    {"times_location": "Nowhere"}, {"locale": "Nowhere"},
    {"pub": {"deny": ["a b"]}}, {"sub": {"allow": ["a b c"]}}, {"sub": {"allow": [None]}},
    {"Pub": {"Deny": ["a..b"]}}, {"bearer_token": 1}, {"bearer_token": "true"}, {"tags": [5]},
    {"allowed_connection_types": ["standard"]}, {"allowed_connection_types": ["x"]},
    {"resp": {"max": -5, "ttl": -5}}, {"resp": {"max": 2**63}}, {"data": "x"},
    {"proxy_required": 0}, {"claims": {"jti": 5}}, {"claims": {"aud": []}},
    {"claims": {"iat": 1.5}}, {"payload": 2**63 - 1}, {"issuer_account": "x"},
    {"unknown": {"a": [1]}},
)  # fmt: skip
TEMPLATES = (
    {"src": ["x", "127.0.0.0/8"]}, {"src": ["127.0.0.0/8", "x"]}, {"src": ["10.0.0.0/8", "x"]},
    {"times": [{}]}, {"times": [DAY, {}]}, {"times": [DAY]}, {"times": [None]},
    {"times": [DAY], "times_location": "Nowhere"}, {"times_location": "Nowhere"},
    *({"pub": {"allow": ["a", allowed]}} for allowed in (
        "{{nope()}}", "b.{{name}}", "b.x{{nope()}}y", "b.{{nope()}} q", "b.{{}}", "b.{{nope",
        "b.{{tag(none)}}.{{nope()}}", "b.{{tag(none)}}", "b.{{tag}}",
    )),
    {"sub": {"allow": ["{{nope()}}"]}}, {"sub": {"deny": ["x.{{nope()}}"]}},
)  # fmt: skip
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

    def asked(self, subject):
        """Return an answer, which is not told."""
        return json.loads(self.play._request("$SYS.REQ." + subject, b"").payload)

    def update(self, token):
        self.ask("CLAIMS.UPDATE", token)

    def show(self, token, key):
        """Have somebody sign in, and tell what comes of it."""
        wire = self.player.Wire(self.server.port, b"")
        signature = key.sign(json.loads(wire.info)["nonce"])
        options = {**json.loads(self.player.CONNECT), "jwt": token, "sig": signature}
        wire.write(b"CONNECT " + json.dumps(options).encode() + b"\r\nPING\r\n")
        try:
            while not self.lines[-1].startswith(("PONG", "-ERR")):
                self.lines.append(wire.line(4).decode())
        finally:
            wire.close()

    def watch(self, token, key, more=b""):
        """Have somebody sign in, say more, and be heard."""
        wire = self.player.Wire(self.server.port, b"")
        signature = key.sign(json.loads(wire.info)["nonce"])
        options = {**json.loads(self.player.CONNECT), "jwt": token, "sig": signature}
        wire.write(b"CONNECT " + json.dumps(options).encode() + b"\r\nPING\r\n" + more)
        return wire


def _told_of_limit(wire, *, is_beyond):
    """Tell what somebody hears of a limit; the genuine server may answer a PING before or after."""
    told = []
    try:
        while True:
            line = wire.line(10 if is_beyond else 0.3).decode()
            if line.startswith("-ERR"):
                told.append(line)
    except TimeoutError:
        told.append("goes on")
    except ConnectionError:
        told.append("is gone")
    finally:
        wire.close()
    return told


@pytest.mark.parametrize("subs", [None, 0, 1])
def test_who_may_have_no_subscriptions_can_not_stay(both, credentials, subs):
    def act(talk):
        talk.update(credentials.account("PLAIN", {}))
        token, user = credentials.user("u", "PLAIN", subs=subs), credentials.Key("user", "u")
        talk.lines += _told_of_limit(talk.watch(token, user), is_beyond=not subs)

    both(act)


def test_who_has_as_many_subscriptions_as_an_account_allows_from_now_on_leaves(both, credentials):
    user = credentials.Key("user", "u")

    def act(talk):
        for most, count in product((0, 1, 2), repeat=2):
            talk.update(credentials.account("PLAIN", {}))
            more = b"".join(b"SUB a.%d %d\r\n" % (sid, sid) for sid in range(1, count + 1))
            wire = talk.watch(credentials.user("u", "PLAIN"), user, more + b"PING\r\n")
            for _ in range(2):
                while wire.line(10) != b"PONG":
                    pass
            talk.update(credentials.account("PLAIN", {"subs": most}))
            talk.lines.append(f"{count} of {most}")
            talk.lines += _told_of_limit(wire, is_beyond=count >= most)

    both(act)


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
        for subject in (f"ACCOUNT.{other}.CLAIMS.UPDATE", "ACCOUNT.x.CLAIMS.UPDATE"):
            talk.ask(subject, "nonsense")
            talk.ask(subject, credentials.account("PLAIN", {"exports": 0}, exports=exports))
        for source, destination in IMPOSSIBLE_MAPPINGS:
            mappings = {source: [{"subject": destination}]}
            talk.update(credentials.account("PLAIN", {}, mappings=mappings))
        for export in IMPOSSIBLE_EXPORTS:
            made = {"name": "x", "subject": "q.*", "type": "service", **export}
            talk.update(credentials.account("PLAIN", STORAGE | {"exports": -1}, exports=[made]))
        talk.ask("CLAIMS.LIST")
        talk("as a")
        talk.ask("CLAIMS.LIST")

    lines = both(act)
    impossible = len(IMPOSSIBLE_MAPPINGS) + len(IMPOSSIBLE_EXPORTS)
    assert sum('"code":500' in line for line in lines) == 8 + impossible


def test_what_accounts_may_claim(both, credentials):
    limits = STORAGE | {"exports": -1, "imports": -1}
    whose = {"account": credentials.account_key("OPEN").public}

    def act(talk):
        for each in (*IMPOSSIBLE_IMPORTS, *POSSIBLE_IMPORTS):
            imports = [IMPORTED | whose | each]
            talk.update(credentials.account("PLAIN", limits, imports=imports))
        for fields in (*IMPOSSIBLE, *POSSIBLE):
            rest = {name: value for name, value in fields.items() if name != "limits"}
            claimed = limits | fields.get("limits", {})
            talk.update(credentials.account("PLAIN", claimed, **rest))

    lines = both(act)
    refused = sum('"code":500' in line for line in lines)
    assert refused == len(IMPOSSIBLE_IMPORTS) + len(IMPOSSIBLE)
    followed = sum('"message":"jwt updated"' in line for line in lines)
    assert followed == len(POSSIBLE_IMPORTS) + len(POSSIBLE)


def test_subjects_of_links_do_not_overlap(both, credentials):
    limits = STORAGE | {"exports": -1, "imports": -1}

    def act(talk):
        for kind, subjects in product(
            ("stream", "service"), (*OVERLAPPING_EXPORTS, *SEPARATE_EXPORTS)
        ):
            exports = [{"name": "x", "type": kind, "subject": each} for each in subjects]
            talk.update(credentials.account("PLAIN", limits, exports=exports))
        exports = [{"type": "stream", "subject": "a"}, {"type": "service", "subject": "a"}]
        talk.update(credentials.account("PLAIN", limits, exports=exports))
        talk.update(credentials.account("PLAIN", limits, exports=exports * 2))
        whose = {"account": credentials.account_key("OPEN").public}
        entry = {"name": "x", "type": "service", "subject": "q"} | whose
        for links in (*OVERLAPPING_IMPORTS, *SEPARATE_IMPORTS):
            imports = [entry | each for each in links]
            talk.update(credentials.account("PLAIN", limits, imports=imports))

    lines = both(act)
    refused = 2 * len(OVERLAPPING_EXPORTS) + 1 + len(OVERLAPPING_IMPORTS)
    assert sum('"code":500' in line for line in lines) == refused
    assert sum("jwt updated" in line for line in lines) == (
        2 * len(SEPARATE_EXPORTS) + 1 + len(SEPARATE_IMPORTS)
    )


def test_every_mistake_is_told(both, credentials):
    def act(talk):
        for each in ADDRESSES:
            talk.update(credentials.account("PLAIN", {}, info_url=each))
        for each in WRONG_EXPORTS:
            talk.update(credentials.account("PLAIN", {"exports": -1}, exports=[each]))
        for each in WRONG_IMPORTS:
            talk.update(credentials.account("PLAIN", {"imports": -1}, imports=[each]))
        talk.update(
            credentials.account(
                "PLAIN",
                {"imports": 0, "exports": 0, "wildcards": False, "tiered_limits": {"": {}}},
                imports=[WRONG_IMPORTS[0], None],
                exports=[WRONG_EXPORTS[0], {"type": "stream", "subject": "b.*"}],
                default_permissions={"pub": {"allow": ["a..b"]}, "sub": {"deny": ["x.."]}},
                mappings={"a b": []},
                authorization={"auth_users": ["x"]},
                trace={"dest": "", "sampling": 101},
                signing_keys=["x"],
                description="x" * 8193,
                info_url="x",
                cluster_traffic="x",
            )
        )

    lines = both(act)
    count = len(ADDRESSES) + len(WRONG_EXPORTS) + len(WRONG_IMPORTS) + 1
    assert sum("validation errors: [" in line for line in lines) == count


def test_activations_of_something_else(both, credentials):
    def activations():
        of, to, key = "OPEN", "PLAIN", credentials.account_key("PLAIN")
        yield credentials.activation(of, to, "q", "service", exp=5)
        yield credentials.activation(of, to, ">", "service")
        yield credentials.activation(of, to, "other", "service")
        yield credentials.activation(of, to, "", "service")
        yield credentials.activation(of, to, "a b", "service")
        yield credentials.activation(of, to, "q", "stream")
        yield credentials.activation(of, to, "q", "x")
        yield credentials.activation(of, "FEW", "q", "service")
        yield credentials.activation("FEW", to, "q", "stream")
        for nats in ({"subject": "q"}, {"kind": "service", "issuer_account": "x"}):
            signer = credentials.account_key("FEW")
            yield credentials.token("activation", signer, key.public, "x", nats)
        nats = {"subject": "q", "kind": "service"}
        yield credentials.token("activation", credentials.account_key(of), "*", "x", nats)

    def act(talk):
        whose = {"account": credentials.account_key("OPEN").public}
        for each in activations():
            entry = {"name": "x", "type": "service", "subject": "q", "token": each} | whose
            talk.update(credentials.account("PLAIN", {"imports": -1}, imports=[entry]))

    assert sum("jwt updated" in line for line in both(act)) == 2


def test_claims_of_another_type(both, credentials):
    key, operator = credentials.account_key("PLAIN").public, credentials.OPERATOR

    def act(talk):
        for fields in MISFITS:
            talk.update(credentials.token("account", operator, key, "PLAIN", fields))

    lines = both(act)
    assert sum("cannot unmarshal" in line for line in lines) > 0.8 * len(MISFITS)


def test_what_users_may_claim(both, credentials):
    """What a scope claims is looked at only when a user comes."""
    user = credentials.Key("user", "u")
    keys = [credentials.Key("account", f"scope {number}") for number in range(len(TEMPLATES))]
    limits = dict.fromkeys(("subs", "data", "payload"), -1)
    scopes = [
        {"kind": "user_scope", "key": key.public, "role": "r", "template": limits | template}
        for key, template in zip(keys, TEMPLATES, strict=True)
    ]

    def act(talk):
        talk.update(credentials.account("PLAIN", {}, signing_keys=scopes))
        for fields in USERS:
            talk.lines.append(str(fields))
            talk.show(credentials.user("u", "PLAIN", **fields), user)
        for template, key in zip(TEMPLATES, keys, strict=True):
            for more in ({}, {"src": []}):
                talk.lines.append(f"{template} {more}")
                scoped = credentials.user("u", "PLAIN", key, is_scoped=True, **more)
                talk.show(scoped, user)

    lines = both(act)
    assert lines.count("PONG") + sum(line.startswith("-ERR") for line in lines) == (
        len(USERS) + 2 * len(TEMPLATES)
    )


def test_how_an_account_looks(both, credentials):
    """Times are shown, and the numbers of subscriptions, which differ."""
    exporter, importer = (credentials.account_key(each).public for each in ("PLAIN", "FEW"))
    timed = {"sampling": 25, "results": "told"}
    exports = [
        {"subject": "ask", "type": "service", "service_latency": timed},
        {"subject": "h.*", "type": "service", "service_latency": timed | {"sampling": "headers"}},
        {"subject": "z", "type": "service", "service_latency": timed | {"sampling": 0}},
        {"subject": "many", "type": "service", "response_type": "Stream", "service_latency": timed},
        {"subject": "p", "type": "stream", "token_req": True,
         "revocations": {importer: 1, "*": 7}},
        {"subject": "q", "type": "stream", "revocations": {importer: 1}},
    ]  # fmt: skip
    imports = [
        {"subject": subject, "type": kind, "account": exporter}
        for subject, kind in (
            ("ask", "service"),
            ("h.x", "service"),
            ("q", "stream"),
            ("p", "stream"),
        )
    ]

    def act(talk):
        talk.update(credentials.account("PLAIN", {}, exports=exports))
        talk.update(credentials.account("FEW", {}, imports=imports))
        for account in (exporter, importer):
            name = (
                "PLAIN" if account == exporter else "FEW"
            )  # nothing is shown of one without users
            talk.show(credentials.user("u", name), credentials.Key("user", "u"))
            data = talk.asked(f"ACCOUNT.{account}.INFO")["data"]
            talk.lines.append(str(data["complete"]))
            links = [*data.get("exports", []), *data["imports"]]
            own = [each for each in links if "$SYS" not in str(each) and "$JS" not in str(each)]
            talk.lines += sorted(json.dumps(each) for each in own)

    assert any("revoked_activations" in line for line in both(act))


def test_an_activation_lets_in_what_shows_it_and_nothing_else(both, credentials):
    exporter = credentials.account_key("PLAIN").public
    importer = credentials.account_key("FEW").public
    links = [(kind, subject) for kind in ("stream", "service") for subject in ("p.a", "p.b")]
    exports = [{"type": kind, "subject": each, "token_req": True} for kind, each in links]

    def act(talk):
        talk.update(credentials.account("PLAIN", {}, exports=exports))
        talk.update(credentials.account("FEW", {}))
        for kind, allowed in product(("stream", "service"), ("p.a", "p.>", "p.b")):
            entry = {"type": kind, "account": exporter}
            shown = {"token": credentials.activation("PLAIN", "FEW", allowed, kind)}
            for first, second in (({}, shown), (shown, {}), (shown, shown)):
                imports = [
                    entry | {"subject": "p.a"} | first,
                    entry | {"subject": "p.b"} | second,
                ]
                talk.update(credentials.account("FEW", {}, imports=imports))
                talk.show(credentials.user("u", "FEW"), credentials.Key("user", "u"))
                data = talk.asked(f"ACCOUNT.{importer}.INFO")["data"]
                talk.lines.append(f"{kind} {allowed} {data['complete']}")
                talk.lines += sorted(
                    each["subject"] for each in data["imports"] if each["account"] == exporter
                )

    assert any("False" in line for line in both(act))


def test_limits_at_their_ends(both, credentials):
    user, most, least = credentials.Key("user", "u"), 2**63 - 1, -(2**63)

    def act(talk):
        for limits in (
            *({name: value} for name in ("conn", "payload", "data", "leaf")
              for value in (most, least, -5, -1)),
            {"subs": most},
            {"mem_max_stream_bytes": most, "disk_max_stream_bytes": most, "max_ack_pending": most},
            {"streams": most, "consumer": most},
        ):  # fmt: skip
            talk.update(credentials.account("PLAIN", STORAGE | limits))
            talk.lines.append(str(limits))
            talk.show(credentials.user("u", "PLAIN"), user)
        talk.update(credentials.account("PLAIN", STORAGE))
        for limits in ({"subs": most}, {"payload": most}, {"data": most}, {"data": least}):
            talk.lines.append(str(limits))
            talk.show(credentials.user("u", "PLAIN", **limits), user)

    lines = both(act)
    assert lines.count("-ERR 'maximum account active connections exceeded'") == 2


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
