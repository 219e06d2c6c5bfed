"""Who a client is: CONNECT credentials against the configured users.

Passwords that look like bcrypt hashes are checked as such, others are compared in constant time.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import bcrypt

from jetstream_server.node.permissions import Permissions

_BCRYPT = re.compile(r"^\$2[abxy]\$\d\d\$")

GLOBAL_ACCOUNT = "$G"


@dataclass(frozen=True, slots=True)
class User:
    """A configured user; `name` empty and `token` set for token authorization."""

    account: str = GLOBAL_ACCOUNT
    name: str = ""
    password: str = ""
    token: str = ""
    permissions: Permissions | None = None


class Authenticator:
    """Decides over CONNECT.

    Args:
        users: everybody who may connect; empty lets everybody in.
        no_auth_user: whom a client without any credential becomes, empty for nobody.
    """

    def __init__(self, users: Sequence[User], no_auth_user: str = "") -> None:
        self._by_name = {user.name: user for user in users if user.name}
        self._tokens = [user for user in users if user.token]
        self._no_auth_user = self._by_name.get(no_auth_user) if no_auth_user else None
        self.is_required = bool(users)

    @property
    def admits_anonymous(self) -> bool:
        """Return whether a client may go without credentials."""
        return not self.is_required or self._no_auth_user is not None

    def authenticate(self, options: dict[str, Any]) -> User | None:
        """Return the user whom these CONNECT options prove, None for nobody."""
        if not self.is_required:
            return User()
        token = options.get("auth_token") or ""
        name = options.get("user") or ""
        password = options.get("pass") or ""
        if not (token or name or password or options.get("nkey") or options.get("jwt")):
            return self._no_auth_user
        if token:
            return next((u for u in self._tokens if _is_equal(u.token, token)), None)
        user = self._by_name.get(name)
        if user is None or not _is_equal(user.password, password):
            return None
        return user


def _is_equal(configured: str, given: str) -> bool:
    if _BCRYPT.match(configured):
        try:
            return bcrypt.checkpw(given.encode(), configured.encode())
        except ValueError:  # a damaged hash, or a password with a NUL
            return False
    return hmac.compare_digest(configured.encode(), given.encode())
