"""What an account claims: its limits, its signing keys, what it exports and imports.

A limit of -1 means none; one that is not given is 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from jetstream_server.base import nkey
from jetstream_server.config.claims.claimed_subjects import (
    is_wild,
    quoted,
    renaming_problems,
    subject_problems,
    unreferred,
)
from jetstream_server.config.claims.info_url import url_problem
from jetstream_server.config.claims.misfits import kind_of
from jetstream_server.config.claims.overlaps import ImportOverlaps, export_overlaps, is_contained
from jetstream_server.config.claims.token import (
    ClaimCounts,
    ClaimFlag,
    ClaimInteger,
    ClaimLimit,
    ClaimList,
    Claims,
    ClaimsError,
    ClaimTexts,
    SignedClaims,
    by_name,
    told,
)
from jetstream_server.config.claims.user_claims import PermissionClaims, UserClaims, UserGrants

_ANYBODY = "*"
_STREAM, _SERVICE, _NULL = "stream", "service", "null"
_SCOPE = "user_scope"
_NO_LIMIT = -1
_TRAFFIC = ("", "system", "owner")
_TEXT_BYTES_MAX = 8192
_KEYS_MAX = 2_500
_ACTIVATIONS_MAX = 128
# In units of some microseconds.
_UNITS_OF_LOOK = 4
_UNITS_OF_ACTIVATION = 150
_DOTS_OF_IMPORTS_MAX = 80_000  # in their subjects, there and here
# How much is told of what is wrong; there may be one mistake for every few bytes of a JWT.
_TOLD_MAX = 65_536
_CURVE = "X"
_RESPONSE_TYPES = ("", "Singleton", "Stream", "Chunked")
_LIMITS_OF_VERSION_1 = (
    "subs", "data", "payload", "imports", "exports", "wildcards", "conn", "leaf",
)  # fmt: skip


# Anything below zero is no limit.
_Maximum = Annotated[ClaimInteger, AfterValidator(lambda given: max(given, -1))]


class StorageLimits(Claims):
    """What an account may store, alone or in one tier."""

    mem_storage: ClaimInteger = 0
    disk_storage: ClaimInteger = 0
    streams: ClaimInteger = 0
    consumer: ClaimInteger = 0
    max_ack_pending: _Maximum = 0
    mem_max_stream_bytes: _Maximum = 0
    disk_max_stream_bytes: _Maximum = 0
    max_bytes_required: ClaimFlag = False

    @property
    def allows_any(self) -> bool:
        """Tell whether anything may be stored."""
        return bool(self.mem_storage or self.disk_storage)


class AccountLimitClaims(StorageLimits):
    """All limits of an account.

    Attributes:
        tiered_limits: what it may store in streams with so many replicas, by `R1`, `R3`; instead of
            the overall limits.
    """

    subs: ClaimLimit = 0
    data: ClaimInteger = 0
    payload: ClaimLimit = 0
    imports: ClaimInteger = 0
    exports: ClaimInteger = 0
    wildcards: ClaimFlag = False
    disallow_bearer: ClaimFlag = False
    conn: ClaimLimit = 0
    leaf: ClaimInteger = 0
    tiered_limits: Annotated[
        Mapping[str, StorageLimits], BeforeValidator(lambda given: by_name(dict, {}, given))
    ] = Field(default_factory=dict)

    @property
    def has_jetstream(self) -> bool:
        """Tell whether the account may store anything."""
        if self.tiered_limits:
            return any(tier.allows_any for tier in self.tiered_limits.values())
        return self.allows_any

    def problems(self) -> Iterator[str]:
        """Yield what is inconsistent."""
        if "" in self.tiered_limits:
            yield 'Tiered JetStream Limits can not contain a blank "" tier name'


class LatencyClaims(Claims):
    """How many answers of a service are timed, in percent or by `headers`, and who is told."""

    sampling: ClaimInteger | Annotated[str, Field(pattern="^(?i:headers)$")] = 0
    results: str = ""

    def problems(self) -> Iterator[str]:
        """Yield what is inconsistent."""
        if isinstance(self.sampling, int) and not 0 <= self.sampling <= 100:
            yield "sampling percentage needs to be between 1-100"
        yield from subject_problems(self.results)
        if is_wild(self.results):
            yield "results subject can not contain wildcards"


class _Null:
    """In place of what a link claims: there is a null in the list."""


class _LinkClaims(Claims):
    """An export or an import.

    Attributes:
        type: `stream` or `service`; empty if it is not said, `null` where there is a null.
    """

    name: str = ""
    subject: str = ""
    type: str = ""
    allow_trace: ClaimFlag = False

    @model_validator(mode="before")
    @classmethod
    def _told(cls, given: Any) -> Any:
        if given is None:
            return {"type": _Null()}
        if isinstance(given, dict) and any(
            value is None and name.lower() == "type" for name, value in given.items()
        ):
            return {"type": ""}  # which refuses it
        return told(cls, given)

    @field_validator("type", mode="before")
    @classmethod
    def _of_a_kind(cls, given: Any) -> Any:
        if isinstance(given, _Null):
            return _NULL
        if isinstance(given, str) and given not in (_STREAM, _SERVICE):
            raise ValueError(f"unknown export type {quoted(given)}")
        return given


class ExportClaims(_LinkClaims):
    """What an account offers."""

    token_req: ClaimFlag = False
    revocations: ClaimCounts = Field(default_factory=dict)
    response_type: str = ""
    response_threshold: ClaimInteger = 0
    service_latency: LatencyClaims | None = None
    account_token_position: Annotated[int, Field(strict=True, ge=0, le=2**64 - 1)] = 0
    advertise: ClaimFlag = False
    description: str = ""
    info_url: str = ""

    def problems(self) -> Iterator[str]:
        """Yield what is inconsistent, as the genuine server says it."""
        if self.type == _NULL:
            yield "null export is not allowed"
            return
        is_service, given = self.type == _SERVICE, self.response_type
        if not self.type:
            yield 'invalid export type: "unknown"'
        if is_service and given not in _RESPONSE_TYPES:
            yield f"invalid response type for service: {quoted(given)}"
        if self.type == _STREAM and given:
            yield f"invalid response type for stream: {quoted(given)}"
        if self.type == _STREAM and self.allow_trace:
            yield "AllowTrace only valid for service export"
        if self.service_latency is not None:
            if not is_service:
                yield "latency tracking only permitted for services"
            yield from self.service_latency.problems()
        if self.response_threshold < 0:
            yield "negative response threshold is invalid"
        if self.response_threshold > 0 and not is_service:
            yield "response threshold only valid for services"
        yield from subject_problems(self.subject)
        if position := self.account_token_position:
            yield from self._position_problems(position)
        yield from _info_problems(self.description, self.info_url)

    def _position_problems(self, position: int) -> Iterator[str]:
        tokens = self.subject.split(".")
        if not is_wild(self.subject):
            text = "Account Token Position can only be used with wildcard subjects"
            yield f"{text}: {self.subject}"
        elif position > len(tokens):
            yield f"Account Token Position {position} exceeds length of subject '{self.subject}'"
        elif (token := tokens[position - 1]) != "*":
            text = f"Account Token Position {position} matches '{token}' but must match a * in"
            yield f"{text}: {self.subject}"


class ImportClaims(_LinkClaims):
    """What an account takes from another one."""

    account: str = ""
    token: str = ""
    to: str = ""
    local_subject: str = ""
    share: ClaimFlag = False

    @property
    def here(self) -> str:
        """The subject under which it is known here, with wildcards in place of references."""
        return self.to or unreferred(self.local_subject) or self.subject

    def problems(self, importer: str) -> Iterator[str]:
        """Yield what is inconsistent, as the genuine server says it.

        Args:
            importer: the account that imports.
        """
        if self.type == _NULL:
            yield "null import is not allowed"
            return
        is_service = self.type == _SERVICE
        if not self.type:
            yield 'invalid import type: "unknown"'
        if self.allow_trace and is_service:
            yield "AllowTrace only valid for stream import"
        if not self.account:
            yield "account to import from is not specified"
        yield from subject_problems(self.subject)
        if self.local_subject:
            yield from renaming_problems(self.local_subject, self.subject)
            if self.to:
                yield "Local Subject replaces To"
        if self.share and not is_service:
            text = "sharing information (for latency tracking) is only valid for services"
            yield f"{text}: {quoted(self.subject)}"
        if self.token:
            yield from self._activation_problems(importer)

    def _activation_problems(self, importer: str) -> Iterator[str]:
        subject = quoted(self.subject)
        try:
            given = ActivationClaims.read(self.token)
        except ClaimsError:
            yield f"import {subject} contains an invalid activation token"
            return
        allowed = given.nats
        if self.account not in (given.issuer, allowed.issuer_account):
            yield f"activation token doesn't match account for import {subject}"
        if given.subject != importer:
            yield f"activation token doesn't match account it is being included in, {subject}"
        if allowed.kind != self.type:
            kind = allowed.kind or "unknown"
            yield f"mismatch between token import type {kind} and type of import {self.type}"
        yield from allowed.problems()
        wanted = (self.to if self.type == _SERVICE else "") or self.subject
        if not is_contained(wanted, allowed.subject):
            what = quoted(allowed.subject)
            yield f"activation token import subject {what} doesn't match import {subject}"


class MappingClaims(Claims):
    """Where a mapped subject goes, and in what percentage of cases."""

    subject: str = ""
    weight: Annotated[int, Field(strict=True, ge=0, le=255)] = 0
    cluster: str = ""


class TraceClaims(Claims):
    """Where traces of sampled messages go, and the percentage of messages traced; 0 for all."""

    dest: str = ""
    sampling: ClaimInteger = 0

    def problems(self) -> Iterator[str]:
        """Yield what is inconsistent, as the genuine server says it."""
        whose = "the account Trace.Destination"
        for each in islice(subject_problems(self.dest), 1):
            yield f"{whose} {each}"
        if is_wild(self.dest):
            yield f"{whose} subject {quoted(self.dest)} is not a valid publish subject"
        if not 0 <= self.sampling <= 100:
            text = f"the account Trace.Sampling value '{self.sampling}' is not valid"
            yield f"{text}, should be in the range [1..100]"


class CalloutClaims(Claims):
    """Who may answer for the users of an account, and of which other accounts; the server does not
    ask them."""

    auth_users: ClaimTexts = ()
    allowed_accounts: ClaimTexts = ()
    xkey: str = ""

    def problems(self) -> Iterator[str]:
        """Yield what is inconsistent, as the genuine server says it, and an empty text after each
        key."""
        allowed = self.allowed_accounts
        if allowed and not self.auth_users:
            yield "External authorization cannot have accounts without users specified"
        for key in self.auth_users:
            if not nkey.is_public_key(key, nkey.USER):
                yield f"AuthUser {quoted(key)} is not a valid user public key"
            yield ""
        for key in allowed:
            if key == _ANYBODY and len(allowed) > 1:
                yield 'AllowedAccounts can only be a list of accounts or "*"'
            elif key != _ANYBODY and not nkey.is_public_key(key, nkey.ACCOUNT):
                yield f"Account {quoted(key)} is not a valid account public key"
            yield ""
        if self.xkey and not nkey.is_public_key(self.xkey, _CURVE):
            yield f"XKey {quoted(self.xkey)} is not a valid public xkey"


class UserScope(Claims):
    """What the users may do whose JWTs were signed with one signing key."""

    kind: str
    key: str = ""
    role: str = ""
    description: str = ""
    template: UserGrants = UserGrants()


def _listed(given: Any) -> Any:
    return by_name(list, [], given)


class _AccountBody(Claims):
    imports: ClaimList[ImportClaims] = ()
    exports: ClaimList[ExportClaims] = ()
    limits: AccountLimitClaims = AccountLimitClaims()
    signing_keys: Mapping[str, UserScope | None] = {}
    revocations: ClaimCounts = Field(default_factory=dict)
    default_permissions: PermissionClaims = PermissionClaims()
    mappings: Annotated[Mapping[str, ClaimList[MappingClaims]], BeforeValidator(_listed)] = {}
    tags: ClaimTexts = ()
    trace: TraceClaims | None = None
    description: str = ""
    info_url: str = ""
    cluster_traffic: str = ""
    authorization: CalloutClaims = CalloutClaims()

    @field_validator("signing_keys", mode="before")
    @classmethod
    def _by_key(cls, given: Any) -> Any:
        """Keys come alone, or with a scope; anything else means nothing."""
        if not isinstance(given, list):
            text = f"json: cannot unmarshal {kind_of(given)} into Go value of type []interface {{}}"
            raise ValueError(text)
        keys: dict[str, Any] = {}
        for each in given:
            if isinstance(each, str):
                keys[each] = None
            elif isinstance(each, dict):
                if each.get("kind") != _SCOPE:
                    raise ValueError("unknown signing key scope %!q(<nil>)")
                key = next((each[name] for name in each if name.lower() == "key"), "")
                keys[key if isinstance(key, str) else ""] = each
        return keys


class AccountClaims(SignedClaims):
    """The JWT of an account."""

    KIND = "account"
    SUBJECT = nkey.ACCOUNT
    ISSUERS = (nkey.OPERATOR, nkey.ACCOUNT)
    NOT_IN_VERSION_1 = ("default_permissions",)

    nats: _AccountBody

    @classmethod
    def _modern(cls, body: dict[str, Any]) -> dict[str, Any]:
        """Return claims of version 1, which knows nothing of JetStream."""
        modern = super()._modern(body)
        limits = modern["nats"].get("limits")
        if isinstance(limits, dict):
            kept = {key: value for key, value in limits.items() if key in _LIMITS_OF_VERSION_1}
            modern["nats"]["limits"] = kept
        return modern

    def problem(self) -> str:
        """Return every mistake in it, or very many of them, empty for none."""
        looking = self.look()
        while True:
            try:
                next(looking)
            except StopIteration as end:
                return str(end.value)

    def look(self) -> Generator[int, None, str]:
        """Return the same; give after each thing that was looked at what that took, in units of
        some microseconds."""
        told: list[str] = []
        size = 0
        for each in self._problems():
            if isinstance(each, int):
                yield each
            elif not each:
                yield _UNITS_OF_LOOK
            else:
                told.append(each)
                size += len(each)
                if size > _TOLD_MAX:
                    break
        return " ".join(told)

    def _problems(self) -> Iterator[str | int]:
        """Yield the mistakes, and after each thing that was looked at what that took, or an empty
        text if it was the usual."""
        nats = self.nats
        many = len(nats.authorization.auth_users) + len(nats.authorization.allowed_accounts)
        if many + len(nats.signing_keys) > _KEYS_MAX:
            yield f"the account claims more than {_KEYS_MAX} keys"
            return
        if sum(bool(each.token) for each in nats.imports) > _ACTIVATIONS_MAX:
            yield f"the account has more than {_ACTIVATIONS_MAX} activations"
            return
        yield from self._import_problems()
        yield from _export_problems(nats.exports)
        yield from nats.limits.problems()
        yield from nats.default_permissions.looked_at()
        for source, destinations in nats.mappings.items():
            yield from _mapping_problems(source, destinations)
            yield ""
        yield from nats.authorization.problems()
        if nats.trace is not None:
            yield from nats.trace.problems()
        yield from self._number_problems()
        for key, scope in nats.signing_keys.items():
            if not nkey.is_public_key(key, nkey.ACCOUNT):
                yield (
                    f"{quoted(key)} is not a valid account signing key"
                    if scope is None
                    else f"{key} is not an account public key"
                )
            yield ""
        yield from _info_problems(nats.description, nats.info_url)
        if nats.cluster_traffic not in _TRAFFIC:
            yield f"unknown cluster traffic option: {quoted(nats.cluster_traffic)}"

    def _import_problems(self) -> Iterator[str | int]:
        overlaps = ImportOverlaps()
        dots = 0
        for each in self.nats.imports:
            dots += each.subject.count(".") + each.here.count(".")
            if dots > _DOTS_OF_IMPORTS_MAX:
                yield "the imports have more subjects than can be compared"
                return
            if each.type == _SERVICE:
                yield from overlaps.add(each.account, each.here)
            yield from each.problems(self.subject)
            yield _UNITS_OF_ACTIVATION if each.token else ""

    def _number_problems(self) -> Iterator[str]:
        """Yield of what there is more than the operator allows."""
        nats, limits = self.nats, self.nats.limits
        if limits.imports != _NO_LIMIT and len(nats.imports) > limits.imports:
            text = "the account contains more imports than allowed by the operator"
            yield from [text] * (1 if limits.imports < 0 else 2)  # said twice
        if limits.exports == _NO_LIMIT:
            return
        if len(nats.exports) > limits.exports:
            yield "the account contains more exports than allowed by the operator"
        for each in nats.exports:
            if not limits.wildcards and is_wild(each.subject):
                yield "the account contains wildcard exports that are not allowed by the operator"

    def has_revoked(self, user: UserClaims) -> bool:
        """Tell whether a user's JWT was issued before the time up to which that user's JWTs are
        revoked."""
        return _is_revoked(self.nats.revocations, user.subject, user.issued_at)

    def has_signed(self, user: UserClaims) -> bool:
        """Tell whether a user's JWT was signed with a key of this account."""
        return user.issuer == self.subject or user.issuer in self.nats.signing_keys


