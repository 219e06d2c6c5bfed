"""Accounts as their JWTs claim them, in the form of those that are configured.

So everything below knows one kind of account. An account whose JWT is not valid is left out. So is
an import that nobody offers, or that needs an activation that is missing: one account must not be
able to stop the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from jetstream_server.config.claims.account_claims import (
    AccountClaims,
    ActivationClaims,
    ExportClaims,
    ImportClaims,
    LatencyClaims,
    StorageLimits,
)
from jetstream_server.config.claims.token import ClaimsError
from jetstream_server.config.link_checks import PossibleLinks, is_within
from jetstream_server.config.options import (
    AccountJetStreamOptions,
    AccountOptions,
    ExportOptions,
    ImportOptions,
    LatencyOptions,
    MappingDestination,
    SubjectMapping,
)

_THRESHOLD_NS = ExportOptions("", "").response_threshold_ns
# What steps take, in units of some microseconds.
_ACCOUNTS_OF_STEP = 100  # that were looked at before
_UNITS_OF_SIGNATURE = 150
_ACTIVATED_OF_STEP = 20

InToken = TypeVar("InToken")
# Who may import something by an activation, and what.
_Activated = frozenset[tuple[str, str]]
# By exporter and kind: who imports what from it with an activation, and what that says.
_Shown = dict[tuple[str, str], list[tuple[str, str, ActivationClaims]]]


class _ReadTokens(Generic[InToken]):
    """What was read in JWTs that are held, however many there are.

    All accounts are read again whenever one of them changes, a JWT may be a megabyte long, and to
    look at its signature takes a tenth of a millisecond.

    Args:
        read: reads one; what it raises is not remembered.
    """

    def __init__(self, read: Callable[[str], InToken]) -> None:
        self._read = read
        self._before: dict[str, InToken] = {}
        self._asked: dict[str, InToken] = {}

    def of(self, token: str) -> InToken:
        """Return what is in a JWT."""
        if token not in self._asked:
            known = token in self._before
            self._asked[token] = self._before[token] if known else self._read(token)
        return self._asked[token]

    def knows(self, token: str) -> bool:
        """Tell whether a JWT does not have to be read."""
        return token in self._asked or token in self._before

    def learn(self, token: str, told: InToken) -> None:
        """Note what is in a JWT, found out elsewhere."""
        self._asked[token] = told

    def forget(self, token: str) -> None:
        """Forget a JWT that was refused: nobody could be kept from sending ever more of them."""
        self._asked.pop(token, None)
        self._before.pop(token, None)

    def forget_others(self) -> None:
        """Forget what nobody has asked for since this was said before: it is no longer held."""
        self._before, self._asked = self._asked, {}


class AccountsClaimed:
    """The accounts of JWTs, made in steps, as there may be thousands of them, or of links.

    Args:
        tokens: JWTs by the keys of accounts.
        trusted_keys: whose signature makes an account one of the operator's.
        now_s: seconds since 1970.

    Attributes:
        accounts: those that were made.
        notes: what the operator should know about the others.
    """

    def __init__(self, tokens: Mapping[str, str], trusted_keys: Sequence[str], now_s: int) -> None:
        self._tokens = tokens
        self._trusted_keys = trusted_keys
        self._now_s = now_s
        self.accounts: tuple[AccountOptions, ...] = ()
        self.notes: list[str] = []

    def make(self) -> Iterator[int]:
        """Make them; give after each step what it took, in units of some microseconds."""
        claims: dict[str, AccountClaims] = {}
        for number, (key, token) in enumerate(self._tokens.items()):
            if not number % _ACCOUNTS_OF_STEP:
                yield _ACCOUNTS_OF_STEP
            try:
                if _CLAIMS.knows(token) and _PROBLEMS.knows(token):
                    claims[key] = _checked(key, token, self._trusted_keys, self._now_s)
                else:
                    looking = valid_in_steps(key, token, self._trusted_keys, self._now_s)
                    claims[key] = yield from looking
            except ClaimsError as error:
                self.notes.append(f"account {key} is left out: {error}")
        activations = _Activations(claims, self._now_s)
        made = []
        for number, each in enumerate(claims.values()):
            exports = each.nats.exports
            if not number % _ACCOUNTS_OF_STEP:
                yield _ACCOUNTS_OF_STEP
            if _OF_ITSELF.knows(each.token):  # first: to look at its exports may take long
                made.append(_OF_ITSELF.of(each.token))
            elif any(export.token_req for export in exports):
                yield len(exports)
                account = yield from _account(each, activations)
                made.append((yield from _as_before(account, each.token)))
            else:
                account = yield from _account(each, None)
                _OF_ITSELF.learn(each.token, account)
                made.append(account)
        for readings in (_CLAIMS, _PROBLEMS, _MAPPINGS, _ACTIVATIONS, _OF_ITSELF, _ACTIVATED):
            readings.forget_others()
        links = PossibleLinks(made)
        yield from links.find()
        self.accounts = tuple(links.accounts)
        self.notes += links.notes


def claimed_accounts(
    tokens: Mapping[str, str], trusted_keys: Sequence[str], now_s: int
) -> tuple[tuple[AccountOptions, ...], list[str]]:
    """Return the accounts of these JWTs, and what the operator should know about the others; as
    `AccountsClaimed` does, but at once."""
    claimed = AccountsClaimed(tokens, trusted_keys, now_s)
    deque(claimed.make(), maxlen=0)
    return claimed.accounts, claimed.notes


def _end_of(steps: Generator[int, None, InToken]) -> InToken:
    """Take all steps at once, and return what came of them."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: InToken = end.value
            return result


