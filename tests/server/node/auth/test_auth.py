"""Who a client is."""

from __future__ import annotations

import base64

import bcrypt
import nkeys
import pytest
from jetstream_server.node.auth.auth import Authenticator, SignInFacts, User


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


def test_a_hash_is_of_72_bytes():
    hashed = bcrypt.hashpw(b"x" * 72, bcrypt.gensalt(4)).decode()
    authenticator = Authenticator([User(name="a", password=hashed)])
    for password, is_right in (("x" * 72, True), ("x" * 200, True), ("x" * 71, False)):
        found = authenticator.authenticate({"user": "a", "pass": password})
        assert (found is not None) is is_right


def test_credentials_of_kinds_that_nobody_has_say_nothing():
    named, other = {"user": "a", "pass": "pw"}, {"auth_token": "x", "nkey": "U", "jwt": "x.y.z"}
    by_name = Authenticator([User(name="a", password="pw")])
    assert by_name.authenticate(named | other) is not None
    assert by_name.authenticate(other) is None
    by_token = Authenticator([User(token="t")])
    assert by_token.authenticate(named | other | {"auth_token": "t"}) is not None
    assert by_token.authenticate(named | other) is None
    guest = Authenticator([User(name="guest", password="x")], "guest")
    assert guest.authenticate({"nkey": "U", "jwt": "x.y.z"}) is not None


def test_no_auth_user_stands_in_only_when_nothing_was_given():
    authenticator = Authenticator([User(name="guest", password="x")], "guest")
    assert authenticator.admits_anonymous and authenticator.is_required
    user = authenticator.authenticate({})
    assert user is not None and user.name == "guest"
    assert authenticator.authenticate({"pass": "x"}) is None
    assert authenticator.authenticate({"auth_token": "x"}) is None


@pytest.fixture(scope="module")
def pair():
    return nkeys.from_seed(nkeys.encode_seed(b"s" * 32, nkeys.PREFIX_BYTE_USER))


def sign(pair, nonce: str) -> str:
    return base64.urlsafe_b64encode(pair.sign(nonce.encode())).decode().rstrip("=")


def test_a_signed_nonce_proves_an_nkey(pair):
    key = pair.public_key.decode()
    authenticator = Authenticator([User(nkey=key, account="A")], make_nonce=lambda: "n-1")
    nonce = authenticator.nonce()
    assert nonce == "n-1"
    signed = sign(pair, nonce)
    standard = base64.b64encode(pair.sign(nonce.encode())).decode()
    for signature in (signed, standard):
        user = authenticator.authenticate({"nkey": key, "sig": signature}, SignInFacts(nonce))
        assert user is not None and user.account == "A"
    for options in (
        {},
        {"nkey": key},
        {"nkey": key, "sig": sign(pair, "other")},
        {"nkey": key, "sig": "%%%"},
        {"nkey": key, "sig": "é"},
        {"nkey": key, "sig": signed[:20]},
        {"nkey": "U" + "A" * 55, "sig": signed},
        {"nkey": "nonsense", "sig": signed},
    ):
        assert authenticator.authenticate(options, SignInFacts(nonce)) is None
    assert authenticator.authenticate({"nkey": key, "sig": sign(pair, "")}, SignInFacts()) is None


def test_only_nkeys_need_a_nonce():
    assert Authenticator([User(name="a", password="b")], make_nonce=lambda: "n").nonce() == ""


def test_connection_types():
    authenticator = Authenticator(
        [
            User(name="a", password="x", connection_types=("WEBSOCKET",)),
            User(name="b", password="x", connection_types=("STANDARD", "WEBSOCKET")),
        ]
    )

    def admits(name: str, kind: str) -> bool:
        facts = SignInFacts(connection_type=kind)
        return authenticator.authenticate({"user": name, "pass": "x"}, facts) is not None

    assert not admits("a", "STANDARD") and admits("a", "WEBSOCKET")
    assert admits("b", "STANDARD") and admits("b", "WEBSOCKET")
