"""The accounts of an operator: where their JWTs come from, and what happens when they change.

Part of the composition root. Preloaded JWTs come from the configuration; if there is a folder they
are put there at the start, and from then on the folder counts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.account_options import claimed_accounts
from jetstream_server.config.claims.account_claims import AccountClaims
from jetstream_server.config.claims.token import ClaimsError
from jetstream_server.config.options import OperatorOptions, ServerOptions
from jetstream_server.net.token_folder import TokenFolder


class OperatorAccounts:
    """The accounts of an operator. The `Tokens` of `monitor/claims_services.py`.

    Args:
        operator: as configured.
        log: notes for the operator: level and text.

    Attributes:
        follow: has the server follow changed accounts; set once there is a server.

    Raises:
        ConfigError: the folder of JWTs cannot be used.
    """

    def __init__(self, operator: OperatorOptions, log: Callable[[str, str], None]) -> None:
        self._log = log
        self._folder = TokenFolder(operator.resolver_dir) if operator.resolver_dir else None
        self._tokens: dict[str, str] = {}
        self.follow: Callable[[int], None] = lambda now: None
        self.preload(operator)

    @property
    def is_changeable(self) -> bool:
        """Return whether accounts can change while the server runs."""
        return self._folder is not None

    def preload(self, operator: OperatorOptions) -> None:
        """Take over the JWTs of a configuration.

        Raises:
            ConfigError: they cannot be kept.
        """
        if self._folder is None:
            self._tokens = dict(operator.preloaded)
            return
        self._tokens = self._folder.tokens()
        # What has been updated since then stays.
        newer = {
            key: token
            for key, token in operator.preloaded.items()
            if key not in self._tokens or _is_newer(token, self._tokens[key])
        }
        self._keep(newer)
        self._tokens |= newer

    def with_accounts(self, options: ServerOptions, now: int) -> ServerOptions:
        """Return the options, with the accounts that the JWTs claim at this time."""
        assert options.operator is not None
        keys = options.operator.trusted_keys
        accounts, notes = claimed_accounts(self._tokens, keys, now // SECOND)
        for each in notes:
            self._log("WRN", each)
        return dataclasses.replace(options, accounts=accounts)

    def tokens(self) -> Mapping[str, str]:
        """Return all JWTs by the keys of their accounts."""
        return self._tokens

    def change(self, changed: Mapping[str, str | None], now: int) -> None:
        """Keep these instead, with None for one that is to go, and follow what they claim.

        Raises:
            ConfigError: they could not be kept, or followed.
        """
        self._keep(changed)
        for key, token in changed.items():
            if token is None:
                self._tokens.pop(key, None)
            else:
                self._tokens[key] = token
        self.follow(now)

    def _keep(self, changed: Mapping[str, str | None]) -> None:
        if self._folder is None:
            return
        try:
            for key, token in changed.items():
                if token is not None:
                    self._folder.save(key, token)
                elif key in self._tokens:
                    self._folder.delete(key)
        except OSError as error:
            text = f"the JWT of an account could not be kept: {error.strerror}"
            self._log("ERR", text)
            raise ConfigError(text) from None


def _is_newer(token: str, other: str) -> bool:
    """Tell whether one JWT was issued after another, or the other is not a JWT."""
    try:
        return AccountClaims.read(token).issued_at > AccountClaims.read(other).issued_at
    except ClaimsError:
        return True
