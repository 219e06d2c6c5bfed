"""A node that follows a changed configuration."""

from __future__ import annotations

import dataclasses

import pytest
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.account_options import claimed_accounts
from jetstream_server.config.options import (
    AccountOptions,
    AuthorizationOptions,
    ExportOptions,
    ImportOptions,
    MappingDestination,
    OperatorOptions,
    ServerOptions,
    SubjectMapping,
    UserOptions,
)
from jetstream_server.config.permissions import Permissions, SubjectPermissions
from jetstream_server.node import successions, upkeep
from jetstream_server.node.auth.auth import Authenticator, User
from jetstream_server.node.auth.users import users_of
from jetstream_server.node.reload import Arrangement, arrange_accounts, reload


def options(*accounts, **others):
    return ServerOptions(accounts=accounts, **others)


def users(*names, **others):
    return tuple([UserOptions(name, "x", **others) for name in names])


def follow(node, new):
    reload(node, new, Authenticator(users_of(new)))


@pytest.fixture
def node(make_node):
    old = options(AccountOptions("A", users("a", "b")))
    node = make_node(users_of(old))
    arrange_accounts(node, old)
    return node


def test_an_account_that_goes_and_comes_back_has_its_limits_again(node):
    old, account = node.options, node.accounts["A"]
    limited = AccountOptions("A", users("a", "b"), max_payload=5)
    follow(node, options(limited))
    limits = account.limits
    assert limits.payload_bytes_max == 5
    follow(node, options(limited, AccountOptions("C")))
    assert account.limits is limits  # nothing is made again for those that stay
    follow(node, options(AccountOptions("C")))
    assert account.limits.payload_bytes_max == -1
    follow(node, options(limited))
    assert account.limits.payload_bytes_max == 5
    follow(node, old)
    assert account.limits.payload_bytes_max == -1


def test_who_is_still_known_stays(node, connect):
    a = connect(b"a")
    a.say(b"SUB x 1\r\n")
    follow(node, options(AccountOptions("A", users("a", "b", "c"), max_payload=5)))
    assert a.say(b"PUB x 1\r\nx\r\n") == b"MSG x 1 1\r\nx\r\n"
    assert b"Maximum Payload" in a.say(b"PUB x 6\r\n123456\r\n")
    assert connect(b"c").say(b"PING\r\n").startswith(b"PONG")


def test_who_is_gone_is_closed_without_a_word(node, connect):
    a, b = connect(b"a"), connect(b"b")
    follow(node, options(AccountOptions("A", users("a"))))
    assert (a.session.closing, b.session.closing) == ("", "Client Closed")
    assert b.read() == b""


def test_who_has_another_password_or_account_is_told(node, connect):
    a, b = connect(b"a"), connect(b"b")
    other = AccountOptions("A", (UserOptions("a", "changed"),))
    follow(node, options(other, AccountOptions("B", users("b"))))
    for client in (a, b):
        assert client.read() == b"-ERR 'Authorization Violation'\r\n"
        assert client.session.closing


def test_who_had_no_name_has_to_give_one(make_node, make_client):
    node = make_node()
    client = make_client(node)
    client.connect(b'{"verbose":false,"pedantic":false}')
    follow(node, ServerOptions())
    assert not client.session.closing
    follow(node, ServerOptions(authorization=AuthorizationOptions(token="t")))
    assert client.read() == b"-ERR 'Authorization Violation'\r\n"


def test_subscriptions_that_are_no_longer_allowed_end(node, connect):
    a = connect(b"a")
    a.say(b"SUB x 1\r\nSUB work q1 8\r\nSUB y 2\r\n")
    rules = Permissions(subscribe=SubjectPermissions(("y",)))
    follow(node, options(AccountOptions("A", users("a", "b", permissions=rules))))
    assert a.read() == (
        b'-ERR \'Permissions Violation for Subscription to "x" (sid "1")\'\r\n'
        b'-ERR \'Permissions Violation for Subscription to "work" using queue "q1" (sid "8")\'\r\n'
    )
    assert list(a.session.subscriptions) == [b"2"]


