"""Unknown fields are refused, or passed over and told to the operator."""

from __future__ import annotations

import pytest

BODY = {"name": "S", "nope": 1}


def test_an_unknown_field_is_refused(exchange) -> None:
    text = 'invalid JSON: json: unknown field "nope"'
    assert exchange.refusal("STREAM.CREATE.S", BODY) == (10025, text)


def test_it_is_passed_over_where_the_configuration_says_so(exchange) -> None:
    logged = []
    exchange.context.log = lambda *note: logged.append(note)
    exchange.context.is_strict = False
    assert "error" not in exchange.ask("STREAM.CREATE.S", BODY)
    subject = "$JS.API.STREAM.CREATE.S"
    text = f"Invalid JetStream request '$G > {subject}': json: unknown field \"nope\""
    assert logged == [("WRN", text)]


@pytest.mark.parametrize("body", [b'{"max_msgs":"1"}', b'{"name"'])
def test_other_mistakes_are_refused_all_the_same(exchange, body: bytes) -> None:
    exchange.context.is_strict = False
    assert exchange.refusal("STREAM.CREATE.S", body)[0] == 10025


def test_nothing_may_follow_where_unknown_fields_are_passed_over(exchange) -> None:
    exchange.context.is_strict = False
    text = "invalid JSON: invalid character '{' after top-level value"
    assert exchange.refusal("STREAM.CREATE.S", b'{"name":"S"} {"nope":1}') == (10025, text)


@pytest.mark.parametrize("is_strict", [True, False])
def test_a_word_in_place_of_an_object_counts_as_nothing(exchange, is_strict: bool) -> None:
    exchange.ask("STREAM.CREATE.S", {"name": "S"})
    exchange.context.is_strict = is_strict
    assert exchange.ask("STREAM.PURGE.S", b"text")["success"]