class _Activation(Claims):
    subject: str = ""
    kind: str = ""
    issuer_account: str = ""

    @field_validator("kind", mode="before")
    @classmethod
    def _of_a_kind(cls, given: Any) -> Any:
        if given not in (_STREAM, _SERVICE):
            raise ValueError("unknown export type")
        return given

    def problems(self) -> Iterator[str]:
        """Yield what is inconsistent, as the genuine server says it."""
        if not self.kind:
            yield 'invalid import type: "unknown"'
        yield from subject_problems(self.subject)
        if self.issuer_account and not nkey.is_public_key(self.issuer_account, nkey.ACCOUNT):
            yield "account_id is not an account public key"


class ActivationClaims(SignedClaims):
    """The JWT with which an account lets another import something."""

    KIND = "activation"
    SUBJECT = ""
    ISSUERS = (nkey.ACCOUNT, nkey.OPERATOR)

    nats: _Activation

    @classmethod
    def _modern(cls, body: dict[str, Any]) -> dict[str, Any]:
        """Return claims of version 1, where the kind of an import is called its type."""
        modern = super()._modern(body)
        if "type" in modern["nats"]:
            modern["nats"]["kind"] = modern["nats"]["type"]
        return modern

    def lets(self, importer: str, exporter: AccountClaims, export: ExportClaims) -> bool:
        """Tell whether an account may import what another one exports."""
        nats = self.nats
        is_signed = self.issuer == exporter.subject or (
            nats.issuer_account == exporter.subject and self.issuer in exporter.nats.signing_keys
        )
        return (
            is_signed
            and self.subject == importer
            and nats.kind == export.type
            and not _is_revoked(export.revocations, importer, self.issued_at)
        )


