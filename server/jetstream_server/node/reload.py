"""A node follows a changed configuration: users, permissions, accounts, limits, imports.

What may be changed was checked before (`config/changes.py`). Clients stay connected unless their
user is gone or has another account or other credentials, or there are too many clients; they lose
the subscriptions that they may no longer have. Specification:
docs/reference/configuration.md#reload.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace

from jetstream_server.config.options import AccountOptions, ServerOptions, SubjectMapping
from jetstream_server.core.transform import TransformError
from jetstream_server.node.accounts.account import Account, ClientLimits
from jetstream_server.node.accounts.account_links import AccountLinks
from jetstream_server.node.accounts.subject_mappings import SubjectMappings
from jetstream_server.node.auth.auth import GLOBAL_ACCOUNT, Gatekeeper, User
from jetstream_server.node.auth.users import accounts_of
from jetstream_server.node.node import Node
from jetstream_server.node.session import Session
from jetstream_server.node.trace_request import TraceTerms
from jetstream_server.protocol import errors as faults
from jetstream_server.protocol.errors import Fault

_GONE = "Client Closed"
_UNITS_OF_ACCOUNT = 8  # of some microseconds
_USERS_AT_ONCE = 100  # that are compared with those before, one in a unit
_SUBJECTS_OF_SESSION = 8  # that a JWT permits or denies; to look at them takes as long as the rest


class Arrangement:
    """What the accounts of a node are to be, with their limits, mappings and imports: made ready in
    steps, as there may be thousands of each, and then followed at one moment.

    A mapping that an account claims in its JWT, and that is impossible, is left out: one account
    must not be able to stop the others.

    Args:
        options: the configuration that says it.

    Attributes:
        changed: the names of those that are not what they were, users included.
    """

    def __init__(self, node: Node, options: ServerOptions) -> None:
        self.changed: set[str] = set()
        self._node = node
        self._system_account = options.system_account
        self._configured = accounts_of(options)
        self._given_mappings = {GLOBAL_ACCOUNT: options.mappings} | {
            name: given.mappings for name, given in self._configured.items()
        }
        self._mappings: dict[str, SubjectMappings] = {}
        self._accounts: dict[str, Account] = {}
        self._links = self._replaced = node.links

    def make(self) -> Iterator[int]:
        """Make it ready; nothing changes yet. Give after each step what it took, in units of some
        microseconds.

        Raises:
            ConfigError: a mapping of the configuration itself is impossible.
        """
        node, configured = self._node, self._configured
        for name, each in self._given_mappings.items():
            yield 1
            if each:
                made = yield from _mappings(node, name, each, configured.get(name))
                self._mappings[name] = made
        before = accounts_of(node.options)
        for name in before.keys() | configured.keys():
            if (yield from _differ(before.get(name), configured.get(name))):
                self.changed.add(name)
        accounts = self._accounts = dict(node.accounts)
        for name in (*configured, self._system_account):
            if name not in accounts:
                accounts[name] = node.make_account(name)
                yield _UNITS_OF_ACCOUNT
        self._replaced = node.links
        self._links = AccountLinks(accounts, configured, node.random, node.links)
        yield from self._links.make()

    def follow(self, *, joins: bool = True) -> None:
        """Have the node's accounts be what they are to be.

        Args:
            joins: whether subscriptions that are there hear what is imported from now on; else from
                when the links are told to join.
        """
        node = self._node
        assert node.links is self._replaced, "what was made ready is about other links"
        for name, account in self._accounts.items():
            assert node.accounts.setdefault(name, account) is account
            given = self._configured.get(name)
            if given is not None and given is account.arranged:
                continue  # where one of thousands changes the others are what they were
            account.mappings = self._mappings.get(name)
            account.limits = ClientLimits()
            account.trace_terms = None
            if given is not None and given.claims is not None:
                account.name_tag = given.claims.name or name
            if given is not None and given.trace_dest:
                account.trace_terms = TraceTerms(given.trace_dest.encode(), given.trace_percent)
            if given is not None:
                account.limits = ClientLimits(
                    given.max_connections, given.max_subscriptions, given.max_payload
                )
            account.arranged = given
        node.links = self._links
        for account, shadows in node.links.open(joins=joins).items():
            node.upkeep.give_up(account, shadows)


def arrange_accounts(node: Node, options: ServerOptions) -> None:
    """Give a node the accounts of a configuration at once.

    Raises:
        ConfigError: a mapping of the configuration itself is impossible.
    """
    arrangement = Arrangement(node, options)
    deque(arrangement.make(), maxlen=0)
    arrangement.follow()


def _differ(
    before: AccountOptions | None, after: AccountOptions | None
) -> Generator[int, None, bool]:
    """Tell whether an account is not what it was. To compare five thousand users takes 15 ms."""
    yield 1
    if before is after:
        return False
    if before is None or after is None or len(before.users) != len(after.users):
        return True
    yield _UNITS_OF_ACCOUNT
    if replace(before, users=()) != replace(after, users=()):
        return True
    for at in range(0, len(before.users), _USERS_AT_ONCE):
        some = slice(at, at + _USERS_AT_ONCE)
        yield _USERS_AT_ONCE
        if before.users[some] != after.users[some]:
            return True
    return False


def _mappings(
    node: Node, name: str, configured: Sequence[SubjectMapping], options: AccountOptions | None
) -> Generator[int, None, SubjectMappings]:
    """Return the mappings of an account: those that it has, if they are to stay as they are. To
    make twenty thousand of them takes a second.

    Raises:
        ConfigError: one is impossible, and no JWT's.
    """
    account = node.accounts.get(name)
    known = None if account is None else account.mappings
    if known is not None and known.configured == configured:
        return known
    if options is None or options.claims is None:
        made = yield from SubjectMappings.in_steps(configured, node.random)
        return made
    whose = f"{name}/{options.claims.name or name}"

    def refuse(source: str, error: TransformError) -> None:
        node.note("ERR", f'Error adding subject mapping "{source}" for account [{whose}]: {error}')

    made = yield from SubjectMappings.in_steps(configured, node.random, refuse)
    return made


def reload(
    node: Node,
    options: ServerOptions,
    authenticator: Gatekeeper,
    now: int = 0,
    arrangement: Arrangement | None = None,
) -> None:
    """Follow a configuration that is allowed to replace the one before.

    Args:
        arrangement: of its accounts, if it was made ready before.

    Raises:
        ConfigError: a mapping is impossible; nothing has changed then.
    """
    if arrangement is None:
        arrangement = Arrangement(node, options)
        deque(arrangement.make(), maxlen=0)
    arrangement.follow(joins=False)
    before, after = accounts_of(node.options), accounts_of(options)
    # Otherwise what the server allows everybody may have changed.
    are_claimed = options.operator is not None and (
        replace(options, accounts=node.options.accounts) == node.options
    )
    for name in arrangement.changed & node.accounts.keys():
        node.accounts[name].updated_at = now
    node.authenticator = authenticator
    node.options = options
    node.reloaded_at = now

    def stays(user: User) -> bool:
        """Tell whether JWTs that are what they were say who it is."""
        whose = user.account
        return are_claimed and whose in after and before.get(whose) is after[whose]

    def look(session: Session) -> int:
        user = session.user
        if user is None:
            return 0
        successor = authenticator.successor(user, now)
        _review(session, user, successor)
        return max(_extent(user), _extent(successor) if isinstance(successor, User) else 0)

    affected = [
        each for each in node.sessions.values() if each.user is not None and not stays(each.user)
    ]
    links = node.links

    def finished() -> None:
        # Not before: whoever may not go on must not hear what is new.
        links.join()
        _turn_away_excess(node)

    node.successions.begin(affected, look, finished)


def _extent(user: User) -> int:
    """Return for how many clients more one counts whose JWT is looked at again."""
    rules = user.permissions
    if user.claims is None or rules is None:
        return 0
    subjects = 0
    for each in (rules.publish, rules.subscribe):
        subjects += len(each.allowed or ()) + len(each.denied)
    return subjects // _SUBJECTS_OF_SESSION


def _review(session: Session, old: User, user: User | Fault | None) -> None:
    """Let a client go on under the new rules, or end its connection."""
    if isinstance(user, Fault):
        session.refuse(user)
    elif user is None and (old.name or old.nkey):
        session.close(_GONE)
    elif user is None or (user.account, user.password) != (old.account, old.password):
        session.refuse(faults.AUTHORIZATION_VIOLATION)
    else:
        session.adopt(user)


def _turn_away_excess(node: Node) -> None:
    """Close the youngest connections beyond the limit."""
    open_sessions = [each for each in node.sessions.values() if not each.closing]
    for session in open_sessions[node.options.max_connections :]:
        session.refuse(faults.CONNECTIONS_EXCEEDED)
