"""The accounts of an operator: where their JWTs come from, and what happens when they change.

Part of the composition root. Preloaded JWTs come from the configuration; if there is a folder they
are put there at the start, and from then on the folder counts.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping

from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.account_options import AccountsClaimed, claimed_accounts
from jetstream_server.config.claims.account_claims import AccountClaims
from jetstream_server.config.claims.token import ClaimsError
from jetstream_server.config.options import OperatorOptions, ServerOptions
from jetstream_server.core.steps import without_pauses
from jetstream_server.net.token_folder import TokenFolder

# What steps take, in units of some microseconds.
_UNITS_OF_NOTE = 20  # for the log
_UNITS_OF_KEEPING = 500  # a file that is written, which the disk has then
_CHARACTERS_OF_UNIT = 50  # of a JWT that is looked into

# Makes ready what follows from JWTs by the keys of accounts, at a time; gives what follows it then:
# at one moment, at the first step, whatever is to be waited for after that.
Follow = Callable[[], Iterator[int]]
Prepare = Callable[[Mapping[str, str], int], Generator[int, None, Follow]]


class OperatorAccounts:
    """The accounts of an operator. The `Tokens` of `monitor/claims_services.py`.

    Args:
        operator: as configured.
        log: notes for the operator: level and text.

    Attributes:
        prepare: makes ready for changed accounts; set once there is a server.

    Raises:
        ConfigError: the folder of JWTs cannot be used.
    """

    def __init__(self, operator: OperatorOptions, log: Callable[[str, str], None]) -> None:
        self._log = log
        self._folder = TokenFolder(operator.resolver_dir) if operator.resolver_dir else None
        self._tokens: Mapping[str, str] = {}
        self._kept: dict[str, str] = {}  # in the folder, as it was read or written last
        self.prepare: Prepare = _without_server
        if self._folder is not None:
            self._kept = without_pauses(self._folder.tokens())
            self._tokens = dict(self._kept)
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
        without_pauses(self.hold(without_pauses(self.preloaded(operator, self._tokens))))

    def reloaded(self, operator: OperatorOptions) -> Generator[int, None, dict[str, str]]:
        """Return which JWTs there would be with a configuration; give after each step what it
        took.

        Raises:
            ConfigError: a file cannot be read.
        """
        found: Mapping[str, str] = {}
        if self._folder is not None:
            found = self._kept = yield from self._folder.tokens()
        tokens = yield from self.preloaded(operator, found)
        return tokens

    def preloaded(
        self, operator: OperatorOptions, found: Mapping[str, str]
    ) -> Generator[int, None, dict[str, str]]:
        """Return the JWTs of a configuration, with those that are found in a folder; what has been
        updated since then stays. Give after each step what it took."""
        if self._folder is None:
            return dict(operator.preloaded)
        tokens = dict(found)
        for key, token in operator.preloaded.items():
            held = tokens.get(key)
            if held is None:
                tokens[key] = token
            elif held != token:
                if _is_newer(token, held):
                    tokens[key] = token
                yield (len(token) + len(held)) // _CHARACTERS_OF_UNIT
        return tokens

    def hold(self, tokens: Mapping[str, str]) -> Generator[int, None, None]:
        """Have these JWTs from now on; those that were found in the folder are not written there
        again. Give after each step what it took, in units of some microseconds.

        Raises:
            ConfigError: they cannot be kept.
        """
        kept = self._kept
        changed: dict[str, str | None] = {
            key: token for key, token in tokens.items() if kept.get(key) != token
        }
        changed |= {key: None for key in kept if key not in tokens}
        yield from self._keep(changed)
        self._tokens = tokens

    def with_accounts(self, options: ServerOptions, now: int) -> ServerOptions:
        """Return the options, with the accounts that the JWTs claim at this time."""
        assert options.operator is not None
        keys = options.operator.trusted_keys
        accounts, notes = claimed_accounts(self._tokens, keys, now // SECOND)
        deque(self._noted(notes), maxlen=0)
        return dataclasses.replace(options, accounts=accounts)

    def with_accounts_of(
        self, tokens: Mapping[str, str], options: ServerOptions, now: int
    ) -> Generator[int, None, ServerOptions]:
        """Return the options, with the accounts that JWTs claim at this time; give after each step
        what it took, in units of some microseconds."""
        assert options.operator is not None
        claimed = AccountsClaimed(tokens, options.operator.trusted_keys, now // SECOND)
        yield from claimed.make()
        yield from self._noted(claimed.notes)
        return dataclasses.replace(options, accounts=claimed.accounts)

    def _noted(self, notes: list[str]) -> Iterator[int]:
        for each in notes:
            self._log("WRN", each)
            yield _UNITS_OF_NOTE

    def tokens(self) -> Mapping[str, str]:
        """Return all JWTs by the keys of their accounts."""
        return self._tokens

    def change(self, changed: Mapping[str, str | None], now: int) -> Generator[int, None, None]:
        """Keep these instead, with None for one that is to go, and follow what they claim, all at
        one moment. Give after each step what it took, in units of some microseconds.

        Raises:
            ConfigError: they could not be kept, or followed.
        """
        tokens = dict(self._tokens)
        for key, token in changed.items():
            if token is None:
                tokens.pop(key, None)
            else:
                tokens[key] = token
        follow = yield from self.prepare(tokens, now)
        yield from self._keep(changed)
        self._tokens = tokens
        yield from follow()

    def _keep(self, changed: Mapping[str, str | None]) -> Generator[int, None, None]:
        """Put JWTs into the folder, or take them out; if one cannot be, those before it are put
        back, or a restart would follow what is refused."""
        if self._folder is None:
            return
        before = dict(self._kept)
        done: list[str] = []
        try:
            for key, token in changed.items():
                yield _UNITS_OF_KEEPING
                self._place(self._folder, key, token)
                done.append(key)
        except OSError as error:
            text = f"the JWT of an account could not be kept: {error.strerror}"
            self._log("ERR", text)
            for key in done:
                yield _UNITS_OF_KEEPING
                self._put_back(self._folder, key, before.get(key))
            raise ConfigError(text) from None

    def _put_back(self, folder: TokenFolder, key: str, token: str | None) -> None:
        try:
            self._place(folder, key, token)
        except OSError as error:
            text = f"the JWT of account {key} could not be put back: {error.strerror}"
            self._log("ERR", text)

    def _place(self, folder: TokenFolder, key: str, token: str | None) -> None:
        if token is not None:
            folder.save(key, token)
            self._kept[key] = token
        elif key in self._kept:
            folder.delete(key)
            del self._kept[key]


def _without_server(tokens: Mapping[str, str], now: int) -> Generator[int, None, Follow]:
    yield 0
    return lambda: iter(())


def _is_newer(token: str, other: str) -> bool:
    """Tell whether one JWT was issued after another, or the other is not a JWT."""
    try:
        return AccountClaims.read(token).issued_at > AccountClaims.read(other).issued_at
    except ClaimsError:
        return True
