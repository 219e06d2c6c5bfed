"""Users, permissions and accounts; whole files are in `test_load.py`."""

from typing import Any

import pytest
from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.authorization import read_accounts, read_authorization
from jetstream_server.config.lexer import parse_text
from jetstream_server.config.options import AuthorizationOptions
from jetstream_server.config.permissions import Permissions, ResponsePermissions, SubjectPermissions

NKEY = "UAAACAQDAQCQMBYIBEFAWDANBYHRAEISCMKBKFQXDAMRUGY4DUPB63NN"


def authorization(text: str) -> tuple[AuthorizationOptions, list[str]]:
    errors: list[ConfigError] = []
    token = parse_text(f"authorization {{ {text} }}", "f", {}).value["authorization"]
    made, _ = read_authorization(token, errors)
    return made, [error.text for error in errors]


def permissions(text: str) -> Permissions | None:
    made, errors = authorization(f"users: [ {{ user: a, pass: b, permissions {{ {text} }} }} ]")
    assert errors == []
    return made.users[0].permissions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Permissions()),
        ('publish: "a.>"', Permissions(publish=SubjectPermissions(("a.>",)))),
        ('pub: [a, "b.*"]', Permissions(publish=SubjectPermissions(("a", "b.*")))),
        ("publish: [], subscribe: []", Permissions()),
        ("publish: { deny: x }", Permissions(publish=SubjectPermissions(None, ("x",)))),
        ('sub: "work q1"', Permissions(subscribe=SubjectPermissions(("work q1",)))),
        (
            "allow_responses: true",
            Permissions(SubjectPermissions(()), responses=ResponsePermissions()),
        ),
        ("allow_responses: false", Permissions()),
        (
            "publish: a, allow_responses: { max: -1, expires: 1s }",
            Permissions(SubjectPermissions(("a",)), responses=ResponsePermissions(-1, SECOND)),
        ),
        (
            "publish: { deny: x }, allow_responses: { max: 0 }",
            Permissions(SubjectPermissions((), ("x",)), responses=ResponsePermissions()),
        ),
    ],
)
def test_permissions(text: str, expected: Permissions) -> None:
    assert permissions(text) == expected


def test_a_single_user_a_token_and_a_timeout() -> None:
    made, errors = authorization("user: a, password: b, timeout: 0.5")
    assert errors == []
    assert (made.user, made.password, made.timeout_ns) == ("a", "b", SECOND // 2)
    assert authorization("token: t, timeout: 3s")[0].timeout_ns == 3 * SECOND


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("user: a, token: t", "Cannot have a user/pass and token"),
        ("token: t, users: [{user: a}]", "Can not have a token and a users array"),
        ("user: a, users: [{user: b}]", "Can not have a single user/pass and a users array"),
        ("users: [{user: a}, {user: a}]", 'Duplicate user "a" detected'),
        (f"users: [{{nkey: {NKEY}}}, {{nkey: {NKEY}}}]", f'Duplicate nkey "{NKEY}" detected'),
        (f"users: [{{nkey: {NKEY}, user: a}}]", "Nkey users do not take usernames or passwords"),
        (f"users: [{{nkey: {NKEY[:-1]}A}}]", "Not a valid public nkey for a user"),
        ("users: [{user: a, proxy_required: true}]", '"proxy_required" is not supported'),
    ],
)
def test_mistakes(text: str, error: str) -> None:
    _, errors = authorization(text)
    assert [found for found in errors if error in found]


def test_nkey_users_and_connection_types() -> None:
    made, errors = authorization(
        f"users: [{{nkey: {NKEY}, allowed_connection_types: [standard, WEBSOCKET]}}]"
    )
    assert errors == []
    assert made.users[0].nkey == NKEY
    assert made.users[0].connection_types == ("STANDARD", "WEBSOCKET")


def accounts(text: str, names: set[str] | None = None) -> tuple[Any, list[str]]:
    errors: list[ConfigError] = []
    token = parse_text(f"accounts {text}", "f", {}).value["accounts"]
    made = read_accounts(token, errors, names or set())
    return made, [error.text for error in errors]


def test_accounts_in_short() -> None:
    made, errors = accounts("[A, B]")
    assert errors == []
    assert [account.name for account in made] == ["A", "B"]
    assert made[0].jetstream is None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{ $G {} }", '"$G" is a Reserved Account'),
        ("{ A: 5 }", "Expected map entries for accounts"),
        ("{ A { users: [{user: u}] } }", 'Duplicate user "u" detected'),
        ("{ A { users: [{user: x}] }, B { users: [{user: x}] } }", 'Duplicate user "x" detected'),
        ("{ A { exports: [5 ] } }", "Export Items should be a map with type entry, got int64"),
        ("{ A { imports: 5 } }", "Imports should be an array, got int64"),
        ("{ A { zz: 5 } }", 'unknown field "zz"'),
    ],
)
def test_mistakes_in_accounts(text: str, error: str) -> None:
    _, errors = accounts(text, {"u"})
    assert errors == [error]