def read_account(token: str) -> Generator[int, None, AccountClaims]:
    """Return what an account claims, whoever has signed it; if it is not kept, `forget` it. Give
    after each step what it took, in units of some microseconds.

    Raises:
        ClaimsError: it is not the JWT of an account.
    """
    if not _CLAIMS.knows(token):
        claims = yield from AccountClaims.read_in_steps(token)
        _CLAIMS.learn(token, claims)
    return _CLAIMS.of(token)


def forget(token: str) -> None:
    """Forget a JWT that is not kept."""
    for readings in (_CLAIMS, _PROBLEMS):
        readings.forget(token)


def valid_in_steps(
    key: str, token: str, trusted_keys: Sequence[str], now_s: int = 0
) -> Generator[int, None, AccountClaims]:
    """Return what an account claims; give after each step what it took, in units of some
    microseconds.

    Raises:
        ClaimsError: it cannot be relied on.
    """
    claims = yield from read_account(token)
    _refuse_untrusted(claims, key, trusted_keys, now_s)
    if not _PROBLEMS.knows(token):
        problem = yield from claims.look()
        _PROBLEMS.learn(token, problem)
    return _checked(key, token, trusted_keys, now_s)


def _checked(key: str, token: str, trusted_keys: Sequence[str], now_s: int) -> AccountClaims:
    """Return what an account claims whose JWT was looked at."""
    claims = _CLAIMS.of(token)
    _refuse_untrusted(claims, key, trusted_keys, now_s)
    if problem := _PROBLEMS.of(token):
        raise ClaimsError(problem)
    return claims


def _refuse_untrusted(
    claims: AccountClaims, key: str, trusted_keys: Sequence[str], now_s: int
) -> None:
    if claims.subject != key:
        raise ClaimsError(f"the JWT is that of {claims.subject}")
    if claims.issuer not in trusted_keys:
        raise ClaimsError("the JWT was not signed by a trusted operator")
    if now_s and not claims.is_current(now_s):
        raise ClaimsError("the JWT is not valid at this time")


def _mappings_of(token: str) -> tuple[SubjectMapping, ...]:
    return tuple(
        [
            SubjectMapping(
                source,
                tuple(
                    [
                        MappingDestination(each.subject, each.weight or 100, each.cluster)
                        for each in destinations
                    ]
                ),
            )
            for source, destinations in _CLAIMS.of(token).nats.mappings.items()
        ]
    )


_CLAIMS = _ReadTokens(AccountClaims.read)
_PROBLEMS = _ReadTokens(lambda token: _CLAIMS.of(token).problem())
_MAPPINGS = _ReadTokens(_mappings_of)
_ACTIVATIONS = _ReadTokens(ActivationClaims.read)
# Who else is there, and when, changes only to whom an account exports what needs an activation.
_OF_ITSELF = _ReadTokens(lambda token: _end_of(_account(_CLAIMS.of(token), None)))
# What the others were when they were made last.
_ACTIVATED = _ReadTokens(_OF_ITSELF.of)


def _account(
    claims: AccountClaims, activations: _Activations | None
) -> Generator[int, None, AccountOptions]:
    nats, limits = claims.nats, claims.nats.limits
    exports, imports = [], []
    for given in nats.exports:
        activated: _Activated = frozenset()
        if given.token_req and activations is not None:
            activated = yield from activations.of(claims, given)
        exports.append(_export(given, activated))
        yield 1
    for entry in nats.imports:
        imports.append(_import(entry))
        yield 1
    return AccountOptions(
        name=claims.subject,
        jetstream=_jetstream(claims),
        default_permissions=nats.default_permissions.as_options(),
        max_connections=limits.conn,
        max_subscriptions=limits.subs,
        max_payload=limits.payload,
        exports=tuple(exports),
        imports=tuple(imports),
        mappings=_MAPPINGS.of(claims.token),
        claims=claims,
        trace_dest=nats.trace.dest if nats.trace is not None else "",
        trace_percent=(nats.trace.sampling if nats.trace is not None else 0) or 100,
    )


