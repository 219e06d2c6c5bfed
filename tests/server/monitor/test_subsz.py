"""The subscriptions."""

from __future__ import annotations

import pytest
from jetstream_server.core.steps import without_pauses
from jetstream_server.core.subscription import Subscription
from jetstream_server.monitor.query import BadQueryError, Query
from jetstream_server.monitor.routes import answer_in_steps
from jetstream_server.monitor.subsz import (
    LOOKED_AT_ONCE,
    SubszOptions,
    sublist_stats,
    subsz_in_steps,
)


def subsz(node, now, options=None):
    return without_pauses(subsz_in_steps(node, now, options or SubszOptions()))


def test_only_a_number_unless_asked(node, now):
    view = subsz(node, now)
    assert view["num_subscriptions"] > 0
    assert (view["total"], view["limit"]) == (0, 1024)
    assert "subscriptions_list" not in view


def test_how_the_lists_have_changed(node, now, connect):
    before = subsz(node, now)
    client = connect("a")
    client.say(b"SUB t.x 5\r\nSUB t.x q 6\r\nSUB t.x q 7\r\nPUB t.x 0\r\n\r\nUNSUB 7\r\n")
    stats = sublist_stats([node.accounts["A"].sublist])
    after = subsz(node, now)
    assert after["num_inserts"] - before["num_inserts"] == 4  # with that of the test's inbox
    assert after["num_removes"] - before["num_removes"] == 1
    assert after["num_subscriptions"] == after["num_inserts"] - after["num_removes"]
    assert stats["num_subscriptions"] == node.accounts["A"].sublist.count
    node.accounts["A"].sublist.match(b"t.x")
    stats = sublist_stats([node.accounts["A"].sublist])
    assert (stats["num_cache"], stats["max_fanout"]) == (1, 2)


def test_a_page_of_those_that_match(node, now, connect):
    client = connect("a")
    client.say(b"SUB t.* 4\r\nSUB t.x 5\r\nSUB u 6\r\n")
    options = SubszOptions.of(Query({"subs": "1", "acc": "A", "test": "t.x", "limit": "1"}))
    view = subsz(node, now, options)
    assert view["total"] == 2
    (found,) = view["subscriptions_list"]
    assert (found["account"], found["cid"]) == ("A", client.session.cid)
    assert found["subject"] in ("t.*", "t.x")


def test_the_servers_own_are_among_them(node, now):
    options = SubszOptions.of(Query({"subscriptions": True, "account": "$SYS"}))
    view = subsz(node, now, options)
    subjects = {each["subject"] for each in view["subscriptions_list"]}
    assert "$SYS.REQ.SERVER.PING" in subjects
    assert all(each["cid"] == 0 for each in view["subscriptions_list"])


def test_a_test_subject_with_wildcards_is_refused():
    with pytest.raises(BadQueryError, match="must be valid publish subject"):
        SubszOptions.of(Query({"test": "a.*"}))


def test_an_account_is_counted_alone(node, now, connect):
    connect("a")
    counts = {
        name: subsz(node, now, SubszOptions(account=name))["num_subscriptions"]
        for name in ("", "A", "$SYS", "ZZ")
    }
    assert counts["A"] == node.accounts["A"].sublist.count and counts["ZZ"] == 0
    assert counts[""] > counts["A"] + counts["$SYS"]


def test_very_many_are_looked_at_in_steps_while_some_come_and_go(node, now):
    def made(subject, number):
        return Subscription(subject, None, sid=b"%d" % number)

    account = node.add_account("MANY")
    ours = [made(b"t.%d" % n, n) for n in range(5000)]
    together = [made(b"t", n) for n in range(5000, 10_000)]
    for each in ours + together:
        account.sublist.insert(each)
    asked = {"subs": "1", "acc": "MANY", "limit": "100000"}
    steps, passed = answer_in_steps("/subsz", node, now, asked), 0
    for _ in steps:
        account.sublist.remove(together[passed])
        account.sublist.insert(made(b"t", 20_000 + passed))
        passed += 1
    assert passed == 10_000 // LOOKED_AT_ONCE
    view = without_pauses(answer_in_steps("/subsz", node, now, asked)).view
    listed = {each["sid"] for each in view["subscriptions_list"]}
    assert view["total"] == len(listed) == 10_000
