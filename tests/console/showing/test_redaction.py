"""What may be a secret is not shown, wherever it stands."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jetstream_console.showing.redaction import HIDDEN, with_secrets, without_secrets

SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
JWT = "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJqdGkiOiJYIn0.c2ln-_A"


@pytest.mark.parametrize(
    "name",
    ["password", "pass", "auth_token", "userPassword", "jwt", "nkey-seed", "Secret", "creds",
     "private_key", "trusted_operators_jwt"],
)  # fmt: skip
def test_a_field_that_is_named_like_a_secret_is_hidden(name):
    for value in ("hidden", ["hidden"], {"a": "hidden"}):
        assert without_secrets([{"a": {name: value}}]) == [{"a": {name: HIDDEN}}]


def test_a_secret_in_a_text_is_hidden():
    texts = {
        "url": "nats://me:hidden@host:4222/x",
        "urls": [f"seed {SEED}.", f"{JWT}"],
        SEED: "a field",
    }
    shown = json.dumps(without_secrets(texts))
    for secret in ("hidden", SEED, JWT.rpartition(".")[2]):
        assert secret not in shown.replace(HIDDEN, "")
    assert "nats://(not shown)@host:4222/x" in shown


def test_what_is_left_as_it_was_shown_is_what_it_was():
    known: Any = {
        "a": {"password": "hidden", "n": 1},
        "url": "nats://me:hidden@host",
        SEED: 2,
        "sources": [{"name": "s", "token": ["hidden"]}, {"name": "t", "token": "also"}],
    }
    shown = without_secrets(known)
    assert with_secrets(shown, known) == known
    changed: Any = json.loads(json.dumps(shown))
    changed["a"]["n"] = 2
    changed["sources"][1]["name"] = "u"
    found = with_secrets(changed, known)
    assert found["a"] == {"password": "hidden", "n": 2} and found[SEED] == 2
    assert found["sources"] == [known["sources"][0], {"name": "u", "token": "also"}]
    # One that was taken out, and one that is new.
    assert with_secrets(shown["sources"][1:], known["sources"]) == known["sources"][1:]
    new = {"name": "new", "token": HIDDEN}
    assert with_secrets([*shown["sources"], new], known["sources"])[2] == new
    assert with_secrets({"password": "new"}, known["a"]) == {"password": "new"}


def test_elements_that_look_the_same_keep_their_own_secrets():
    known = [{"name": "a", "token": "1"}, {"name": "a", "token": "2"}, {"name": "a", "token": "3"}]
    shown = without_secrets(known)
    assert with_secrets([*shown, {"name": "b"}], known) == [*known, {"name": "b"}]
    assert with_secrets([*shown, *shown[:1]], known) == [*known, known[-1]]


def test_what_is_nested_too_deeply_is_not_shown():
    value = {}
    for _ in range(5_000):
        value = {"a": value}
    assert "too deeply" in without_secrets(value)
    assert "too deeply" in json.dumps(without_secrets([1, value]))


def test_what_is_no_secret_stays():
    answer = {
        "auth_required": True,
        "tls_verify": False,
        "max_payload": 8,
        "token": "",
        "password": None,
        "auth_token": True,
        "bypass": "x",
        "compass": "north",
        "http": "https://host/a@b",
        "server_id": "NAXWMJQVQZQ7",
    }
    assert without_secrets(answer) == answer


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
        ),
        max_leaves=10,
    )
)
def test_whatever_a_server_says_keeps_its_form(value):
    assert type(without_secrets(value)) is type(value)
