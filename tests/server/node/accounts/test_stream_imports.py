"""Streams of another account: shadows of subscriptions."""

from __future__ import annotations

from functools import partial

import pytest
from jetstream_server.core.wildcard_mapping import WildcardMapping
from jetstream_server.node.accounts.stream_imports import StreamImport

from tests.traced_lines import lines_of


@pytest.fixture
def node(accounts_node):
    return accounts_node


def join(node, source, target):
    a, b = node.accounts["A"], node.accounts["B"]
    link = StreamImport(b, a, WildcardMapping(source, target))
    link.open()
    return link


@pytest.mark.parametrize(
    ("source", "target", "listens", "sent", "seen"),
    [
        (b"ev.>", b"ev.>", b"ev.>", b"ev.1", b"ev.1"),
        (b"ev.>", b"A.ev.>", b"A.ev.1", b"ev.1", b"A.ev.1"),
        (b"ev.>", b"A.ev.>", b">", b"ev.1", b"A.ev.1"),
        (b"m.*.*", b"mm.$2.$1", b"mm.2.*", b"m.1.2", b"mm.2.1"),
    ],
)
def test_messages_arrive_under_the_importers_subject(
    node, connect, source, target, listens, sent, seen
):
    join(node, source, target)
    b, a = connect(b"b"), connect(b"a")
    b.say(b"SUB %b 7\r\n" % listens)
    a.say(b"PUB %b back 2\r\nhi\r\n" % sent)
    assert b.read() == b"MSG %b 7 back 2\r\nhi\r\n" % seen


def test_only_what_is_imported(node, connect):
    join(node, b"ev.>", b"ev.>")
    b, a = connect(b"b"), connect(b"a")
    b.say(b"SUB > 1\r\nSUB other 2\r\n")
    a.say(b"PUB other 2\r\nhi\r\nPUB e 2\r\nhi\r\n")
    assert b.read() == b""
    assert a.say(b"SUB ev.> 1\r\nPING\r\n").startswith(b"PONG")
    b.say(b"PUB ev.1 2\r\nhi\r\n")
    assert a.read() == b"", "nothing goes the other way"


def test_subscriptions_that_were_there_and_that_go(node, connect):
    b, a = connect(b"b"), connect(b"a")
    b.say(b"SUB ev.1 1\r\nSUB ev.2 2\r\n")
    link = join(node, b"ev.>", b"ev.>")
    assert node.accounts["A"].sublist.count == 2
    b.say(b"UNSUB 1\r\n")
    a.say(b"PUB ev.1 1\r\nx\r\nPUB ev.2 1\r\nx\r\n")
    assert b.read() == b"MSG ev.2 2 1\r\nx\r\n"
    link.close()
    assert node.accounts["A"].sublist.count == 0
    b.say(b"SUB ev.3 3\r\n")
    assert node.accounts["A"].sublist.count == 0


def test_an_automatic_unsub_counts_imported_messages(node, connect):
    join(node, b"ev.>", b"A.ev.>")
    b, a = connect(b"b"), connect(b"a")
    b.say(b"SUB A.ev.> 1\r\nUNSUB 1 2\r\n")
    a.say(b"".join(b"PUB ev.%d 0\r\n\r\n" % n for n in range(5)))
    assert b.read().count(b"MSG") == 2
    assert node.accounts["A"].sublist.count == node.accounts["B"].sublist.count == 0


def test_queue_groups_share_across_accounts(node, connect):
    join(node, b"ev.>", b"ev.>")
    b, a = connect(b"b"), connect(b"a")
    b.say(b"SUB ev.> group 1\r\n")
    own = a.say(b"SUB ev.> group 1\r\n" + b"PUB ev.1 0\r\n\r\n" * 40)
    assert own.count(b"MSG") + b.read().count(b"MSG") == 40
    assert 0 < own.count(b"MSG") < 40


def test_the_servers_own_interest_has_no_shadow(node, connect):
    from jetstream_server.core.subscription import Subscription

    join(node, b">", b">")
    for subject in (b"$JS.API.STREAM.>", b"$SYS.REQ.USER.INFO", b"_R_.a.*"):
        node.accounts["B"].sublist.insert(Subscription(subject, object()))
    assert node.accounts["A"].sublist.count == 0


