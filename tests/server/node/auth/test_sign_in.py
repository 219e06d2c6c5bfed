"""From the fields of a CONNECT to a user, or to why there is none."""

from __future__ import annotations

from typing import Any

import pytest
from jetstream_server.node.auth.auth import Authenticator, User
from jetstream_server.node.auth.password_check import AtOnce
from jetstream_server.node.auth.sign_in import SignIn
from jetstream_server.node.listener import Listener
from jetstream_server.protocol import errors as faults


@pytest.fixture
def sign_in() -> SignIn:
    return SignIn("10.0.0.1", Listener(), "", lambda: None)


def decided(sign_in: SignIn, *users: User) -> Any:
    return sign_in.decide(Authenticator(users), AtOnce(), 0)


def test_fields_add_up_over_several_and_nulls_are_none(sign_in: SignIn) -> None:
    assert sign_in.hear({"name": "a", "verbose": False}, has_headers=True) is None
    assert sign_in.hear({"name": None, "lang": "x", "other": 1}, has_headers=True) is None
    assert sign_in.options == {"verbose": False, "lang": "x"}
    assert not sign_in.wishes.verbose and sign_in.wishes.pedantic


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"verbose": 1}, faults.MALFORMED),
        ({"protocol": True}, faults.MALFORMED),
        ({"protocol": 2}, faults.INVALID_CLIENT_PROTOCOL),
        ({"protocol": -1}, faults.INVALID_CLIENT_PROTOCOL),
        ({"protocol": 1}, None),
    ],
)
def test_what_is_wrong_with_fields(sign_in: SignIn, given: dict[str, Any], fault: Any) -> None:
    assert sign_in.hear(given, has_headers=True) is fault


def test_what_lies_below_connect_stands_in_for_what_it_lacks(sign_in: SignIn) -> None:
    sign_in.credentials = {"user": "cookie", "pass": "p"}
    assert sign_in.hear({"user": "own", "pass": ""}, has_headers=True) is None
    assert sign_in.options == {"user": "own", "pass": "p"}


def test_who_may_connect(sign_in: SignIn) -> None:
    user = User(name="u", password="p")
    sign_in.hear({"user": "u", "pass": "wrong"}, has_headers=True)
    assert decided(sign_in, user) is faults.AUTHORIZATION_VIOLATION
    sign_in.hear({"pass": "p"}, has_headers=True)
    assert decided(sign_in, user) is user
    sign_in.hear({"account": "A"}, has_headers=True)
    assert decided(sign_in, user) is faults.AUTHORIZATION_VIOLATION


@pytest.mark.parametrize("has_headers", [True, False])
def test_who_wants_to_hear_of_nobody_needs_headers(sign_in: SignIn, has_headers: bool) -> None:
    sign_in.hear({"headers": True, "no_responders": True}, has_headers=has_headers)
    assert (decided(sign_in) is faults.NO_RESPONDERS_NEEDS_HEADERS) != has_headers
