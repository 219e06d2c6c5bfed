"""Accounts as their JWTs claim them, in the form of those that are configured.

So everything below knows one kind of account. An account whose JWT is not valid is left out. So is
an import that nobody offers, or that needs an activation that is missing: one account must not be
able to stop the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from jetstream_server.config.link_checks import is_within, without_wrong_links
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

InToken = TypeVar("InToken")


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

    def forget(self, token: str) -> None:
        """Forget a JWT that was refused: nobody could be kept from sending ever more of them."""
        self._asked.pop(token, None)
        self._before.pop(token, None)

    def forget_others(self) -> None:
        """Forget what nobody has asked for since this was said before: it is no longer held."""
        self._before, self._asked = self._asked, {}


def claimed_accounts(
    tokens: Mapping[str, str], trusted_keys: Sequence[str], now_s: int
) -> tuple[tuple[AccountOptions, ...], list[str]]:
    """Return the accounts of these JWTs, and what the operator should know about the others.

    Args:
        tokens: JWTs by the keys of accounts.
        trusted_keys: whose signature makes an account one of the operator's.
        now_s: seconds since 1970.
    """
    claims: dict[str, AccountClaims] = {}
    notes = []
    for key, token in tokens.items():
        try:
            claims[key] = _valid(key, token, trusted_keys, now_s)
        except ClaimsError as error:
            notes.append(f"account {key} is left out: {error}")
    made = [
        _account(each, claims, now_s) if each.nats.exports else _WITHOUT_EXPORTS.of(each.token)
        for each in claims.values()
    ]
    for readings in (_CLAIMS, _PROBLEMS, _MAPPINGS, _ACTIVATIONS, _WITHOUT_EXPORTS):
        readings.forget_others()
    accounts, wrong = without_wrong_links(made)
    return tuple(accounts), notes + wrong


def valid_account(
    key: str, token: str, trusted_keys: Sequence[str], now_s: int = 0
) -> AccountClaims:
    """Return what an account claims.

    Args:
        now_s: the time at which it has to be valid; 0 for any.

    Raises:
        ClaimsError: it cannot be relied on.
    """
    try:
        return _valid(key, token, trusted_keys, now_s)
    except ClaimsError:
        for readings in (_CLAIMS, _PROBLEMS):
            readings.forget(token)
        raise


def _valid(key: str, token: str, trusted_keys: Sequence[str], now_s: int) -> AccountClaims:
    claims = _CLAIMS.of(token)
    if claims.subject != key:
        raise ClaimsError(f"the JWT is that of {claims.subject}")
    if claims.issuer not in trusted_keys:
        raise ClaimsError("the JWT was not signed by a trusted operator")
    if now_s and not claims.is_current(now_s):
        raise ClaimsError("the JWT is not valid at this time")
    if problem := _PROBLEMS.of(token):
        raise ClaimsError(problem)
    return claims


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
# Who else is there, and when, changes only whom an account exports to.
_WITHOUT_EXPORTS = _ReadTokens(lambda token: _account(_CLAIMS.of(token), {}, 0))


def _account(
    claims: AccountClaims, everybody: Mapping[str, AccountClaims], now_s: int
) -> AccountOptions:
    nats, limits = claims.nats, claims.nats.limits
    return AccountOptions(
        name=claims.subject,
        jetstream=_jetstream(claims),
        default_permissions=nats.default_permissions.as_options(),
        max_connections=limits.conn,
        max_subscriptions=limits.subs,
        max_payload=limits.payload,
        exports=tuple([_export(claims, each, everybody, now_s) for each in nats.exports]),
        imports=tuple([_import(each) for each in nats.imports]),
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


def _export(
    exporter: AccountClaims,
    export: ExportClaims,
    everybody: Mapping[str, AccountClaims],
    now_s: int,
) -> ExportOptions:
    activated: tuple[str, ...] = ()
    if export.token_req:
        activated = tuple(
            [
                importer.subject
                for importer in everybody.values()
                if any(
                    _is_activated(importer.subject, entry, exporter, export, now_s)
                    for entry in importer.nats.imports
                )
            ]
        )
    return ExportOptions(
        kind=export.type,
        subject=export.subject,
        accounts=activated,
        is_private=export.token_req,
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


def _is_activated(
    importer: str, entry: ImportClaims, exporter: AccountClaims, export: ExportClaims, now_s: int
) -> bool:
    if (entry.account, entry.type) != (exporter.subject, export.type) or not entry.token:
        return False
    try:
        activation = _ACTIVATIONS.of(entry.token)
    except ClaimsError:
        return False
    return (
        activation.is_current(now_s)
        and is_within(entry.subject, activation.nats.subject)
        and activation.lets(importer, exporter, export)
    )


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
