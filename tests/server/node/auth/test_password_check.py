"""Passwords with hashes: what is asked, and what a session does until it knows."""

from __future__ import annotations

import bcrypt
from jetstream_server.node.auth.auth import Authenticator, SignInFacts, User
from jetstream_server.node.auth.password_check import AtOnce, PasswordQuestion, is_hashed

HASHED = bcrypt.hashpw(b"pw", bcrypt.gensalt(4)).decode()
OTHER = bcrypt.hashpw(b"other", bcrypt.gensalt(4)).decode()


def test_a_question_is_answered_by_comparing():
    assert is_hashed(HASHED) and not is_hashed("pw")
    assert PasswordQuestion("pw", HASHED).answer()
    assert not PasswordQuestion("p\0w", HASHED).answer()
    assert not PasswordQuestion("pw", "$2b$04$damaged").answer()
    assert "pw" not in repr(PasswordQuestion("pw", HASHED))
    heard: list[bool] = []
    AtOnce().ask(PasswordQuestion("pw", HASHED), "h", heard.append)
    assert heard == [True]


def test_only_hashes_are_asked_about():
    users = [User(name="h", password=HASHED), User(name="p", password="x"), User(token=OTHER)]
    users.append(User(nkey="K"))
    authenticator = Authenticator(users)
    assert authenticator.question({"user": "h", "pass": "pw"}) == PasswordQuestion("pw", HASHED)
    assert authenticator.question({"auth_token": "t"}) == PasswordQuestion("t", OTHER)
    for options in ({}, {"user": "p", "pass": "x"}, {"user": "nobody"}, {"user": "h", "nkey": "U"}):
        assert authenticator.question(options) is None
    assert authenticator.question({"user": "h"}, SignInFacts(certificate_names=["h"])) is None
    right, wrong = SignInFacts(is_password_right=True), SignInFacts(is_password_right=False)
    assert authenticator.authenticate({"user": "h", "pass": "?"}, right) is users[0]
    assert authenticator.authenticate({"user": "h", "pass": "pw"}, wrong) is None
    # A hash that somebody has found out opens no door that has none.
    assert authenticator.authenticate({"user": "p", "pass": "?"}, right) is None
