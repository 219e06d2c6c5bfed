"""What an account claims: its limits, its signing keys, what it exports and imports.

A limit of -1 means none; one that is not given is 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from jetstream_server.base import nkey
from jetstream_server.config.claims.token import (
    ClaimInteger,
    Claims,
    ClaimsError,
    SignedClaims,
)
from jetstream_server.config.claims.user_claims import PermissionClaims, UserClaims, UserGrants
from jetstream_server.config.values import is_subject

_ANYBODY = "*"
_KINDS = Literal["stream", "service"]
_TRAFFIC = ("", "system", "owner")
_DESCRIPTION_BYTES_MAX = 8192
_REFERENCE = re.compile(r"\$([0-9]{1,9})")
_RESPONSE_TYPES = ("", "Singleton", "Stream", "Chunked")
_LIMITS_OF_VERSION_1 = (
    "subs", "data", "payload", "imports", "exports", "wildcards", "conn", "leaf",
)  # fmt: skip


class StorageLimits(Claims):
    """What an account may store, alone or in one tier."""

    mem_storage: ClaimInteger = 0
    disk_storage: ClaimInteger = 0
    streams: ClaimInteger = 0
    consumer: ClaimInteger = 0
    max_ack_pending: ClaimInteger = 0
    mem_max_stream_bytes: ClaimInteger = 0
    disk_max_stream_bytes: ClaimInteger = 0
    max_bytes_required: bool = False

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

    subs: ClaimInteger = 0
    data: ClaimInteger = 0
    payload: ClaimInteger = 0
    imports: ClaimInteger = 0
    exports: ClaimInteger = 0
    wildcards: bool = False
    disallow_bearer: bool = False
    conn: ClaimInteger = 0
    leaf: ClaimInteger = 0
    tiered_limits: Mapping[str, StorageLimits] = {}

    @property
    def has_jetstream(self) -> bool:
        """Tell whether the account may store anything."""
        if self.tiered_limits:
            return any(tier.allows_any for tier in self.tiered_limits.values())
        return self.allows_any

    def problems(self) -> Iterator[str]:
        """Yield what is inconsistent."""
        if not self.tiered_limits:
            return
        if "" in self.tiered_limits:
            yield 'Tiered JetStream Limits can not contain a blank "" tier name'
        empty = StorageLimits()
        if any(getattr(self, name) != getattr(empty, name) for name in StorageLimits.model_fields):
            yield "JetStream Limits and tiered JetStream Limits are mutually exclusive"


class LatencyClaims(Claims):
    """How many answers of a service are timed, in percent or by `headers`, and who is told."""

    sampling: ClaimInteger | Annotated[str, Field(pattern="^(?i:headers)$")] = 0
    results: str = ""

    def problems(self) -> Iterator[str]:
        """Yield what is inconsistent."""
        if isinstance(self.sampling, int) and not 0 <= self.sampling <= 100:
            yield "sampling percentage needs to be between 1-100"
        yield from _subject_problems(self.results)
        if _is_wild(self.results):
            yield "results subject can not contain wildcards"


class ExportClaims(Claims):
    """What an account offers."""

    name: str = ""
    subject: str = ""
    type: _KINDS
    token_req: bool = False
    revocations: Mapping[str, ClaimInteger] = {}
    response_type: str = ""
    response_threshold: ClaimInteger = 0
    service_latency: LatencyClaims | None = None
    account_token_position: Annotated[ClaimInteger, Field(ge=0)] = 0
    allow_trace: bool = False
    description: str = ""

    def problems(self) -> Iterator[str]:
        """Yield what is inconsistent, as the genuine server says it."""
        is_service, given = self.type == "service", self.response_type
        yield from _subject_problems(self.subject)
        yield from _length_problems(self.description)
        if given not in (_RESPONSE_TYPES if is_service else ("",)):
            yield f'invalid response type for {self.type}: "{given}"'
        if self.allow_trace and not is_service:
            yield "AllowTrace only valid for service export"
        if self.service_latency is not None:
            if not is_service:
                yield "latency tracking only permitted for services"
            yield from self.service_latency.problems()
        if self.response_threshold < 0:
            yield "negative response threshold is invalid"
        if self.response_threshold > 0 and not is_service:
            yield "response threshold only valid for services"
        if position := self.account_token_position:
            yield from self._position_problems(position)

    def _position_problems(self, position: int) -> Iterator[str]:
        tokens = self.subject.split(".")
        if not _is_wild(self.subject):
            text = "Account Token Position can only be used with wildcard subjects"
            yield f"{text}: {self.subject}"
        elif position > len(tokens):
            yield f"Account Token Position {position} exceeds length of subject '{self.subject}'"
        elif (token := tokens[position - 1]) != "*":
            text = f"Account Token Position {position} matches '{token}' but must match a * in"
            yield f"{text}: {self.subject}"


class ImportClaims(Claims):
    """What an account takes from another one."""

    name: str = ""
    subject: str = ""
    account: str = ""
    token: str = ""
    to: str = ""
    local_subject: str = ""
    type: _KINDS
    share: bool = False
    allow_trace: bool = False

    def problems(self) -> Iterator[str]:
        """Yield what is inconsistent, as the genuine server says it."""
        is_service = self.type == "service"
        if not self.account:
            yield "account to import from is not specified"
        elif not nkey.is_public_key(self.account, nkey.ACCOUNT):
            yield f'import "{self.name}" is of no account'
        yield from _subject_problems(self.subject)
        if self.local_subject:
            yield from _renaming_problems(self.local_subject, self.subject)
            if self.to:
                yield "Local Subject replaces To"
        if self.share and not is_service:
            text = "sharing information (for latency tracking) is only valid for services"
            yield f'{text}: "{self.subject}"'
        if self.allow_trace and is_service:
            yield "AllowTrace only valid for stream import"
        if self.token and not _is_activation(self.token):
            yield f'import "{self.subject}" contains an invalid activation token'


class MappingClaims(Claims):
    """Where a mapped subject goes, and in what percentage of cases."""

    subject: str
    weight: Annotated[int, Field(strict=True, ge=0, le=255)] = 0
    cluster: str = ""


class TraceClaims(Claims):
    """Where traces of sampled messages go, and the percentage of messages traced; 0 for all."""

    dest: str = ""
    sampling: ClaimInteger = 0

    def problems(self) -> Iterator[str]:
        """Yield what is inconsistent, as the genuine server says it."""
        whose = "the account Trace.Destination"
        for each in _subject_problems(self.dest):
            yield f"{whose} {each}"
        if _is_wild(self.dest):
            yield f'{whose} subject "{self.dest}" is not a valid publish subject'
        if not 0 <= self.sampling <= 100:
            text = f"the account Trace.Sampling value '{self.sampling}' is not valid"
            yield f"{text}, should be in the range [1..100]"


class CalloutClaims(Claims):
    """Who may answer for the users of an account, and of which other accounts; the server does not
    ask them."""

    auth_users: tuple[str, ...] = ()
    allowed_accounts: tuple[str, ...] = ()

    def problems(self) -> Iterator[str]:
        """Yield what is inconsistent, as the genuine server says it."""
        if self.allowed_accounts and not self.auth_users:
            yield "External authorization cannot have accounts without users specified"
        for key in self.auth_users:
            if not nkey.is_public_key(key, nkey.USER):
                yield f'AuthUser "{key}" is not a valid user public key'


class UserScope(Claims):
    """What the users may do whose JWTs were signed with one signing key."""

    kind: str
    key: str
    role: str = ""
    template: UserGrants = UserGrants()


class _AccountBody(Claims):
    imports: tuple[ImportClaims, ...] = ()
    exports: tuple[ExportClaims, ...] = ()
    limits: AccountLimitClaims = AccountLimitClaims()
    signing_keys: Mapping[str, UserScope | None] = {}
    revocations: Mapping[str, ClaimInteger] = {}
    default_permissions: PermissionClaims = PermissionClaims()
    mappings: Mapping[str, tuple[MappingClaims, ...]] = {}
    tags: tuple[str, ...] = ()
    trace: TraceClaims | None = None
    description: str = ""
    cluster_traffic: str = ""
    authorization: CalloutClaims = CalloutClaims()

    @field_validator("signing_keys", mode="before")
    @classmethod
    def _by_key(cls, given: Any) -> Any:
        """Keys come alone, or with a scope."""
        if not isinstance(given, list):
            raise ValueError("expected a list of keys")
        keys: dict[str, Any] = {}
        for each in given:
            if isinstance(each, str):
                keys[each] = None
            elif isinstance(each, dict) and isinstance(each.get("key"), str):
                keys[each["key"]] = each
            else:
                raise ValueError("expected a key, or a scope with one")
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
        """Return the first mistake in it, empty for none."""
        return next(self._problems(), "")

    def _problems(self) -> Iterator[str]:
        nats, limits = self.nats, self.nats.limits
        yield from limits.problems()
        if 0 <= limits.imports < len(nats.imports):
            yield "the account contains more imports than allowed by the operator"
        if 0 <= limits.exports < len(nats.exports):
            yield "the account contains more exports than allowed by the operator"
        is_wild = any(_is_wild(each.subject) for each in nats.exports)
        if limits.exports != -1 and not limits.wildcards and is_wild:
            yield "the account contains wildcard exports that are not allowed by the operator"
        for export in nats.exports:
            yield from export.problems()
        for each in nats.imports:
            yield from each.problems()
        if bad := nats.default_permissions.bad_subject():
            yield f"default permissions: {bad}"
        for source, destinations in nats.mappings.items():
            yield from _mapping_problems(source, destinations)
        if nats.trace is not None:
            yield from nats.trace.problems()
        yield from _length_problems(nats.description)
        if nats.cluster_traffic not in _TRAFFIC:
            yield f'unknown cluster traffic option: "{nats.cluster_traffic}"'
        yield from nats.authorization.problems()
        for key, scope in nats.signing_keys.items():
            if not nkey.is_public_key(key, nkey.ACCOUNT):
                yield f'"{key}" is not a valid account signing key'
            if scope is not None and scope.kind != "user_scope":
                yield f'signing key scope "{scope.kind}" is unknown'
            if scope is not None and (problem := scope.template.problem()):
                yield problem

    def has_revoked(self, user: UserClaims) -> bool:
        """Tell whether a user's JWT was issued before the time up to which that user's JWTs are
        revoked."""
        return _is_revoked(self.nats.revocations, user.subject, user.issued_at)

    def has_signed(self, user: UserClaims) -> bool:
        """Tell whether a user's JWT was signed with a key of this account."""
        return user.issuer == self.subject or user.issuer in self.nats.signing_keys