def _export_problems(exports: Sequence[ExportClaims]) -> Iterator[str]:
    for each in exports:
        yield from each.problems()
        yield ""
    services = [each.subject for each in exports if each.type == _SERVICE]
    streams = [each.subject for each in exports if each.type not in (_SERVICE, _NULL)]
    yield from export_overlaps(_SERVICE, services)
    yield ""
    yield from export_overlaps(_STREAM, streams)
    yield ""


def _mapping_problems(source: str, destinations: Sequence[MappingClaims]) -> Iterator[str]:
    yield from subject_problems(source)
    wanted, in_clusters = 0, Counter[str]()
    told = f"Mapping {quoted(source)}"
    for each in destinations:
        yield from subject_problems(each.subject)
        if each.weight > 100:
            yield f"{told} has a weight {each.weight} that exceeds 100"
        weight = each.weight or 100
        if not each.cluster:
            wanted += weight
            continue
        in_clusters[each.cluster] += weight
        if in_clusters[each.cluster] > 100:
            text = f"{told} in cluster {quoted(each.cluster)} exceeds 100%"
            yield f"{text} among all of it's weighted to mappings"
    if wanted > 100:
        yield f"{told} exceeds 100% among all of it's weighted to mappings"


def _info_problems(description: str, info_url: str) -> Iterator[str]:
    """Yield what is wrong with what is told to people."""
    if len(description.encode(errors="replace")) > _TEXT_BYTES_MAX:
        yield "Description is too long"
    if len(info_url.encode(errors="replace")) > _TEXT_BYTES_MAX:
        yield "Info URL is too long"
    if info_url and (problem := url_problem(info_url)):
        yield f"error parsing info url: {problem}"


def _is_revoked(revocations: Mapping[str, int], key: str, issued_at: int) -> bool:
    return any(issued_at <= revocations[who] for who in (key, _ANYBODY) if who in revocations)
