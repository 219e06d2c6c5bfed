"""A node follows a changed configuration: users, permissions, accounts, limits, imports.

What may be changed was checked before (`config/changes.py`). Clients stay connected unless their
user is gone or has another account or other credentials, or there are too many clients; they lose
the subscriptions that they may no longer have. Specification:
docs/reference/configuration.md#reload.
"""

from __future__ import annotations

from collections.abc import Sequence

from jetstream_server.config.options import AccountOptions, ServerOptions, SubjectMapping
from jetstream_server.core.transform import TransformError
from jetstream_server.node.accounts.account import ClientLimits
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


def arrange_accounts(node: Node, options: ServerOptions) -> None:
    """Give a node the accounts of a configuration, with their limits, mappings and imports.

    A mapping that an account claims in its JWT, and that is impossible, is left out: one account
    must not be able to stop the others.

    Raises:
        ConfigError: a mapping of the configuration itself is impossible.
    """
    configured = accounts_of(options)
    given_mappings = {GLOBAL_ACCOUNT: options.mappings}
    given_mappings |= {name: given.mappings for name, given in configured.items()}
    made = {
        name: _mappings(node, name, each, configured.get(name))
        for name, each in given_mappings.items()
        if each
    }
    for name in (*configured, options.system_account):
        node.add_account(name)
    for name, account in node.accounts.items():
        given = configured.get(name)
        if given is not None and given is account.arranged:
            continue  # where one of thousands changes the others are what they were
        account.arranged = given
        account.mappings = made.get(name)
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
    node.links.close()
    node.links = AccountLinks(node.accounts, configured, node.random)
    node.links.open()


def _mappings(
    node: Node, name: str, configured: Sequence[SubjectMapping], options: AccountOptions | None
) -> SubjectMappings:
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
        return SubjectMappings(configured, node.random)
    whose = f"{name}/{options.claims.name or name}"

    def refuse(source: str, error: TransformError) -> None:
        node.note("ERR", f'Error adding subject mapping "{source}" for account [{whose}]: {error}')

    return SubjectMappings(configured, node.random, refuse)


def reload(node: Node, options: ServerOptions, authenticator: Gatekeeper, now: int = 0) -> None:
    """Follow a configuration that is allowed to replace the one before.

    Raises:
        ConfigError: a mapping is impossible; nothing has changed then.
    """
    arrange_accounts(node, options)
    before, after = accounts_of(node.options), accounts_of(options)
    for name, account in node.accounts.items():
        old, new = before.get(name), after.get(name)
        if old is not new and old != new:
            account.updated_at = now
    node.authenticator = authenticator
    node.options = options
    node.reloaded_at = now
    for session in list(node.sessions.values()):
        if session.user is not None and not session.closing:
            _review(session, session.user, authenticator.successor(session.user, now))
    _turn_away_excess(node)


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