def test_too_many_connections(node, connect):
    clients = [connect(b"a") for _ in range(4)]
    follow(node, options(AccountOptions("A", users("a", "b")), max_connections=3))
    assert [bool(each.session.closing) for each in clients] == [False, False, False, True]
    assert clients[3].read() == b"-ERR 'maximum connections exceeded'\r\n"


def test_imports_come_and_go(node, connect):
    a = connect(b"a")
    a.say(b"SUB ev.> 1\r\n")
    with_import = options(
        AccountOptions("A", users("a", "b"), imports=(ImportOptions("stream", "N", "ev.>"),)),
        AccountOptions("N", users("n"), exports=(ExportOptions("stream", "ev.>"),)),
    )
    follow(node, with_import)
    n = connect(b"n")
    n.say(b"PUB ev.1 2\r\nhi\r\n")
    assert a.read() == b"MSG ev.1 1 2\r\nhi\r\n"
    follow(node, options(AccountOptions("A", users("a", "b")), AccountOptions("N", users("n"))))
    n.say(b"PUB ev.1 2\r\nhi\r\n")
    assert a.read() == b"" and not node.links


def test_a_mapping_that_cannot_be_changes_nothing(node, connect):
    bad = SubjectMapping("a.*", (MappingDestination("b.$7"),))
    a = connect(b"a")
    before = node.options
    with pytest.raises(ConfigError):
        follow(node, options(AccountOptions("B", mappings=(bad,)), max_payload=5))
    assert node.options is before and not a.session.closing and "B" not in node.accounts


def test_a_mapping_that_an_account_claims_and_cannot_be_stops_nobody(
    node, connect, credentials, monkeypatch
):
    """The JWT of one account must not keep the server from starting, or from following others."""
    noted: list[str] = []
    monkeypatch.setattr(node, "note", lambda level, text: noted.append(f"{level} {text}"))
    key = credentials.account_key("C").public
    token = credentials.account(
        "C", {}, mappings={"a.*": [{"subject": "b.$7"}], "c": [{"subject": "d"}]}
    )
    tokens = {key: token}
    (claimed,), _ = claimed_accounts(tokens, (credentials.OPERATOR.public,), 1)
    for _ in range(2):
        follow(node, options(AccountOptions("A", users("a", "b"), max_payload=5), claimed))
    assert node.accounts["A"].limits.payload_bytes_max == 5
    mappings = node.accounts[key].mappings
    assert mappings.apply(b"c") == b"d" and mappings.apply(b"a.x") == b"a.x"
    (text,) = noted
    assert text.startswith(f'ERR Error adding subject mapping "a.*" for account [{key}/C]: ')


def test_mappings_that_stay_are_not_made_again(node, connect):
    mapping = SubjectMapping("m.*", (MappingDestination("x.$1", 100),))
    follow(node, options(AccountOptions("A", users("a"), mappings=(mapping,))))
    made = node.accounts["A"].mappings
    for changed, is_kept in (({"max_payload": 9}, True), ({"mappings": (mapping, mapping)}, False)):
        new = {"mappings": (SubjectMapping("m.*", (MappingDestination("x.$1", 100),)),), **changed}
        follow(node, options(AccountOptions("A", users("a"), **new)))
        assert (node.accounts["A"].mappings is made) is is_kept
    a = connect(b"a")
    assert a.say(b"SUB x.* 1\r\nPUB m.y 1\r\nx\r\n") == b"MSG x.y 1 1\r\nx\r\n"


