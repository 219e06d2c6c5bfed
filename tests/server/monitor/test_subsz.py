"""The subscriptions."""

from __future__ import annotations

import pytest
from jetstream_server.monitor.query import BadQueryError, Query
from jetstream_server.monitor.subsz import SubszOptions, subsz


def test_only_a_number_unless_asked(node, now):
    view = subsz(node, now)
    assert view["num_subscriptions"] > 0
    assert (view["total"], view["limit"]) == (0, 1024)
    assert "subscriptions_list" not in view


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