def _jetstream(claims: AccountClaims) -> AccountJetStreamOptions | None:
    limits = claims.nats.limits
    if not limits.has_jetstream:
        return None
    if not limits.tiered_limits:
        return _storage(limits)
    tiers = {name: _storage(each) for name, each in limits.tiered_limits.items()}
    return AccountJetStreamOptions(tiers=tiers)


def _storage(limits: StorageLimits) -> AccountJetStreamOptions:
    return AccountJetStreamOptions(
        max_memory=limits.mem_storage,
        max_store=limits.disk_storage,
        max_streams=limits.streams,
        max_consumers=limits.consumer,
        max_bytes_required=limits.max_bytes_required,
        memory_max_stream_bytes=limits.mem_max_stream_bytes or -1,
        store_max_stream_bytes=limits.disk_max_stream_bytes or -1,
        max_ack_pending=limits.max_ack_pending or -1,
    )


def _as_before(account: AccountOptions, token: str) -> Generator[int, None, AccountOptions]:
    """Return what was made of a JWT before, if nobody else is let import than then, so that what
    follows from it is known."""
    if _ACTIVATED.knows(token):
        before = _ACTIVATED.of(token)
        compared: tuple[_Activated, _Activated] | None = None
        for known, export in zip(before.exports, account.exports, strict=True):
            old, new = known.activated, export.activated
            if compared is not None and old is compared[0] and new is compared[1]:
                continue  # exports share what they share
            compared = (old, new)
            yield 1 + len(new) // _ACTIVATED_OF_STEP
            if old != new:
                break
        else:
            account = before
    _ACTIVATED.learn(token, account)
    return account


def _export(export: ExportClaims, activated: _Activated) -> ExportOptions:
    return ExportOptions(
        kind=export.type,
        subject=export.subject,
        is_private=export.token_req,
        activated=activated,
        account_token_position=export.account_token_position,
        response=export.response_type.lower() or "singleton",
        response_threshold_ns=export.response_threshold or _THRESHOLD_NS,
        latency=_latency(export.service_latency),
        allows_trace=export.allow_trace,
    )


def _latency(claims: LatencyClaims | None) -> LatencyOptions | None:
    if claims is None:
        return None
    percent = claims.sampling if isinstance(claims.sampling, int) else 0  # otherwise by headers
    return LatencyOptions(claims.results, percent)


class _Activations:
    """Who may import what needs an activation.

    Args:
        everybody: what all accounts claim, by key.
        now_s: seconds since 1970; an activation may be over.
    """

    def __init__(self, everybody: Mapping[str, AccountClaims], now_s: int) -> None:
        self._everybody = everybody
        self._now_s = now_s
        self._shown: _Shown | None = None
        self._unrevoked: dict[tuple[str, str], _Activated] = {}

    def of(self, exporter: AccountClaims, export: ExportClaims) -> Generator[int, None, _Activated]:
        """Return the accounts that may import something of what one exports, each with that."""
        if self._shown is None:
            self._shown = yield from self._read()
        place = (exporter.subject, export.type)
        # An activation says nothing of the export, only what may be imported of it.
        if not export.revocations and place in self._unrevoked:
            return self._unrevoked[place]
        shown = self._shown.get(place, [])
        found = []
        for importer, subject, activation in shown:
            if activation.lets(importer, exporter, export):
                found.append((importer, subject))
            yield 1
        activated = frozenset(found)
        if not export.revocations:
            self._unrevoked[place] = activated
        return activated

    def _read(self) -> Generator[int, None, _Shown]:
        shown: _Shown = {}
        for key, importer in self._everybody.items():
            yield 1
            for entry in importer.nats.imports:
                if not entry.token:
                    continue
                is_known = _ACTIVATIONS.knows(entry.token)
                yield 1 if is_known else _UNITS_OF_SIGNATURE
                try:
                    activation = _ACTIVATIONS.of(entry.token)
                except ClaimsError:
                    continue
                subject = _import(entry).subject
                if activation.is_current(self._now_s) and is_within(
                    subject, activation.nats.subject
                ):
                    place = (entry.account, entry.type)
                    shown.setdefault(place, []).append((key, subject, activation))
        return shown


def _import(entry: ImportClaims) -> ImportOptions:
    subject, to, prefix = entry.subject, entry.local_subject, ""
    if not entry.local_subject and entry.to:
        # In claims of the first version, `to` is a stream's prefix, or a service's subject there.
        if entry.type == "stream":
            prefix = entry.to
        else:
            subject, to = entry.to, entry.subject
    return ImportOptions(
        entry.type, entry.account, subject, to, prefix, entry.share, entry.allow_trace
    )
