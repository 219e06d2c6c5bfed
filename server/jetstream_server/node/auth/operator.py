"""Users who come with JWTs: an operator signs accounts, and accounts sign users.

A client proves who it is with the JWT of a user and, unless that is a bearer token, with a
signature of its connection's nonce. The checks and their order are the genuine server's
(docs/reference/accounts.md#jwts).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jetstream_server.base import nkey
from jetstream_server.base.clock import SECOND
from jetstream_server.config.claims.account_claims import AccountClaims
from jetstream_server.config.claims.token import ClaimsError
from jetstream_server.config.claims.user_claims import PermissionClaims, UserClaims, UserGrants
from jetstream_server.config.options import AccountOptions, OperatorOptions
from jetstream_server.node.auth.auth import SignInFacts, User
from jetstream_server.node.auth.permission_template import TemplateError, granted
from jetstream_server.node.auth.users import made_permissions
from jetstream_server.protocol import errors as faults
from jetstream_server.protocol.errors import Fault

_ANY = SignInFacts()
_LAST_MOMENT = 2**63 - 1


class RefusedUserError(Exception):
    """Somebody may not connect; the text, which is for the log, says why."""


class OperatorGatekeeper:
    """Decides over CONNECT where an operator is trusted. A `Gatekeeper`.

    Args:
        operator: as configured.
        accounts: as their JWTs claim them, by key.
        make_nonce: gives what clients have to sign; nobody may be able to predict it.
        note: takes why somebody was refused: level and text.
    """

    is_required = True
    admits_anonymous = False

    def __init__(
        self,
        operator: OperatorOptions,
        accounts: Mapping[str, AccountOptions],
        make_nonce: Callable[[], str],
        note: Callable[[str, str], None] = lambda level, text: None,
    ) -> None:
        self._operator = operator
        self._accounts = accounts
        self._make_nonce = make_nonce
        self._note = note

    def nonce(self) -> str:
        """Return what the client of one connection has to sign."""
        return self._make_nonce()

    def anonymous(self) -> User | None:
        """Return None: even a client without a JWT has to send CONNECT."""
        return None

    def question(self, options: dict[str, Any], facts: SignInFacts = _ANY) -> None:
        """Return None: nobody has a password that would have to be compared."""

    def authenticate(self, options: dict[str, Any], facts: SignInFacts = _ANY) -> User | None:
        """Return the user whom these CONNECT options prove, None for nobody."""
        token = options.get("jwt") or ""
        if self._operator.default_sentinel and not _is_user(token):
            token = ""
        try:
            claims = self._claims(token)
            user, grants = self._recognized(claims, token, facts.now)
            if user.connection_types and facts.connection_type not in user.connection_types:
                raise RefusedUserError("Connection type not allowed")
            signature = options.get("sig") or ""
            nonce = facts.nonce.encode()
            if not grants.bearer_token and not (
                nonce and nkey.is_signed(claims.subject, signature, nonce)
            ):
                raise RefusedUserError("Signature not verified")
            if not grants.is_from(facts.host):
                raise RefusedUserError(f"Bad src Ip {facts.host}")
        except RefusedUserError as refusal:
            self._note("DBG", f"{facts.host} - {refusal}")
            return None
        return user

    def successor(self, user: User, now: int) -> User | Fault | None:
        """Return who a user is under these rules, or what it is to be told."""
        claims = user.claims
        account = self._accounts.get(user.account)
        if claims is None or account is None or account.claims is None:
            return faults.ACCOUNT_EXPIRED
        if account.claims.has_revoked(claims):
            return faults.USER_REVOKED
        if not account.claims.has_signed(claims):
            return faults.SIGNING_KEY_GONE
        try:
            return self._recognized(claims, user.jwt, now)[0]
        except RefusedUserError:
            return faults.AUTHORIZATION_VIOLATION

    def _claims(self, token: str) -> UserClaims:
        """Return what a JWT claims; without one, what the sentinel claims.

        Raises:
            RefusedUserError: it is not a JWT.
        """
        try:
            return UserClaims.read(token or self._operator.default_sentinel)
        except ClaimsError as error:
            raise RefusedUserError(f"User JWT not valid: {error}") from None

    def _recognized(self, claims: UserClaims, token: str, now: int) -> tuple[User, UserGrants]:
        """Return the user of a JWT, whoever shows it.

        Raises:
            RefusedUserError: there is no such user.
        """
        now_s = now // SECOND
        pinned = self._operator.pinned_accounts
        if pinned and claims.account not in pinned:
            raise RefusedUserError(
                f"Account {claims.account} not listed as operator pinned account"
            )
        options = self._accounts.get(claims.account)
        account = options.claims if options is not None else None
        if options is None or account is None or not account.is_current(now_s):
            raise RefusedUserError("Account JWT lookup error")
        if not account.has_signed(claims):
            raise RefusedUserError("User JWT issuer is not known")
        # From here on these are the words of an account of the operator, not of just anybody.
        if problem := claims.nats.problem() or claims.nats.bad_subject():
            raise RefusedUserError(f"User JWT not valid: {problem}")
        if not claims.is_current(now_s):
            raise RefusedUserError("User JWT no longer valid")
        grants, permissions = _grants(claims, account)
        if grants.bearer_token and account.nats.limits.disallow_bearer:
            raise RefusedUserError("Account does not allow bearer tokens")
        if grants.proxy_required:
            raise RefusedUserError("User must connect by way of a trusted proxy")
        if account.has_revoked(claims):
            raise RefusedUserError("User authentication revoked")
        seconds_left = grants.seconds_left(now_s)
        if seconds_left == 0:
            raise RefusedUserError("Outside connect times")
        ends = [now_s + seconds_left] if seconds_left is not None else []
        ends += [claims.expires_at] if claims.expires_at else []
        user = User(
            account=claims.account,
            nkey=claims.subject,
            connection_types=tuple([each.upper() for each in grants.allowed_connection_types]),
            permissions=made_permissions(permissions.as_options() or options.default_permissions),
            subscriptions_max=grants.subs,
            payload_bytes_max=grants.payload,
            expires_at=_nanoseconds(min(ends, default=0)),
            account_expires_at=_nanoseconds(account.expires_at),
            jwt=token,
            claims=claims,
        )
        return user, grants


def _nanoseconds(moment_s: int) -> int:
    """Return a moment in nanoseconds; any later one becomes the last that 64 bits hold (in
    2262)."""
    return min(moment_s * SECOND, _LAST_MOMENT)


def _is_user(token: str) -> bool:
    """Tell whether this is the JWT of any user at all."""
    try:
        UserClaims.read(token)
    except ClaimsError:
        return False
    return True


def _grants(claims: UserClaims, account: AccountClaims) -> tuple[UserGrants, PermissionClaims]:
    """Return the limits and the permissions of a user: its own, or those of a key's scope.

    Raises:
        RefusedUserError: the key that has signed it does not let it have its own.
    """
    scope = account.nats.signing_keys.get(claims.issuer)
    if scope is None:
        return claims.nats, claims.nats
    if not claims.nats.grants_nothing:
        raise RefusedUserError(
            "User JWT is not valid: scoped users may not have permissions or limits"
        )
    try:
        return scope.template, granted(scope.template, claims, account)
    except TemplateError:
        raise RefusedUserError("User JWT generated invalid permissions") from None
