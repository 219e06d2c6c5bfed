"""What an account claims: its limits, its signing keys, what it exports and imports.

A limit of -1 means none; one that is not given is 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from jetstream_server.base import nkey
from jetstream_server.config.claims.token import ClaimInteger, Claims, SignedClaims
from jetstream_server.config.claims.user_claims import PermissionClaims, UserClaims, UserGrants
from jetstream_server.config.values import is_subject

_ANYBODY = "*"
_KINDS = Literal["stream", "service"]
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

    def problems(self) -> Iterator[str]:
        """Yield what is inconsistent, as the genuine server says it."""
        is_service, given = self.type == "service", self.response_type
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


class MappingClaims(Claims):
    """Where a mapped subject goes, and in what percentage of cases."""

    subject: str
    weight: Annotated[int, Field(strict=True, ge=0, le=255)] = 0
    cluster: str = ""


class TraceClaims(Claims):
    """Where traces of sampled messages go, and the percentage of messages traced; 0 for all."""

    dest: str = ""
    sampling: ClaimInteger = 0


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
        for subject in [each.subject for each in nats.exports] + [
            each.subject for each in nats.imports
        ]:
            if not is_subject(subject):
                yield f'subject "{subject}" of an export or import is not valid'
        for export in nats.exports:
            yield from export.problems()
        for each in nats.imports:
            if not nkey.is_public_key(each.account, nkey.ACCOUNT):
                yield f'import "{each.name}" is of no account'
        if bad := nats.default_permissions.bad_subject():
            yield f"default permissions: {bad}"
        for source, destinations in nats.mappings.items():
            wanted = sum([each.weight or 100 for each in destinations if not each.cluster])
            if not is_subject(source) or wanted > 100:
                yield f'Mapping "{source}" is no subject, or exceeds 100%'
        for key, scope in nats.signing_keys.items():
            if not nkey.is_public_key(key, nkey.ACCOUNT):
                yield f"{key} is not an account public key"
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


def _is_wild(subject: str) -> bool:
    return "*" in subject or ">" in subject


def _is_revoked(revocations: Mapping[str, int], key: str, issued_at: int) -> bool:
    return any(issued_at <= revocations[who] for who in (key, _ANYBODY) if who in revocations)
