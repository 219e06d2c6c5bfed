"""The configured users, as the authenticator wants them."""

from __future__ import annotations

from jetstream_server.config import permissions as configured
from jetstream_server.config.options import AccountOptions, ServerOptions, UserOptions
from jetstream_server.node.auth.auth import GLOBAL_ACCOUNT, User
from jetstream_server.node.auth.expected_replies import ResponseRules
from jetstream_server.node.auth.permissions import PermissionRules, SubjectRules


def users_of(options: ServerOptions) -> list[User]:
    """Return everybody who may connect; empty when the server is open."""
    authorization = options.authorization
    default = authorization.permissions
    users = [_user(each, GLOBAL_ACCOUNT, default) for each in authorization.users]
    if authorization.user or authorization.password:
        users.append(
            User(
                name=authorization.user,
                password=authorization.password,
                permissions=made_permissions(default),
            )
        )
    if authorization.token:
        users.append(User(token=authorization.token, permissions=made_permissions(default)))
    for account in options.accounts:
        users += [_user(each, account.name, account.default_permissions) for each in account.users]
    return users


def accounts_of(options: ServerOptions) -> dict[str, AccountOptions]:
    """Return the configured accounts by name."""
    return {account.name: account for account in options.accounts}


def _user(user: UserOptions, account: str, default: configured.Permissions | None) -> User:
    return User(
        account=account,
        name=user.user,
        password=user.password,
        nkey=user.nkey,
        connection_types=user.connection_types,
        permissions=made_permissions(user.permissions or default),
    )


def made_permissions(permissions: configured.Permissions | None) -> PermissionRules | None:
    """Return configured permissions in the form in which they are asked."""
    if permissions is None:
        return None
    publish, subscribe = permissions.publish, permissions.subscribe
    responses = permissions.responses
    return PermissionRules(
        SubjectRules(publish.allow, publish.deny),
        SubjectRules(subscribe.allow, subscribe.deny),
        None if responses is None else ResponseRules(responses.max_messages, responses.expires_ns),
    )
