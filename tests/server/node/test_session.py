"""Sessions: one client's side of the wire, as probed on the genuine server."""

from __future__ import annotations

import dataclasses
from collections import Counter
from functools import partial
from random import Random

import pytest
from jetstream_server.base.clock import MINUTE, SECOND
from jetstream_server.config.options import MappingDestination, ServerOptions, SubjectMapping
from jetstream_server.core.deliveries import DELIVERIES_OF_TURN_MAX
from jetstream_server.node import session as session_module
from jetstream_server.node import upkeep
from jetstream_server.node.accounts.subject_mappings import SubjectMappings
from jetstream_server.node.auth.auth import Authenticator, User
from jetstream_server.node.auth.expected_replies import ResponseRules
from jetstream_server.node.auth.permissions import PermissionRules, SubjectRules
from jetstream_server.node.node import Node
from jetstream_server.node.session import DELIVERIES_OF_FILTERED, PLACES_OF_OP, Session
from jetstream_server.protocol.ops import PubRun

from tests.traced_lines import lines_of


def test_the_first_bytes_are_an_info_line(node, make_client):
    client = make_client(node)
    assert client.info.startswith(b'INFO {"server_id":"N')
    assert client.info.endswith(b"} \r\n")
    assert b'"client_id":1' in client.info and b'"client_ip":"10.0.0.1"' in client.info


def test_verbose_is_the_default_until_connect_says_otherwise(node, make_client):
    client = make_client(node)
    assert client.say(b"SUB a 1\r\n") == b"+OK\r\n"
    assert client.say(b"CONNECT {}\r\n") == b"+OK\r\n"
    assert client.connect() == b""
    assert client.say(b"SUB a 1\r\n") == b""


def test_a_publish_reaches_plain_subscribers_and_one_of_each_queue_group(node, make_client):
    alice, bob = make_client(node), make_client(node)
    alice.connect()
    bob.connect()
    bob.say(b"SUB a.* 1\r\nSUB a.> g 2\r\nSUB a.b g 3\r\n")
    alice.say(b"PUB a.b 5\r\nhello\r\n")
    said = bob.read()
    assert said.count(b"MSG a.b 1 5\r\nhello\r\n") == 1
    assert said.count(b"MSG a.b 2 5") + said.count(b"MSG a.b 3 5") == 1


def test_a_client_hears_itself_unless_it_says_not_to(node, make_client):
    client = make_client(node)
    client.connect()
    assert client.say(b"SUB a 1\r\nPUB a 1\r\nx\r\n") == b"MSG a 1 1\r\nx\r\n"
    client.connect(b'{"verbose":false,"pedantic":false,"echo":false}')
    assert client.say(b"SUB a 1\r\nPUB a 1\r\nx\r\n") == b""


def test_headers_are_stripped_for_a_client_that_does_not_read_them(node, make_client):
    client = make_client(node)
    client.connect(b'{"verbose":false,"pedantic":false,"headers":true}')
    plain = make_client(node)
    plain.connect()
    plain.say(b"SUB a 1\r\n")
    said = client.say(b"SUB a 9\r\nHPUB a 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\n")
    assert said == b"HMSG a 9 18 20\r\nNATS/1.0\r\nA: b\r\n\r\nhi\r\n"
    assert plain.read() == b"MSG a 1 2\r\nhi\r\n"


def test_nobody_listening_is_said_to_a_requester_that_asked_to_know(node, make_client):
    client = make_client(node)
    client.connect(b'{"verbose":false,"pedantic":false,"headers":true,"no_responders":true}')
    said = client.say(b"SUB _INBOX.a 1\r\nPUB nobody _INBOX.a 0\r\n\r\n")
    assert said == b"HMSG _INBOX.a 1 38 38\r\nNATS/1.0 503\r\nNats-Subject: nobody\r\n\r\n\r\n"
    # A queue subscription to the reply does not count.
    assert client.say(b"UNSUB 1\r\nSUB _INBOX.a q 2\r\nPUB nobody _INBOX.a 0\r\n\r\n") == b""


def test_unsub_counts_from_the_beginning_of_the_subscription(node, make_client):
    client = make_client(node)
    client.connect()
    said = client.say(b"SUB a 1\r\nPUB a 0\r\n\r\nUNSUB 1 3\r\n" + b"PUB a 0\r\n\r\n" * 4)
    assert said == b"MSG a 1 0\r\n\r\n" * 3
    assert client.say(b"SUB a 2\r\nPUB a 0\r\n\r\nUNSUB 2 1\r\nPUB a 0\r\n\r\n").count(b"MSG") == 1


def test_a_second_sub_with_a_known_sid_is_ignored(node, make_client):
    client = make_client(node)
    client.connect()
    assert client.say(b"SUB a 1\r\nSUB b 1\r\nPUB b 0\r\n\r\n") == b""


def test_subscriptions_before_connect_stay_on_an_open_server(node, make_client):
    client = make_client(node)
    client.say(b"SUB x 1\r\n")
    client.connect()
    assert b"MSG x 1 1\r\nz\r\n" in client.say(b"PUB x 1\r\nz\r\n")


def test_only_known_fields_of_connect_are_kept(node, make_client):
    client = make_client(node)
    for number in range(3):
        client.say(b'CONNECT {"verbose":false,"field %d":1,"name":"n"}\r\n' % number)
    assert set(client.session.options) == {"verbose", "name"}


