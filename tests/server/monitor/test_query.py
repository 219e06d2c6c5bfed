"""Parameters, over HTTP and as JSON."""

from __future__ import annotations

import pytest
from jetstream_server.monitor.query import BadQueryError, Query


def test_values_by_any_of_their_names():
    query = Query({"acc": "A", "limit": "7", "subs": "true"})
    assert query.text("account", "acc") == "A"
    assert query.number("limit") == 7
    assert query.flag("subscriptions", "subs")
    assert (query.text("x"), query.number("x"), query.flag("x")) == ("", 0, False)


def test_json_values():
    query = Query({"a": 5, "b": True, "c": None, "d": -1})
    assert (query.number("a"), query.flag("b"), query.text("c"), query.number("d")) == (
        5,
        True,
        "",
        -1,
    )


@pytest.mark.parametrize("value", ["x", "1.5", "1_0", " 1", "٣", "9" * 30, 1.5, True, [], {}])
def test_numbers_that_are_none(value):
    with pytest.raises(BadQueryError, match=r"Error decoding int for 'limit': strconv\.Atoi"):
        Query({"limit": value}).number("limit")


@pytest.mark.parametrize("value", ["x", "2", "yes", 1.5, [], {}])
def test_booleans_that_are_none(value):
    with pytest.raises(BadQueryError, match="Error decoding boolean for 'auth'"):
        Query({"auth": value}).flag("auth")


def test_a_text_that_is_none():
    with pytest.raises(BadQueryError, match="'acc': expected a string"):
        Query({"acc": 5}).text("acc")