def test_many_subscriptions_are_looked_at_in_turns_and_get_nothing_forbidden_meanwhile(
    node, connect, monkeypatch
):
    monkeypatch.setattr(upkeep, "REVIEWED_OF_TURN_MAX", 10)
    a, b = connect(b"a"), connect(b"b")
    a.say(b"".join(b"SUB s.%d %d\r\n" % (n, n + 1) for n in range(45)) + b"SUB y 99\r\n")
    rules = Permissions(subscribe=SubjectPermissions(("y",)))
    a_now, b_now = UserOptions("a", "x", permissions=rules), UserOptions("b", "x")
    follow(node, options(AccountOptions("A", (a_now, b_now))))
    told = [a.read()]
    b.session.feed(b"PUB s.44 1\r\nx\r\nPUB y 1\r\nz\r\n")
    a.session.feed(b"UNSUB 45\r\n")  # while it waits to be looked at
    while node.next_deadline() == 0:
        node.run(a.now)
        told.append(a.read())
    assert b"".join(told).count(b"-ERR 'Permissions Violation for Subscription") == 44
    assert max(each.count(b"-ERR") for each in told) <= 20
    assert b"MSG s." not in b"".join(told) and b"MSG y 99 1\r\nz\r\n" in b"".join(told)
    assert list(a.session.subscriptions) == [b"99"] and not a.session.closing


def test_nothing_changes_until_all_is_made_ready(node, connect):
    a = connect(b"a")
    a.say(b"SUB ev.> 1\r\n")
    new = options(
        AccountOptions("A", users("a"), imports=(ImportOptions("stream", "N", "ev.>"),)),
        AccountOptions(
            "N", exports=(ExportOptions("stream", "ev.>"),), max_payload=5,
            mappings=(SubjectMapping("m", (MappingDestination("x"),)),),
        ),
    )  # fmt: skip
    arrangement = Arrangement(node, new)
    before = node.accounts["A"].arranged
    assert sum(arrangement.make()) > 0
    assert "N" not in node.accounts and not node.links
    assert node.accounts["A"].arranged is before
    reload(node, new, Authenticator(users_of(new)), 7, arrangement)
    made = node.accounts["N"]
    assert (made.limits.payload_bytes_max, made.mappings.apply(b"m")) == (5, b"x")
    assert node.links and made.updated_at == 7


def test_who_uses_an_account_whose_jwt_stays_is_not_looked_at_again(
    make_node, make_client, credentials
):
    """To look at each of thousands of clients took some tens of microseconds."""
    names = {each: credentials.account_key(each).public for each in "AB"}

    def claimed(**limits):
        tokens = {
            key: credentials.account(name, limits if name == "B" else {})
            for name, key in names.items()
        }
        accounts, _ = claimed_accounts(tokens, operator.trusted_keys, 1)
        return ServerOptions(accounts=accounts, operator=operator)

    asked = []

    class Gatekeeper(Authenticator):
        def successor(self, user, now=0):
            asked.append(user.account)
            return user

    operator = OperatorOptions((credentials.OPERATOR.public,))
    known = [User(account=key, name=name, password="x") for name, key in names.items()]
    node = make_node(known, claimed())
    arrange_accounts(node, node.options)
    for name in names:
        make_client(node).connect(b'{"user":"%b","pass":"x"}' % name.encode())
    reload(node, claimed(conn=7), Gatekeeper(known))
    assert asked == [names["B"]]
    other = dataclasses.replace(
        claimed(conn=7), operator=OperatorOptions(operator.trusted_keys, {}, "", True)
    )
    reload(node, other, Gatekeeper(known))
    assert sorted(asked[1:]) == sorted(names.values()), "an operator may pin accounts"


def test_what_the_server_allows_reaches_those_whose_account_stays(
    make_node, make_client, credentials
):
    key = credentials.account_key("A").public
    operator = OperatorOptions((credentials.OPERATOR.public,))
    tokens = {key: credentials.account("A", {})}
    accounts, _ = claimed_accounts(tokens, operator.trusted_keys, 1)
    known = [User(account=key, name="a", password="x")]
    node = make_node(known, ServerOptions(accounts=accounts, operator=operator))
    arrange_accounts(node, node.options)
    client = make_client(node)
    client.connect(b'{"user":"a","pass":"x","verbose":false}')
    reload(node, dataclasses.replace(node.options, max_payload=5), Authenticator(known))
    assert b"Maximum Payload" in client.say(b"PUB x 6\r\n123456\r\n")