def test_a_second_connect_clears_the_subscriptions(node, make_client):
    client = make_client(node)
    client.connect()
    client.say(b"SUB a 1\r\n")
    client.connect()
    assert client.say(b"PUB a 0\r\n\r\n") == b""
    assert client.say(b"SUB a 1\r\nPUB a 0\r\n\r\n") == b"MSG a 1 0\r\n\r\n"


@pytest.mark.parametrize("ends_by", ["being gone", "a fault", "another user", "CONNECT"])
def test_to_end_its_subscriptions_takes_as_much_however_many_there_are(
    make_node, make_client, monkeypatch, ends_by
):
    monkeypatch.setattr(upkeep, "GIVEN_UP_OF_TURN_MAX", 1)
    users = [User(account=name.upper(), name=name, password="x") for name in "ab"]
    lines = []
    for count in (50, 500):
        node = make_node(users if ends_by == "another user" else [])
        for user in users:
            node.add_account(user.account)
        client, other = make_client(node), make_client(node)
        if ends_by != "CONNECT":  # which is said later
            client.connect(b'{"user":"a","pass":"x"}')
        client.say(b"".join(b"SUB a.%d %d\r\n" % (sid, sid) for sid in range(count)))
        other.connect(b'{"user":"a","pass":"x"}')
        session = client.session
        assert session.subscription_count == count
        ends = {
            "being gone": partial(node.close_session, session, "gone"),
            "a fault": partial(client.say, b"NONSENSE\r\n"),
            "another user": partial(client.connect, b'{"user":"b","pass":"x"}'),
            "CONNECT": client.connect,
        }
        lines.append(lines_of(ends[ends_by]))
        other.say(b"".join(b"PUB a.%d 0\r\n\r\n" % number for number in range(count)))
        assert (client.read().count(b"MSG") == count) == (ends_by == "CONNECT")
    assert lines[0] == lines[1]


def test_whom_no_jwt_limits_stays_with_as_many_subscriptions_as_a_server_allows(
    make_node, make_client
):
    client = make_client(make_node(options=ServerOptions(max_subscriptions=1)))
    client.say(b"SUB a 1\r\n")
    client.connect(b'{"verbose":false}')
    assert client.say(b"PUB a 0\r\n\r\n") == b"MSG a 1 0\r\n\r\n"


def test_who_has_become_somebody_else_hears_nothing_of_before(make_node, make_client, monkeypatch):
    """Although its subscriptions are taken out of the account's list later, as they are many."""
    monkeypatch.setattr(upkeep, "GIVEN_UP_OF_TURN_MAX", 1)
    users = [User(account=name.upper(), name=name, password="x") for name in "ab"]
    node = make_node(users)
    for user in users:
        node.add_account(user.account)
    as_a = b'{"user":"a","pass":"x","headers":true,"no_responders":true}'
    changes, member, publisher = (make_client(node) for _ in range(3))
    for client in (changes, member, publisher):
        client.connect(as_a)
    changes.say(b"".join(b"SUB plain.%d %d\r\nSUB a g q%d\r\n" % (n, n, n) for n in range(50)))
    member.say(b"SUB a g 1\r\n")
    publisher.say(b"SUB reply 1\r\n")
    # All in one turn.
    changes.session.feed(b'CONNECT {"user":"b","pass":"x"}\r\nSUB plain.49 1\r\n')
    publisher.session.feed(b"PUB a 0\r\n\r\n" * 20 + b"PUB plain.49 reply 0\r\n\r\n")
    node.run(changes.now)
    assert node.accounts["A"].sublist.count > 90
    assert member.read().count(b"MSG a 1 0") == 20
    assert b" 503" in publisher.read(), "nobody listens"
    assert b"MSG" not in changes.read()


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (b"NOPE\r\n", b"-ERR 'Unknown Protocol Operation'\r\n"),
        (b"PUB a 2000\r\n", b"-ERR 'Maximum Payload Violation'\r\n"),
        (b"SUB " + b"a" * 600 + b" 1\r\n", b"-ERR 'maximum control line exceeded'\r\n"),
        (b'CONNECT {"protocol":2}\r\n', b"-ERR 'invalid client protocol'\r\n"),
        (
            b'CONNECT {"verbose":false,"no_responders":true}\r\n',
            b"-ERR 'no responders requires headers support'\r\n",
        ),
        (b"PUB a\r\n", b""),
        (b"CONNECT {bad\r\n", b""),
        (b'CONNECT {"verbose":"yes"}\r\n', b""),
    ],
)
def test_broken_rules_end_the_session(node, make_client, said, answer):
    client = make_client(node)
    assert client.say(said) == answer
    assert client.session.closing


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (b"SUB a..b 1\r\n", b"-ERR 'Invalid Subject'\r\n"),
        (b"PUB $NRG.x 0\r\n\r\n", b"-ERR 'Permissions Violation for Publish to \"$NRG.x\"'\r\n"),
        (
            b"PUB a $JS.ACK.x 0\r\n\r\n",
            b"-ERR 'Permissions Violation for Publish with Reply of \"$JS.ACK.x\"'\r\n",
        ),
        (
            b"SUB a _sys_ 1\r\n",
            b'-ERR \'Permissions Violation for Subscription to "a" using queue "_sys_"\'\r\n',
        ),
    ],
)
def test_smaller_mistakes_keep_the_connection(node, make_client, said, answer):
    client = make_client(node)
    client.connect()
    assert client.say(said) == answer
    assert not client.session.closing


