"""Accounts and users of an operator, who prove with JWTs who they are."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from jetstream_server.base.clock import SECOND
from jetstream_server.base.errors import ConfigError
from jetstream_server.config.load import load
from jetstream_server.config.options import OperatorOptions, ServerOptions
from jetstream_server.core.steps import without_pauses
from jetstream_server.monitor.claims_services import ClaimsServices
from jetstream_server.node.accounts.account_changes import AccountChanges
from jetstream_server.node.auth.operator import OperatorGatekeeper
from jetstream_server.node.auth.users import accounts_of
from jetstream_server.node.node import Node
from jetstream_server.operator_accounts import Follow, OperatorAccounts

from tests.attack.acts import Show
from tests.attack.claims import (
    PRELOADED,
    account_claims,
    account_token,
    claimed,
    shown,
    user_token,
    written,
)
from tests.attack.configured_users import Note
from tests.parity.credentials import OPERATOR, OPERATOR_SIGNING, account_key

_CONFIG = """
operator: {operator}
system_account: {system}
resolver: {resolver}
resolver_preload {{
{preload}}}
max_payload: 1MB
{more}
jetstream {{ store_dir: "{folder}/store", domain: "hub" }}
"""


@dataclass(frozen=True)
class _Variant:
    """What differs: the JWTs of accounts that come with it, and other lines."""

    changed: tuple[str, ...] = ()
    more: str = ""


_PINNED = ", ".join(account_key(name).public for name in ("A", "X", "Z"))
VARIANTS = (
    _Variant(),
    _Variant(more=f"default_sentinel: {user_token('sentinel')}\nmax_control_line: 2KB"),
    _Variant(changed=("B", "SYS"), more="max_connections: 4"),
    _Variant(more=f"resolver_pinned_accounts: [{_PINNED}]\nping_interval: 1s"),
)


class OperatedUsers:
    """Who may connect, and how they prove who they are: an `Admission`.

    Args:
        keeps: JWTs of accounts are in a folder and can change; otherwise they are as configured.

    Attributes:
        taken: how often a change of accounts was followed.
    """

    witnesses = (("x", "W"),)

    def __init__(self, *, keeps: bool) -> None:
        self._keeps = keeps
        self.newcomers = ("z",) if keeps else ("x",)
        self.taken = 0
        self._changes = 0
        self._note: Note = lambda level, text: None
        self._operator: OperatorOptions | None = None
        self._accounts: OperatorAccounts | None = None
        self._changed: Callable[[int], None] = lambda now: None

    def options(self, folder: Path, number: int, now: int, note: Note) -> ServerOptions:
        """Return what the operator asks for, in one of the variants."""
        self._note = note
        config = folder / "server.conf"
        config.write_text(self._text(folder, VARIANTS[number]))
        options = load(str(config))
        assert options.operator is not None
        self._operator = options.operator
        if self._accounts is None:
            self._accounts = OperatorAccounts(options.operator, note)
        else:
            self._accounts.preload(options.operator)
        return self._accounts.with_accounts(options, now)

    def _text(self, folder: Path, variant: _Variant) -> str:
        resolver = "MEMORY"
        if self._keeps:
            resolver = f'{{ type: full, dir: "{folder}/jwt", allow_delete: true }}'
        tokens = {name: account_token(name) for name in PRELOADED}
        for name in variant.changed:
            claims = account_claims(name)
            claims["iat"] += 1
            claims["nats"]["limits"]["disk_storage"] = -1
            tokens[name] = written(claims, OPERATOR)
        signing = {"signing_keys": [OPERATOR_SIGNING.public]}
        return _CONFIG.format(
            operator=written(
                claimed("operator", OPERATOR, OPERATOR.public, "operator", signing), OPERATOR
            ),
            system=account_key("SYS").public,
            resolver=resolver,
            preload="".join(f"{account_key(each).public}: {tokens[each]}\n" for each in tokens),
            more=variant.more,
            folder=folder,
        )

    def restarted(self, options: ServerOptions, now: int, note: Note) -> ServerOptions:
        """Return what the same options mean to a server that starts again: JWTs that were not kept
        are those of the configuration."""
        assert options.operator is not None
        self._accounts = OperatorAccounts(options.operator, note)
        return self._accounts.with_accounts(options, now)

    def renewed(self, options: ServerOptions, now: int) -> ServerOptions:
        """Return the same options, with accounts as they are by now."""
        assert self._accounts is not None
        return self._accounts.with_accounts(options, now)

    def gatekeeper(self, options: ServerOptions) -> OperatorGatekeeper:
        """Return who decides over CONNECT."""
        assert options.operator is not None
        accounts = accounts_of(options)
        return OperatorGatekeeper(options.operator, accounts, lambda: "a nonce", self._note)

    def serve(self, node: Node, changed: Callable[[int], None]) -> None:
        """Let the system account change accounts, where they can change."""
        accounts, operator = self._accounts, node.options.operator
        assert accounts is not None and operator is not None

        def prepare(tokens: Mapping[str, str], now: int) -> Generator[int, None, Follow]:
            yield from accounts.with_accounts_of(tokens, node.options, now)

            def follow() -> Iterator[int]:
                changed(now)
                self.taken += 1
                yield 1

            return follow

        accounts.prepare = prepare
        if accounts.is_changeable:
            changes = AccountChanges(node.accounts[node.options.system_account], node.workload)
            ClaimsServices(node, operator, accounts, changes).subscribe()

    def credentials(self, user: str, nonce: str) -> bytes:
        """Return the fields of CONNECT that prove who somebody is."""
        return shown(Show(0, user_token(user), user), nonce)

    def trouble(self, now: int) -> str:
        """Return what goes no longer, empty if all does: another account can still come, and all
        that have come would be there after a start."""
        if not self._keeps:
            return ""
        assert self._accounts is not None
        self._changes += 1
        claims = account_claims("Z")
        claims["iat"] = now // SECOND + self._changes
        try:
            changed = {account_key("Z").public: written(claims, OPERATOR)}
            without_pauses(self._accounts.change(changed, now))
        except ConfigError as error:
            return f"no account can come any more: {error}"
        return self._unkept()

    def _unkept(self) -> str:
        """Return which JWTs a server that starts now would not find; those that are configured
        may come again."""
        assert self._accounts is not None and self._operator is not None
        held = self._accounts.tokens()
        found = OperatorAccounts(self._operator, self._note).tokens()
        differing = [
            key
            for key in (held | found)
            if key not in self._operator.preloaded and held.get(key) != found.get(key)
        ]
        return f"the JWTs of these accounts are not kept: {differing}" if differing else ""


def of_seed(seed: int) -> Callable[[], OperatedUsers]:
    """Return what makes the users of an attack: of three, two keep JWTs in a folder."""
    return lambda: OperatedUsers(keeps=seed % 3 > 0)