class _Activation(Claims):
    subject: str = ""
    kind: _KINDS
    issuer_account: str = ""


class ActivationClaims(SignedClaims):
    """The JWT with which an account lets another import something."""

    KIND = "activation"
    SUBJECT = nkey.ACCOUNT
    ISSUERS = (nkey.ACCOUNT, nkey.OPERATOR)

    nats: _Activation

    @classmethod
    def _modern(cls, body: dict[str, Any]) -> dict[str, Any]:
        """Return claims of version 1, where the kind of an import is called its type."""
        modern = super()._modern(body)
        modern["nats"]["kind"] = modern["nats"].get("type")
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


def _subject_problems(subject: str) -> Iterator[str]:
    """Yield why a text is no subject, as the genuine server says it."""
    if not subject:
        yield "subject cannot be empty"
    elif " " in subject:
        yield f'subject "{subject}" cannot have spaces'
    elif ".." in subject:
        yield f'subject "{subject}" cannot contain consecutive `.`'
    elif not is_subject(subject):
        yield f'subject "{subject}" is not valid'


def _renaming_problems(here: str, subject: str) -> Iterator[str]:
    """Yield why something cannot be known under another subject, which may refer to the wildcards
    of its own by `*` or by their numbers."""
    yield from _subject_problems(here)
    if (here.split(".")[-1] == ">") != (subject.split(".")[-1] == ">"):
        yield "both, renaming subject and subject, need to end or not end in >"
    wildcards, references = subject.split(".").count("*"), 0
    for token in here.split("."):
        number = _REFERENCE.fullmatch(token)
        if number is not None and int(number[1]) > wildcards:
            yield f'Reference ${number[1]} in "{here}" reference * in "{subject}" that do not exist'
        elif number is not None or token == "*":
            references += 1
    if references != wildcards:
        yield "subject does not contain enough * or reference wildcards $[0-9]"


def _mapping_problems(source: str, destinations: tuple[MappingClaims, ...]) -> Iterator[str]:
    yield from _subject_problems(source)
    wanted = 0
    for each in destinations:
        yield from _subject_problems(each.subject)
        if each.weight > 100:
            yield f'Mapping "{source}" has a weight {each.weight} that exceeds 100'
        wanted += 0 if each.cluster else each.weight or 100
    if wanted > 100:
        yield f'Mapping "{source}" exceeds 100% among all of it\'s weighted to mappings'


def _length_problems(description: str) -> Iterator[str]:
    if len(description.encode(errors="replace")) > _DESCRIPTION_BYTES_MAX:
        yield "Description is too long"


def _is_activation(token: str) -> bool:
    try:
        ActivationClaims.read(token)
    except ClaimsError:
        return False
    return True


def _is_wild(subject: str) -> bool:
    return "*" in subject or ">" in subject


def _is_revoked(revocations: Mapping[str, int], key: str, issued_at: int) -> bool:
    return any(issued_at <= revocations[who] for who in (key, _ANYBODY) if who in revocations)
