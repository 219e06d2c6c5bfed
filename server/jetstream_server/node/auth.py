"""Who a client is: CONNECT credentials against the configured users.

Passwords that look like bcrypt hashes are checked as such, others are compared in constant time.
Who has an nkey instead signs the nonce of its connection's INFO.
"""

from __future__ import annotations

import hmac
import re
from base64 import b32decode, urlsafe_b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import bcrypt

from jetstream_server.node.permissions import Permissions

_BCRYPT = re.compile(r"^\$2[abxy]\$\d\d\$")

GLOBAL_ACCOUNT = "$G"


@dataclass(frozen=True, slots=True)
class User:
    """A configured user; known by a name, by an nkey, or by neither and a token.

    Attributes:
        connection_types: how it may connect, such as `STANDARD`; empty for any way.
    """

    account: str = GLOBAL_ACCOUNT
    name: str = ""
    password: str = ""
    token: str = ""
    nkey: str = ""
    connection_types: tuple[str, ...] = ()
    permissions: Permissions | None = None


class Authenticator:
    """Decides over CONNECT.

    Args:
        users: everybody who may connect; empty lets everybody in.
        no_auth_user: whom a client without any credential becomes, empty for nobody.
        make_nonce: gives what clients have to sign; nobody may be able to foretell it.
    """

    def __init__(
        self,
        users: Sequence[User],
        no_auth_user: str = "",
        make_nonce: Callable[[], str] = lambda: "",
    ) -> None:
        self._by_name = {user.name: user for user in users if user.name}
        self._by_key = {user.nkey: user for user in users if user.nkey}
        self._tokens = [user for user in users if user.token]
        self._no_auth_user = (self._by_name | self._by_key).get(no_auth_user)
        self._make_nonce = make_nonce
        self.is_required = bool(users)

    @property
    def admits_anonymous(self) -> bool:
        """Return whether a client may go without credentials."""
        return not self.is_required or self._no_auth_user is not None

    def nonce(self) -> str:
        """Return what the client of one connection has to sign; empty without nkeys."""
        return self._make_nonce() if self._by_key else ""

    def authenticate(
        self,
        options: dict[str, Any],
        nonce: str = "",
        connection_type: str = "STANDARD",
        certificate_names: Sequence[str] | None = None,
    ) -> User | None:
        """Return the user whom these CONNECT options prove, None for nobody.

        Args:
            certificate_names: what the client's certificate calls it, where that decides.
        """
        if not self.is_required:
            return User()
        if certificate_names is None:
            user = self._find(options, nonce)
        else:
            user = next(filter(None, map(self._by_name.get, certificate_names)), None)
        if user is None or (user.connection_types and connection_type not in user.connection_types):
            return None
        return user

    def successor(self, user: User) -> User | None:
        """Return who a user of an earlier configuration is now, None for nobody.

        Whoever had no name is nobody, unless users are not asked who they are.
        """
        if not self.is_required:
            return User()
        if user.token:
            return next((each for each in self._tokens if each.token == user.token), None)
        return self._by_key.get(user.nkey) if user.nkey else self._by_name.get(user.name)

    def _find(self, options: dict[str, Any], nonce: str) -> User | None:
        token = options.get("auth_token") or ""
        name = options.get("user") or ""
        password = options.get("pass") or ""
        if not (token or name or password or options.get("nkey") or options.get("jwt")):
            return self._no_auth_user
        if key := options.get("nkey"):
            user = self._by_key.get(key)
            signed = user is not None and _is_signed(key, nonce, options.get("sig") or "")
            return user if signed else None
        if token:
            return next((u for u in self._tokens if _is_equal(u.token, token)), None)
        user = self._by_name.get(name)
        if user is None or not _is_equal(user.password, password):
            return None
        return user


def _is_signed(key: str, nonce: str, signature: str) -> bool:
    """Tell whether a signature, base64 of either alphabet, was made with an nkey."""
    # Imported here: most servers have no nkeys, and start sooner without the library.
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if not nonce:
        return False
    # One byte for the kind, 32 for the key, two for a checksum, which the configuration checks.
    public = b32decode(key + "=" * (-len(key) % 8))[1:33]
    text = signature.rstrip("=").replace("+", "-").replace("/", "_")
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        Ed25519PublicKey.from_public_bytes(public).verify(raw, nonce.encode())
    except (InvalidSignature, ValueError):
        return False
    return True


def _is_equal(configured: str, given: str) -> bool:
    if _BCRYPT.match(configured):
        try:
            return bcrypt.checkpw(given.encode(), configured.encode())
        except ValueError:  # a damaged hash, or a password with a NUL
            return False
    return hmac.compare_digest(configured.encode(), given.encode())
