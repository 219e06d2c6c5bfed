"""Who a client is."""

from __future__ import annotations

import bcrypt
from jetstream_server.node.auth import Authenticator, User


def test_without_users_everybody_is_welcome():
    authenticator = Authenticator([])
    assert not authenticator.is_required and authenticator.admits_anonymous
    assert authenticator.authenticate({}) == User()


def test_passwords_tokens_and_hashes():
    hashed = bcrypt.hashpw(b"pw", bcrypt.gensalt(4)).decode()
    authenticator = Authenticator(
        [User(name="a", password="pw"), User(name="b", password=hashed), User(token="t")]
    )
    for options in (
        {"user": "a", "pass": "pw"},
        {"user": "b", "pass": "pw"},
        {"auth_token": "t"},
    ):
        assert authenticator.authenticate(options) is not None
    for options in (
        {},
        {"user": "a"},
        {"user": "a", "pass": "no"},
        {"user": "b", "pass": hashed},
        {"user": "c", "pass": "pw"},
        {"auth_token": "x"},
        {"user": "b", "pass": "p\0w"},
    ):
        assert authenticator.authenticate(options) is None


def test_no_auth_user_stands_in_only_when_nothing_was_given():
    authenticator = Authenticator([User(name="guest", password="x")], "guest")
    assert authenticator.admits_anonymous and authenticator.is_required
    user = authenticator.authenticate({})
    assert user is not None and user.name == "guest"
    assert authenticator.authenticate({"pass": "x"}) is None
    assert authenticator.authenticate({"auth_token": "x"}) is None