def test_what_was_imported_goes_no_further(node, connect):
    node.add_account("C")
    join(node, b"ev.>", b"A.ev.>")
    a, b, c = node.accounts["A"], node.accounts["B"], node.accounts["C"]
    StreamImport(c, b, WildcardMapping(b"A.>", b"via.>")).open()
    from jetstream_server.core.subscription import Subscription

    c.sublist.insert(Subscription(b"via.>", object()))
    assert (a.sublist.count, b.sublist.count) == (0, 1)


def test_a_subscription_concerns_those_imports_that_it_may_get_something_of(
    node, connect, monkeypatch
):
    """Of two thousand imports each was asked for each subscription: 2 ms."""
    asked = []
    inserted = StreamImport.inserted

    def counted(link, sub):
        asked.append(str(link))
        inserted(link, sub)

    monkeypatch.setattr(StreamImport, "inserted", counted)
    links = [join(node, b"ev.%d.>" % number, b"ev.%d.>" % number) for number in range(10)]
    b = connect(b"b")
    b.say(b"SUB ev.3.x 1\r\n")
    assert asked == [str(links[3])]
    b.say(b"SUB ev.*.x 2\r\n")
    assert len(asked) == 1 + 10
    assert node.accounts["A"].sublist.count == 11
    before = b.session._ops_more
    b.say(b"UNSUB 2\r\n")
    assert node.accounts["A"].sublist.count == 1
    assert b.session._ops_more - before in (10, 10 - before), "it counts for each of them"
    links[3].close()
    b.say(b"SUB ev.3.y 3\r\n")
    assert len(asked) == 11 and node.accounts["A"].sublist.count == 0


@pytest.mark.parametrize("target", [b"ev.>", b"A.ev.>"])
def test_who_is_gone_gets_no_share_of_a_group_before_its_shadows_are_taken_out(
    node, connect, monkeypatch, target
):
    """Of very many subscriptions that end together only some are taken out in a turn; half of the
    messages were lost until then."""
    join(node, b"ev.>", target)
    a, b, stays = connect(b"a"), connect(b"b"), connect(b"a")
    b.say(b"SUB other z1\r\nSUB %b g 1\r\n" % target.replace(b">", b"1"))
    stays.say(b"SUB ev.1 g 1\r\n")
    monkeypatch.setattr(node.upkeep, "_given_up_left", 1)
    node.close_session(b.session, "Client Closed", b.now)
    assert node.next_deadline() == 0
    a.session.feed(b"PUB ev.1 0\r\n\r\n" * 50)
    node.fed.take_turn(node._hear, node._deliveries, a.now)
    assert stays.read().count(b"MSG ev.1 1 ") == 50
    for client, said in ((stays, b"UNSUB 1\r\n"), (a, b"SUB r 1\r\nPUB ev.1 r 0\r\n\r\n")):
        client.session.feed(said)
        node.fed.take_turn(node._hear, node._deliveries, a.now)
    assert b" 503" in a.read(), "nobody is left"


def test_an_import_that_is_no_more_leaves_at_once_however_many_follow_it(node, connect):
    def leave(link, left):
        left.append(link.leave())

    exporter, lines = node.accounts["A"], []
    a, b = connect(b"a"), connect(b"b")
    for count in (20, 200):
        link = join(node, b"ev.>", b"ev.>")
        b.say(b"".join(b"SUB ev.%d %d\r\n" % (n, n) for n in range(count)))
        left = []
        lines.append(lines_of(partial(leave, link, left)))
        a.say(b"PUB ev.7 0\r\n\r\n")
        assert b.read() == b"" and exporter.sublist.count == count
        ((account, shadows),) = left
        assert account is exporter
        for shadow in shadows:
            assert shadow.closed
            exporter.unsubscribe(shadow)
        assert exporter.sublist.count == 0
    assert lines[0] == lines[1]


def test_an_import_that_begins_again_has_open_shadows(node, connect):
    link = join(node, b"ev.>", b"ev.>")
    a, b = connect(b"a"), connect(b"b")
    b.say(b"SUB ev.1 1\r\n")
    exporter, shadows = link.leave()
    for shadow in shadows:
        exporter.unsubscribe(shadow)
    link.open()
    a.say(b"PUB ev.1 0\r\n\r\n")
    assert b.read() == b"MSG ev.1 1 0\r\n\r\n"
