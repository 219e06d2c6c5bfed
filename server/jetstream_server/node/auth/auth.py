"""Who a client is: CONNECT credentials against the configured users.

Passwords that look like bcrypt hashes are checked as such, others are compared in constant time. A
user with an nkey signs the nonce in the INFO of its connection instead. Users with JWTs are
admitted by `operator.py`.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from jetstream_server.base.nkey import is_signed
from jetstream_server.node.auth.password_check import PasswordQuestion, is_hashed
from jetstream_server.node.auth.permissions import PermissionRules
from jetstream_server.protocol.errors import Fault

if TYPE_CHECKING:
    from jetstream_server.config.claims.user_claims import UserClaims

GLOBAL_ACCOUNT = "$G"


@dataclass(frozen=True, slots=True)
class User:
    """A user, configured or with a JWT; known by a name, by an nkey, or by a token alone.

    Attributes:
        connection_types: how it may connect, such as `STANDARD`; empty for any way.
        subscriptions_max, payload_bytes_max: -1 for no limits of its own.
        expires_at, account_expires_at: when it, or its account, expires, in nanoseconds;
            0 for never.
        jwt, claims: how it has proved who it is; empty and None for a configured one.
    """

    account: str = GLOBAL_ACCOUNT
    name: str = ""
    password: str = ""
    token: str = ""
    nkey: str = ""
    connection_types: tuple[str, ...] = ()
    permissions: PermissionRules | None = None
    subscriptions_max: int = -1
    payload_bytes_max: int = -1
    expires_at: int = 0
    account_expires_at: int = 0
    jwt: str = field(default="", repr=False)
    claims: UserClaims | None = None


@dataclass(frozen=True, slots=True)
class SignInFacts:
    """What is known of a client beside its CONNECT options.

    Attributes:
        nonce: what had to be signed.
        connection_type: how the connection was made.
        certificate_names: what its certificate calls the client, where that decides.
        host: where the client is.
        now: when, in nanoseconds.
        is_password_right: the answer to the authenticator's question, None when nobody was asked.
    """

    nonce: str = ""
    connection_type: str = "STANDARD"
    certificate_names: Sequence[str] | None = None
    host: str = ""
    now: int = 0
    is_password_right: bool | None = None


_ANY = SignInFacts()


class Gatekeeper(Protocol):
    """Decides over CONNECT."""

    @property
    def is_required(self) -> bool:
        """Return whether anybody is asked who they are."""
        ...

    @property
    def admits_anonymous(self) -> bool:
        """Return whether a client may go without credentials."""
        ...

    def nonce(self) -> str:
        """Return what the client of one connection has to sign; empty for nothing."""
        ...

    def anonymous(self) -> User | None:
        """Return whom a client counts as before it has sent CONNECT."""
        ...

    def question(
        self, options: dict[str, Any], facts: SignInFacts = ...
    ) -> PasswordQuestion | None:
        """Return what has to be found out first, so that `authenticate` need not wait; usually
        nothing."""
        ...

    def authenticate(self, options: dict[str, Any], facts: SignInFacts = ...) -> User | None:
        """Return the user whom these CONNECT options prove, None for nobody."""
        ...

    def successor(self, user: User, now: int) -> User | Fault | None:
        """Return who a user is under these rules: another user, one to be refused, or nobody."""
        ...


class Authenticator:
    """Decides over CONNECT.

    Args:
        users: everybody who may connect; empty lets everybody in.
        no_auth_user: whom a client without any credential becomes, empty for nobody.
        make_nonce: gives what clients have to sign; nobody may be able to predict it.
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
        self._is_required = bool(users)

    @property
    def is_required(self) -> bool:
        """Return whether anybody is asked who they are."""
        return self._is_required

    @property
    def admits_anonymous(self) -> bool:
        """Return whether a client may go without credentials."""
        return not self.is_required or self._no_auth_user is not None

    def nonce(self) -> str:
        """Return what the client of one connection has to sign; empty without nkeys."""
        return self._make_nonce() if self._by_key else ""

    def anonymous(self) -> User | None:
        """Return whom a client counts as before it has sent CONNECT."""
        return self.authenticate({})

    def question(
        self, options: dict[str, Any], facts: SignInFacts = _ANY
    ) -> PasswordQuestion | None:
        """Return which password has to be compared with which hash, None for none."""
        if facts.certificate_names is not None or (self._by_key and options.get("nkey")):
            return None
        given = options.get("auth_token") or ""
        if given and self._tokens:
            hashed = next((u.token for u in self._tokens if is_hashed(u.token)), "")
        else:
            given = options.get("pass") or ""
            user = self._by_name.get(options.get("user") or "")
            hashed = user.password if user is not None and is_hashed(user.password) else ""
        return PasswordQuestion(given, hashed) if hashed else None

    def authenticate(self, options: dict[str, Any], facts: SignInFacts = _ANY) -> User | None:
        """Return the user whom these CONNECT options prove, None for nobody."""
        if not self.is_required:
            return User()
        if facts.certificate_names is None:
            user = self._find(options, facts)
        else:
            user = next(filter(None, map(self._by_name.get, facts.certificate_names)), None)
        if user is None or (
            user.connection_types and facts.connection_type not in user.connection_types
        ):
            return None
        return user

    def successor(self, user: User, now: int = 0) -> User | None:
        """Return who a user of an earlier configuration is now, None for nobody.

        A user without a name is nobody, unless users are not asked who they are.
        """
        if not self.is_required:
            return User()
        if user.token:
            return next((each for each in self._tokens if each.token == user.token), None)
        return self._by_key.get(user.nkey) if user.nkey else self._by_name.get(user.name)

    def _find(self, options: dict[str, Any], facts: SignInFacts) -> User | None:
        nonce, is_right = facts.nonce, facts.is_password_right
        token = options.get("auth_token") or ""
        name = options.get("user") or ""
        password = options.get("pass") or ""
        # A kind of credential that no user is configured with is ignored: clients send all they
        # have.
        if self._by_key and (key := options.get("nkey")):
            user = self._by_key.get(key)
            signature = options.get("sig") or ""
            is_his = user is not None and nonce and is_signed(key, signature, nonce.encode())
            return user if is_his else None
        if not (token or name or password):
            return self._no_auth_user
        if token and self._tokens:
            return next((u for u in self._tokens if _is_equal(u.token, token, is_right)), None)
        user = self._by_name.get(name)
        if user is None or not _is_equal(user.password, password, is_right):
            return None
        return user


def _is_equal(configured: str, given: str, is_right: bool | None) -> bool:
    """Compare, unless it has been done."""
    if is_hashed(configured):
        return PasswordQuestion(given, configured).answer() if is_right is None else is_right
    return hmac.compare_digest(configured.encode(), given.encode())