def test_a_message_before_a_refused_one_is_still_routed(node, make_client):
    client = make_client(node)
    client.connect()
    said = client.say(b"SUB > 1\r\nPUB a 1\r\nx\r\nPUB b $JS.ACK.x.y 1\r\ny\r\nPUB c 1\r\nz\r\n")
    assert b"MSG a 1 1\r\nx\r\n" in said and b"MSG c 1 1\r\nz\r\n" in said
    assert b"MSG b" not in said


def test_a_protocol_1_client_gets_its_account_after_the_first_pong(node, make_client):
    client = make_client(node)
    client.connect(b'{"verbose":false,"pedantic":false,"protocol":1}')
    said = client.say(b"PING\r\n")
    assert said.startswith(b"PONG\r\nINFO {")
    assert b'"connect_info":true,"remote_account":"$G"' in said
    assert client.say(b"PING\r\n") == b"PONG\r\n"


def test_the_first_ping_counts_from_connect(node, make_client, options):
    client = make_client(node)
    client.now += 5 * SECOND
    assert client.say(b"") == b""
    client.connect()
    client.now += 2 * SECOND - 1
    assert client.say(b"") == b""
    client.now += 1
    assert client.say(b"") == b"PING\r\n"
    silent = make_client(node)
    silent.now = client.now + options.ping_interval_ns
    assert silent.say(b"") == b"PING\r\n"


def test_pings_and_stale_connections(node, make_client, options):
    client = make_client(node)
    client.connect()
    client.now += 2 * SECOND
    assert client.say(b"") == b"PING\r\n"
    client.now += 3_000_000
    client.say(b"PONG\r\n")
    assert client.session.rtt_ns == 3_000_000
    for _ in range(options.ping_max):
        client.now += options.ping_interval_ns
        assert client.say(b"") == b"PING\r\n"
    client.now += options.ping_interval_ns
    assert client.say(b"") == b"-ERR 'Stale Connection'\r\n"


def test_a_client_that_does_not_read_is_cut_off_without_a_word(make_node, make_client, options):
    node = make_node(options=dataclasses.replace(options, max_pending=4000))
    slow, fast = make_client(node), make_client(node)
    slow.connect()
    fast.connect()
    slow.say(b"SUB a 1\r\n")
    fast.say(b"PUB a 1000\r\n" + b"x" * 1000 + b"\r\n")
    assert not slow.session.closing
    fast.say((b"PUB a 1000\r\n" + b"x" * 1000 + b"\r\n") * 4)
    assert slow.session.closing == "Slow Consumer (Pending Bytes)"
    assert slow.read() == b""
    assert node.stats.slow_consumers == 1


def test_credentials_are_required_when_there_are_users(make_node, make_client):
    node = make_node([User(name="ann", password="pw"), User(token="secret")])
    client = make_client(node)
    assert b'"auth_required":true' in client.info
    assert client.say(b"PING\r\n") == b"-ERR 'Authorization Violation'\r\n"
    assert client.session.closing == "Authentication Failure"
    client = make_client(node)
    assert client.connect(b'{"user":"ann","pass":"no"}') == b"-ERR 'Authorization Violation'\r\n"
    for options in (b'{"user":"ann","pass":"pw"}', b'{"auth_token":"secret"}'):
        assert make_client(node).connect(options) == b"+OK\r\n"


def test_a_silent_client_loses_its_chance_to_log_in(make_node, make_client):
    client = make_client(make_node([User(name="ann", password="pw")]))
    client.now += 2 * SECOND
    assert client.say(b"") == b"-ERR 'Authentication Timeout'\r\n"


def test_permissions_bound_what_a_client_says_and_hears(make_node, make_client):
    permissions = PermissionRules(
        SubjectRules(allow=["ok.>"], deny=["ok.not"]), SubjectRules(deny=["in.secret"])
    )
    node = make_node([User(name="ann", password="pw", permissions=permissions), User(token="t")])
    ann, root = make_client(node), make_client(node)
    ann.connect(b'{"user":"ann","pass":"pw","verbose":false,"pedantic":false}')
    root.connect(b'{"auth_token":"t","verbose":false,"pedantic":false}')
    root.say(b"SUB > 1\r\n")
    assert (
        ann.say(b"PUB ok.a 0\r\n\r\nPUB ok.not 0\r\n\r\nPUB no 0\r\n\r\n")
        == b"-ERR 'Permissions Violation for Publish to \"ok.not\"'\r\n"
        b"-ERR 'Permissions Violation for Publish to \"no\"'\r\n"
    )
    assert root.read() == b"MSG ok.a 1 0\r\n\r\n"
    assert b"Permissions Violation for Subscription" in ann.say(b"SUB in.secret 1\r\n")
    ann.say(b"SUB in.* 2\r\n")
    root.say(b"PUB in.secret 0\r\n\r\nPUB in.open 0\r\n\r\n")
    assert ann.read() == b"MSG in.open 2 0\r\n\r\n"


def restricted(make_node, make_client, rules):
    """Return clients of a user to whom these rules apply, and of one to whom none do."""
    permissions = PermissionRules(SubjectRules(), rules)
    node = make_node([User(name="ann", password="pw", permissions=permissions), User(token="t")])
    ann, root = make_client(node), make_client(node)
    ann.connect(b'{"user":"ann","pass":"pw","verbose":false,"pedantic":false}')
    root.connect(b'{"auth_token":"t","verbose":false,"pedantic":false}')
    return ann, root