def test_who_is_yet_to_be_looked_at_hears_nothing_by_new_imports(node, connect, monkeypatch):
    """Neither the rules before nor those of now let it."""
    monkeypatch.setattr(successions, "SESSIONS_OF_TURN", 1)
    others = [connect(b"a") for _ in range(8)]
    b = connect(b"b")
    for client in (*others, b):
        client.say(b"SUB > 1\r\n")
    new = options(
        AccountOptions("A", users("a"), imports=(ImportOptions("stream", "N", "ev.>"),)),
        AccountOptions("N", users("n"), exports=(ExportOptions("stream", "ev.>"),)),
    )
    follow(node, new)
    n = connect(b"n")
    n.say(b"PUB ev.1 1\r\nx\r\n")
    assert b"MSG" not in b.read() and node.successions.are_any
    for _ in range(12):
        n.now += 2_000_000
        n.say(b"")
    n.say(b"PUB ev.2 1\r\nx\r\n")
    assert all(b"ev.2" in client.read() for client in others)
    assert b.session.closing and not node.successions.are_any and not node.links.are_joining


def test_reloads_that_follow_each_other_have_all_imports_joined(node, connect, monkeypatch):
    monkeypatch.setattr(successions, "SESSIONS_OF_TURN", 1)
    clients = [connect(b"a") for _ in range(4)]
    for client in clients:
        client.say(b"SUB > 1\r\n")
    exports = (ExportOptions("stream", "ev.>"), ExportOptions("stream", "x"))
    for subjects in (("ev.>",), ("ev.>", "x")):
        imports = tuple([ImportOptions("stream", "N", each) for each in subjects])
        follow(
            node,
            options(
                AccountOptions("A", users("a"), imports=imports),
                AccountOptions("N", users("n"), exports=exports),
            ),
        )
    n = connect(b"n")
    for _ in range(9):
        n.now += 2_000_000
        n.say(b"")
    n.say(b"PUB ev.2 1\r\ny\r\nPUB x 1\r\nz\r\n")
    assert [client.read().count(b"MSG") for client in clients] == [2] * 4


@pytest.mark.parametrize("at", [None, 0, 99, 100, 250, 299])
def test_whether_an_account_is_what_it_was_is_found_out_in_steps(node, at):
    """To compare five thousand users with those before took 15 ms, at the moment of the change."""
    names = [f"u{number}" for number in range(300)]
    follow(node, options(AccountOptions("A", users(*names)), AccountOptions("B"), *some(0)))
    changed = list(users(*names))
    if at is not None:
        changed[at] = dataclasses.replace(changed[at], password="y")
    new = options(AccountOptions("A", tuple(changed)), AccountOptions("D"), *some(1))
    arrangement = Arrangement(node, new)
    taken = list(arrangement.make())
    assert max(taken) <= 100 and sum(taken) >= (100 if at == 0 else 300 if at is None else at)
    expected = {"B", "D", "limited", "fewer", "other"} | ({"A"} if at is not None else set())
    assert arrangement.changed == expected
    reload(node, new, Authenticator(users_of(new)), 7, arrangement)
    assert {each for each, account in node.accounts.items() if account.updated_at == 7} == expected


def some(number):
    """Return accounts that are the same, and others that are not, before and after."""
    return (
        AccountOptions("same", users("s"), max_payload=3),
        AccountOptions("limited", users("l"), max_payload=number),
        AccountOptions("fewer", users("f", "g")[number:]),
        AccountOptions("other", users("one" if number else "two")),
    )
