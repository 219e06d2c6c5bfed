"""Users from the options of the server."""

from __future__ import annotations

from jetstream_server.config.options import (
    AccountOptions,
    AuthorizationOptions,
    ServerOptions,
    UserOptions,
)
from jetstream_server.config.permissions import Permissions, ResponsePermissions, SubjectPermissions
from jetstream_server.node.auth.expected_replies import ResponseRules
from jetstream_server.node.auth.users import accounts_of, users_of


def test_an_open_server_has_no_users():
    assert users_of(ServerOptions()) == []


def test_every_place_that_declares_users_counts():
    only_a = Permissions(publish=SubjectPermissions(allow=("a",)))
    options = ServerOptions(
        authorization=AuthorizationOptions(token="t", users=(UserOptions("u", "p"),)),
        accounts=(AccountOptions("A", users=(UserOptions("x", "y"),), default_permissions=only_a),),
    )
    users = {(user.account, user.name, user.token): user for user in users_of(options)}
    assert set(users) == {("$G", "u", ""), ("$G", "", "t"), ("A", "x", "")}
    permissions = users["A", "x", ""].permissions
    assert permissions is not None
    assert permissions.publish.permits(b"a") and not permissions.publish.permits(b"b")
    assert list(accounts_of(options)) == ["A"]


def test_a_single_user_takes_the_default_permissions():
    options = ServerOptions(
        authorization=AuthorizationOptions(
            "u", "p", permissions=Permissions(subscribe=SubjectPermissions(deny=("no",)))
        )
    )
    (user,) = users_of(options)
    assert user.permissions is not None and not user.permissions.subscribe.permits(b"no")


def test_nkeys_connection_types_and_answers():
    answers = Permissions(responses=ResponsePermissions(3, 4))
    key = UserOptions(nkey="U1", connection_types=("STANDARD",), permissions=answers)
    (user,) = users_of(ServerOptions(authorization=AuthorizationOptions(users=(key,))))
    assert (user.nkey, user.connection_types) == ("U1", ("STANDARD",))
    assert user.permissions is not None
    assert user.permissions.responses == ResponseRules(3, 4)