def test_what_is_looked_at_for_who_listens_takes_turns(make_node, make_client):
    ann, root = restricted(make_node, make_client, SubjectRules(deny=["in.secret"]))
    other = make_client(ann.node)
    other.connect(b'{"auth_token":"t","verbose":false,"pedantic":false}')
    ann.say(b"SUB > 1\r\n")
    count, most = 5000, 2 * DELIVERIES_OF_TURN_MAX // DELIVERIES_OF_FILTERED
    messages = b"".join(
        b"PUB in.%d 0\r\n\r\nPUB in.secret 0\r\n\r\n" % n for n in range(count // 2)
    )
    root.session.feed(messages + b"PING\r\n")
    heard, answers, shares = [], b"", []
    while b"PONG" not in answers:
        pongs = other.say(b"PING\r\n")
        assert pongs == b"PONG\r\n"
        answers += root.read()
        said = ann.read()
        shares.append(said.count(b"MSG"))
        heard += [line.split()[1] for line in said.split(b"\r\n") if line.startswith(b"MSG")]
        assert len(shares) < 100
    assert heard == [b"in.%d" % n for n in range(count // 2)]
    assert max(shares) <= most // 2 and len(shares) >= count / most


def test_what_waits_to_be_looked_at_is_not_sent_to_who_listens_no_more(make_node, make_client):
    ann, root = restricted(make_node, make_client, SubjectRules(deny=["in.secret"]))
    ann.say(b"SUB > 1\r\nSUB > 2\r\nUNSUB 2 3000\r\n")
    root.say(b"".join(b"PUB in.%d 0\r\n\r\n" % n for n in range(5000)))
    assert root.session.is_put_off
    got = sids(ann.read()) + sids(ann.say(b"UNSUB 1\r\n"))
    while root.session.has_postponed:
        got += sids(ann.say(b""))
    assert 0 < got.count(b"1") < 5000 and got.count(b"2") == 3000
    assert root.say(b"PING\r\n") == b"PONG\r\n"


def test_subscriptions_held_against_very_many_rules_count_as_more(make_node, make_client):
    denied = [f"d.{'*.' * (n % 12)}{n}.x" for n in range(1000)]
    ann, _ = restricted(make_node, make_client, SubjectRules(deny=denied))
    for n in range(4):
        ann.say(b"SUB q.%d 1\r\n" % n)
    session = ann.session
    session.feed(b"".join(b"SUB d.%b%d.> %d\r\n" % (b"z." * 9, n, n + 9) for n in range(40)))
    tokens = 12  # of each, and as many places are looked at, or more
    assert session.run(ann.now, 10_000) > 40 + 40 * tokens // PLACES_OF_OP
    assert session.subscription_count > 40


def test_what_was_subscribed_to_before_signing_in_is_filtered_as_well(make_node, make_client):
    node = make_node([])
    ann, root = make_client(node), make_client(node)
    ann.say(b"SUB in.> 1\r\nSUB in.secret 2\r\n")
    root.connect()
    permissions = PermissionRules(SubjectRules(), SubjectRules(deny=["in.secret"]))
    ann.session._become(User(permissions=permissions))
    ann.read()
    root.say(b"PUB in.secret 0\r\n\r\nPUB in.open 0\r\n\r\n")
    assert sids(ann.read()) == [b"2", b"1"]  # a single subject is not looked at


@pytest.mark.parametrize(("first", "then"), [("in.secret", "out"), ("out", "in.secret")])
def test_what_is_filtered_follows_new_rights(make_node, make_client, first, then):
    ann, root = restricted(make_node, make_client, SubjectRules(deny=[first]))
    ann.say(b"SUB in.* 1\r\n")
    permissions = PermissionRules(SubjectRules(), SubjectRules(deny=[then]))
    for rules, is_heard in ((None, first == "out"), (permissions, then == "out")):
        if rules is not None:
            ann.session.adopt(User(name="ann", password="pw", permissions=rules))
        root.say(b"PUB in.secret 0\r\n\r\n")
        assert sids(ann.read()) == ([b"1"] if is_heard else [])
        assert [bool(each.is_filtered) for each in ann.session._subscriptions.all()] == [
            not is_heard
        ]


def test_what_many_subscriptions_of_a_client_may_be_sent_is_decided_once(
    make_node, make_client, monkeypatch
):
    rules = SubjectRules(deny=["in.secret", "in.q ann"])
    ann, root = restricted(make_node, make_client, rules)
    ann.say(b"".join(b"SUB in.> %d\r\n" % sid for sid in range(100)))
    ann.say(
        b"".join(
            b"SUB in.> %b %d\r\n" % (b"ann" if sid % 2 else b"bob%d" % sid, sid)
            for sid in range(100, 102)
        )
    )
    ann.say(b"UNSUB 7 3\r\n")
    asked = []
    delivers = rules.delivers
    monkeypatch.setattr(rules, "delivers", lambda *each: asked.append(each) or delivers(*each))
    said = [b"in.secret", b"in.open", b"in.q", b"in.secret", b"in.last"]
    root.say(b"".join(b"PUB %b 0\r\n\r\n" % subject for subject in said))
    heard = Counter(
        (line.split()[1], line.split()[2])
        for line in ann.read().split(b"\r\n")
        if line.startswith(b"MSG")
    )
    open_to = {b"in.open": range(102), b"in.q": range(101), b"in.last": range(102)}
    assert heard == {(each, b"%d" % sid): 1 for each, sids in open_to.items() for sid in sids}
    assert len(asked) == 4 * len(said)  # without a queue, with each of two, and for what may end
    assert b"7" not in ann.session._subscriptions.by_sid


def test_what_is_for_many_subscriptions_and_looked_at_takes_turns(make_node, make_client):
    ann, root = restricted(make_node, make_client, SubjectRules(deny=["in.secret"]))
    count, messages = 200, 900
    ann.say(b"".join(b"SUB in.> %d\r\n" % sid for sid in range(count)))
    root.session.feed(
        b"".join(b"PUB in.%d 0\r\n\r\nPUB in.secret 0\r\n\r\n" % n for n in range(messages))
    )
    heard, shares = Counter[bytes](), []
    while sum(heard.values()) < count * messages:
        shares.append(sids(ann.say(b"")))
        heard.update(shares[-1])
        assert len(shares) < 500
    assert set(heard.values()) == {messages} and len(heard) == count
    assert max(map(len, shares)) < 20 * 2 * DELIVERIES_OF_TURN_MAX


@pytest.mark.parametrize("many", [1, 3])
@pytest.mark.parametrize("subject", [b"in.secret", b"in.open"])
def test_to_look_who_takes_a_request_takes_turns(make_node, make_client, many, subject):
    """Where nobody may, each is answered by 503, and each is looked at for that."""
    ann, root = restricted(make_node, make_client, SubjectRules(deny=["in.secret"]))
    ann.say(b"".join(b"SUB in.> %d\r\n" % sid for sid in range(many)))
    node, left = root.node, []
    count = 2 * DELIVERIES_OF_TURN_MAX
    root.session.feed(b"PUB %b _r 0\r\n\r\n" % subject * count)
    while root.session.traffic.in_msgs < count:
        node.run(root.now)
        left.append(node._deliveries.left)
        ann.read()
        assert len(left) < 500
    assert len(left) > 2 and min(left) > -8 * DELIVERIES_OF_TURN_MAX


def test_to_ask_who_takes_something_counts_what_is_looked_at(make_node, make_client):
    denied = [f"in.{'*.' * (n % 12)}{n}.x" for n in range(1000)]
    ann, _ = restricted(make_node, make_client, SubjectRules(deny=denied))
    ann.say(b"SUB > 1\r\n")
    subscription, left = ann.session.subscriptions[b"1"], ann.node._deliveries
    rules, before = ann.session._rights.permissions.subscribe, left.left
    looked_at = rules.looked_at
    assert subscription.takes(b"in.a.b.c.d.e.f.g.h.i.j.x", None)
    more = (rules.looked_at - looked_at) // 3
    assert more > 1 and before - left.left == DELIVERIES_OF_FILTERED + more


@pytest.mark.parametrize("many", [60, 3000])
@pytest.mark.parametrize("group", [b"", b"g ", b"%d "])
def test_to_ask_many_who_takes_a_request_takes_turns(
    make_node, make_client, monkeypatch, many, group
):
    """A hundred requests and 3,000 members of a group, of whom none may be sent them, kept others
    waiting for 180 ms."""
    asked = []
    chooses = Session.chooses

    def counted(self, *about):
        asked[-1] += 1
        return chooses(self, *about)

    monkeypatch.setattr(Session, "chooses", counted)
    ann, root = restricted(make_node, make_client, SubjectRules(deny=["in.secret"]))
    ann.say(
        b"".join(b"SUB in.> %b%d\r\n" % (group.replace(b"%d", b"%d" % n), n) for n in range(many))
    )
    node, requests = root.node, 40 if many > 1000 else 1000
    while node.next_deadline() == 0:
        node.run(root.now)
    root.connect(b'{"auth_token":"t","verbose":false,"headers":true,"no_responders":true}')
    root.say(b"SUB r 1\r\n")
    root.session.feed(b"PUB in.secret r 0\r\n\r\n" * requests)
    told = b""
    while node.next_deadline() == 0:
        asked.append(0)
        node.run(root.now)
        told += root.read()
    assert told.count(b" 503\r\n") == requests
    assert sum(asked) >= many * requests and max(asked) <= 7_000


@pytest.mark.parametrize("many", [1, 100])
def test_what_may_not_be_sent_does_not_count_towards_the_end(make_node, make_client, many):
    ann, root = restricted(make_node, make_client, SubjectRules(deny=["in.secret"]))
    for sid in range(many):
        ann.say(b"SUB in.* %d\r\nUNSUB %d 2\r\n" % (sid, sid))
    said = [b"in.secret", b"in.a", b"in.secret", b"in.b", b"in.c"]
    root.say(b"".join(b"PUB %b 0\r\n\r\n" % subject for subject in said))
    heard = ann.read()
    assert heard.count(b"MSG in.a ") == heard.count(b"MSG in.b ") == many
    assert len(sids(heard)) == 2 * many and ann.session.subscription_count == 0


def sids(output: bytes) -> list[bytes]:
    return [line.split()[2] for line in output.split(b"\r\n") if line.startswith(b"MSG")]


@pytest.fixture
def three(make_node, make_client):
    """Return a client that may not be sent `in.secret`, and two that may be sent everything."""
    permissions = PermissionRules(SubjectRules(), SubjectRules(deny=["in.secret"]))
    node = make_node([User(name="ann", password="pw", permissions=permissions), User(token="t")])
    clients = [make_client(node) for _ in range(3)]
    clients[0].connect(b'{"user":"ann","pass":"pw","verbose":false}')
    for client in clients[1:]:
        client.connect(b'{"auth_token":"t","verbose":false}')
    return clients


def test_what_a_client_may_not_be_sent_does_not_count_as_delivered(three):
    """As in the genuine server; of these it got none, and of later ones one."""
    ann, bob, _ = three
    ann.say(b"SUB in.* 1\r\nUNSUB 1 2\r\n")
    said = [b"secret", b"secret", b"a", b"b", b"c"]
    bob.say(b"".join(b"PUB in.%b 0\r\n\r\n" % each for each in said))
    assert ann.read() == b"MSG in.a 1 0\r\n\r\nMSG in.b 1 0\r\n\r\n"
    assert not ann.session.subscriptions


def test_another_member_of_a_group_is_sent_what_is_traced(three):
    ann, bob, cid = three
    for client in (ann, cid):
        client.say(b"SUB in.* q 1\r\n")
    bob.connect(b'{"auth_token":"t","verbose":false,"headers":true}')
    block = b"NATS/1.0\r\nNats-Trace-Dest: tr\r\n\r\n"
    traced = b"HPUB in.secret %d %d\r\n%b\r\n" % (len(block), len(block), block)
    for _ in range(20):
        bob.say(traced)
    assert ann.read() == b"" and cid.read().count(b"MSG in.secret") == 20


@pytest.mark.parametrize("is_new", [False, True])
def test_another_member_of_a_group_is_sent_what_one_may_not_be_sent(three, is_new):
    """As in the genuine server; it was lost."""
    ann, bob, cid = three
    for client in (ann, cid):
        client.say(b"SUB in.* q 1\r\n")
    if is_new:  # and it is not looked at yet what ann subscribes to
        ann.node.upkeep._reviewed_left = 0
        ann.session.adopt(ann.session.user)
    bob.session.feed(b"PUB in.secret 0\r\n\r\n" * 20 + b"PUB in.a 0\r\n\r\n" * 20)
    bob.say(b"")
    from_ann, from_cid = ann.read(), cid.read()
    assert b"in.secret" not in from_ann and from_cid.count(b"MSG in.secret") == 20
    assert from_ann.count(b"MSG in.a") + from_cid.count(b"MSG in.a") == 20 and b"in.a" in from_ann


def test_whoever_is_cut_off_gets_no_share_of_a_group_any_more(node, make_client):
    """Its connection is closed at the end of the turn; until then its share was lost."""
    publisher, *members = [make_client(node) for _ in range(3)]
    for client in (publisher, *members):
        client.connect()
        client.say(b"SUB q g 1\r\n" if client is not publisher else b"")
    members[0].session.feed(b"NO SUCH THING\r\n")
    publisher.session.feed(b"PUB q 0\r\n\r\n" * 50)
    node.run(publisher.now)
    assert members[0].session.closing and b"MSG" not in members[0].read()
    assert members[1].read().count(b"MSG q 1 ") == 50
    assert members[0].session.subscription_count == 1, "which /connz tells of it"


def test_who_asks_only_itself_and_those_who_may_not_hear_it_is_told_so(three):
    ann, bob, _ = three
    ann.say(b"SUB in.* 1\r\n")
    bob.connect(b'{"auth_token":"t","verbose":false,"headers":true,"no_responders":true}')
    for own in bob.session.subscriptions.values():
        assert not own.is_filtered
    bob.connect(
        b'{"auth_token":"t","verbose":false,"headers":true,"no_responders":true,"echo":false}'
    )
    bob.say(b"SUB r 1\r\nSUB in.> 2\r\n")
    # As after a change of rights, until it is looked at again.
    bob.session.subscriptions[b"2"].is_filtered = True
    assert b" 503\r\n" in bob.say(b"PUB in.secret r 0\r\n\r\n")
    assert bob.say(b"PUB in.open r 0\r\n\r\n") == b"" and ann.read().count(b"MSG in.open") == 1


@pytest.mark.parametrize("group", [b"", b"q "])
@pytest.mark.parametrize("listeners", [1, 2])
def test_who_asks_is_told_that_nobody_may_be_sent_it(three, group, listeners):
    """As in the genuine server; it waited."""
    ann, bob, _ = three
    for sid in range(listeners):
        ann.say(b"SUB in.%b %b%d\r\n" % (b"*>"[sid : sid + 1], group, sid))
    bob.connect(b'{"auth_token":"t","verbose":false,"headers":true,"no_responders":true}')
    asked = [b"PUB in.%b r.%b 0\r\n\r\n" % (each, each) for each in (b"secret", b"a", b"secret")]
    told = bob.say(b"SUB r.* 1\r\n" + b"".join(asked))
    assert told.count(b"HMSG r.secret 1 ") == told.count(b"Nats-Subject: in.secret") == 2
    assert b"r.a" not in told
    assert ann.read().count(b"MSG in.a ") == (1 if group else listeners)


@pytest.mark.parametrize("many", [10, 100])
def test_each_of_many_subscriptions_of_a_client_is_sent_what_it_may_get(
    make_node, make_client, many
):
    permissions = PermissionRules(SubjectRules(), SubjectRules(deny=["in.secret"]))
    node = make_node([User(name="ann", password="pw", permissions=permissions), User(token="t")])
    ann, root = make_client(node), make_client(node)
    ann.connect(b'{"user":"ann","pass":"pw","verbose":false,"pedantic":false}')
    root.connect(b'{"auth_token":"t","verbose":false,"pedantic":false}')
    for client in (ann, root):
        client.say(b"".join(b"SUB in.> %d\r\n" % sid for sid in range(many)))
    root.say(b"UNSUB 3 1\r\n")
    all_of_them = [b"%d" % sid for sid in range(many)]
    heard = root.say(b"PUB in.open 2\r\nhi\r\n")
    assert sorted(sids(heard)) == sorted(all_of_them) and heard.count(b" 2\r\nhi\r\n") == many
    assert sorted(sids(ann.read())) == sorted(all_of_them)
    heard = root.say(b"PUB in.secret 0\r\n\r\n")
    assert sids(heard) == [sid for sid in all_of_them if sid != b"3"]
    assert ann.read() == b""
    assert ann.session.traffic.out_msgs == many and ann.session.traffic.out_bytes == 2 * many
    assert root.session.traffic.out_msgs == 2 * many - 1


def test_of_many_subscriptions_none_is_sent_what_new_rights_deny(
    make_node, make_client, monkeypatch
):
    monkeypatch.setattr("jetstream_server.node.upkeep.REVIEWED_OF_TURN_MAX", 10)
    node = make_node([User(name="ann", password="pw"), User(token="t")])
    ann, root = make_client(node), make_client(node)
    ann.connect(b'{"user":"ann","pass":"pw","verbose":false,"pedantic":false}')
    root.connect(b'{"auth_token":"t","verbose":false,"pedantic":false}')
    ann.say(b"".join(b"SUB in.open %d\r\n" % sid for sid in range(100)))
    permissions = PermissionRules(SubjectRules(), SubjectRules(deny=["in.open"]))
    ann.session.adopt(User(name="ann", password="pw", permissions=permissions))
    root.say(b"PUB in.open 0\r\n\r\n")
    assert len(ann.session._subscriptions) > 70, "most are yet to be looked at again"
    assert sids(ann.read()) == []


def test_after_two_reviews_at_a_time_nothing_is_filtered_that_need_not_be(
    make_node, make_client, monkeypatch
):
    monkeypatch.setattr("jetstream_server.node.upkeep.REVIEWED_OF_TURN_MAX", 10)
    node = make_node([User(name="ann", password="pw")])
    ann = make_client(node)
    ann.connect(b'{"user":"ann","pass":"pw","verbose":false,"pedantic":false}')
    ann.say(b"".join(b"SUB in.open %d\r\n" % sid for sid in range(100)))
    for denied in ("in.open", "in.other"):
        permissions = PermissionRules(SubjectRules(), SubjectRules(deny=[denied]))
        ann.session.adopt(User(name="ann", password="pw", permissions=permissions))
        ann.say(b"UNSUB 99\r\n")
    while node.upkeep.is_waiting:
        assert ann.session._reviews > 0
        ann.say(b"")
    assert ann.session._reviews == 0
    left = ann.session._subscriptions.all()
    assert 70 < len(left) < 100 and not any(each.is_filtered for each in left)


def test_a_question_to_many_subscriptions_of_a_client_may_be_answered(make_node, make_client):
    permissions = PermissionRules(SubjectRules(allow=[]), SubjectRules(), ResponseRules(1, SECOND))
    node = make_node([User(name="ann", password="pw", permissions=permissions), User(token="t")])
    ann, root = make_client(node), make_client(node)
    ann.connect(b'{"user":"ann","pass":"pw","verbose":false,"pedantic":false}')
    root.connect(b'{"auth_token":"t","verbose":false,"pedantic":false}')
    root.say(b"SUB answer.> 1\r\n")
    ann.say(b"".join(b"SUB question %d\r\n" % sid for sid in range(100)))
    root.say(b"PUB question answer.1 0\r\n\r\n")
    assert len(sids(ann.read())) == 100
    assert ann.say(b"PUB answer.1 0\r\n\r\n") == b""
    assert root.read() == b"MSG answer.1 1 0\r\n\r\n"
    assert b"Permissions Violation" in ann.say(b"PUB answer.1 0\r\n\r\n")


def test_the_timers_end_with_the_session(node, make_client):
    client = make_client(node)
    assert node.next_deadline() is not None
    node.close_session(client.session, "Client Closed")
    assert node.next_deadline() is None
    node.run(client.now + MINUTE)
    assert not node.sessions


def test_half_a_message_ends_with_the_session(node, make_client):
    client = make_client(node)
    parser = client.session.parser
    client.session.feed(b"PUB a 5\r\nhalf")
    assert parser._held or parser.later
    node.close_session(client.session, "Client Closed")
    assert not (parser._held or parser.later)


def test_a_responder_may_answer_what_it_was_asked(make_node, make_client):
    permissions = PermissionRules(SubjectRules(allow=[]), SubjectRules(), ResponseRules(1, SECOND))
    node = make_node([User(name="ann", password="pw", permissions=permissions), User(token="t")])
    ann, root = make_client(node), make_client(node)
    ann.connect(b'{"user":"ann","pass":"pw","verbose":false,"pedantic":false}')
    root.connect(b'{"auth_token":"t","verbose":false,"pedantic":false}')
    root.say(b"SUB answer.> 1\r\n")
    ann.say(b"SUB question 1\r\n")
    refused = b"-ERR 'Permissions Violation for Publish to \"answer.1\"'\r\n"
    assert ann.say(b"PUB answer.1 0\r\n\r\n") == refused
    root.say(b"PUB question answer.1 0\r\n\r\n")
    ann.read()
    assert ann.say(b"PUB answer.1 0\r\n\r\nPUB answer.1 0\r\n\r\n") == refused
    assert root.read() == b"MSG answer.1 1 0\r\n\r\n"
    root.say(b"PUB question answer.2 0\r\n\r\n")
    ann.now += 2 * SECOND
    ann.read()
    assert b"Permissions Violation" in ann.say(b"PUB answer.2 0\r\n\r\n")


def test_the_nonce_is_in_the_first_info_only(options, make_client):
    key = "U" + "A" * 55
    authenticator = Authenticator([User(nkey=key), User(token="t")], make_nonce=lambda: "n" * 15)
    node = Node(options, authenticator, Random(1), lambda level, text: None, port=4222)
    client = make_client(node)
    assert b'"nonce":"nnnnnnnnnnnnnnn"' in client.info
    assert client.connect(b'{"nkey":"%b","sig":"AAAA"}' % key.encode()) == (
        b"-ERR 'Authorization Violation'\r\n"
    )
    client = make_client(node)
    client.connect(b'{"auth_token":"t","verbose":false,"protocol":1}')
    assert b"nonce" not in client.say(b"PING\r\n")


def test_mapped_subjects_keep_their_place_among_others(node, make_client):
    mappings = [
        SubjectMapping("m.*", (MappingDestination("n.$1"),)),
        SubjectMapping("gone", (MappingDestination("gone", 0),)),
    ]
    node.accounts["$G"].mappings = SubjectMappings(mappings, Random(1))
    client = make_client(node)
    client.connect(b'{"verbose":false,"pedantic":false,"headers":true,"no_responders":true}')
    client.say(b"SUB > 1\r\n")
    heard = client.say(
        b"PUB a 0\r\n\r\nPUB m.1 r 1\r\nx\r\nPUB gone 0\r\n\r\n"
        b"HPUB m.2 12 12\r\nNATS/1.0\r\n\r\n\r\nPUB b 0\r\n\r\n"
    )
    assert heard == (
        b"MSG a 1 0\r\n\r\nMSG n.1 1 r 1\r\nx\r\nHMSG n.2 1 12 12\r\nNATS/1.0\r\n\r\n\r\n"
        b"MSG b 1 0\r\n\r\n"
    )


def test_limits_that_only_the_configuration_knows(make_node, make_client):
    options = ServerOptions(max_subject_tokens=2, has_headers=False)
    client = make_client(make_node(options=options))
    assert b'"headers":false' in client.info
    client.connect(b'{"verbose":false,"pedantic":false,"headers":true}')
    assert client.say(b"SUB a.b 1\r\nSUB a.b.c 2\r\n") == (
        b"-ERR 'Permissions Violation for Subscription to \"a.b.c\", too many tokens'\r\n"
    )
    client.say(b"HPUB a 12 12\r\n")
    assert client.session.closing


@pytest.mark.parametrize(
    ("options", "is_welcome"),
    [
        (b'{"verbose":false}', True),
        (b'{"verbose":false,"user":"","pass":null}', True),
        (b'{"verbose":false,"user":"eve","pass":"q"}', True),
        (b'{"verbose":false,"pass":"q"}', False),
    ],
)
def test_credentials_from_below_stand_in(make_node, make_client, options, is_welcome):
    users = [User(name="derek", password="p"), User(name="eve", password="q")]
    client = make_client(make_node(users))
    client.session.sign_in.credentials = {"user": "derek", "pass": "p"}
    said = client.connect(options)
    assert said == (b"" if is_welcome else b"-ERR 'Authorization Violation'\r\n")


@pytest.mark.parametrize("others", [0, 40])
def test_own_listeners_are_found_among_those_of_others(make_node, make_client, monkeypatch, others):
    """Five hundred requests of one client took 160 ms where 5,000 others listened to the reply."""
    node = make_node()
    crowd, client = make_client(node), make_client(node)
    crowd.connect(b'{"verbose":false}')
    crowd.say(b"".join(b"SUB r.%b %d\r\n" % (b">" if n % 2 else b"a", n) for n in range(400)))
    client.connect(b'{"verbose":false,"pedantic":false,"headers":true,"no_responders":true}')
    client.say(b"SUB r.* queue 7\r\nSUB r.*.b 8\r\nSUB r.a 9\r\n")
    client.say(b"".join(b"SUB x.%d %d\r\n" % (n, 100 + n) for n in range(others)))
    requests = b"PUB nobody r.a 0\r\n\r\nPUB nobody r.c 0\r\n\r\n"
    told = b"HMSG r.a 9 38 38\r\nNATS/1.0 503\r\nNats-Subject: nobody\r\n\r\n\r\n"
    assert client.say(requests) == told
    assert crowd.read() == b""
    run = PubRun.of([(b"nobody", b"r.a", b"", b"")])
    lines = [lines_of(lambda: client.session.unanswered(run, 0, 1))]
    crowd.session.feed(b"".join(b"SUB r.a %d\r\n" % n for n in range(1000, 3000)))
    for _ in range(9):
        crowd.say(b"")
    node.accounts["$G"].sublist.match(b"r.a")
    lines.append(lines_of(lambda: client.session.unanswered(run, 0, 1)))
    assert lines[1] < lines[0] + 20, "nothing is done for each of those who listen as well"
    client.read()
    monkeypatch.setattr(session_module, "_LOOKED_FOR_OWN_MAX", 2000)
    assert client.say(requests * 2).count(told) == (1 if others else 2)
