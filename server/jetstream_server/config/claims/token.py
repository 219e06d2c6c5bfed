"""A JWT in the form that NATS uses: it is read, and its signature checked against the issuer it
names.

Others decide whether that issuer may be trusted, and whether the claims are valid now; until then
only their types are checked. The signature of version 2 covers the header, that of version 1 does
not, and what version 1 has elsewhere is put where version 2 has it. How versions, algorithms and
signatures go together was probed with the genuine server 2.15.1 (docs/reference/accounts.md#jwts).
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Self, TypeVar

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    ValidationError,
    model_validator,
)

from jetstream_server.base import nkey
from jetstream_server.config.claims.misfits import misfit

_ALGORITHMS = ("ed25519-nkey", "ed25519")
_DECORATED = re.compile(r"\s*-{3,}[^\n-]*JWT-{3,}\s*\n(?P<token>\S+)\s*\n")
# To look at an account's JWT takes up to twenty microseconds for each object, list and null in it,
# and everybody waits meanwhile.
_OBJECTS_MAX = 2_500
_VALUES_MAX = 25_000
_CHARACTERS_MAX = 1_500_000
# What steps take, in units of some microseconds.
_CHARACTERS_OF_UNIT = 200
_UNITS_OF_OBJECT = 2
_TOO_MUCH = "it claims more than can be looked at in one turn"

# What is nested more deeply could not be shown again, inside an answer.
_DEPTH_LEFT = 50
# Beside the claims of a JWT: `type`, `tags` and `issuer_account` in version 1 alone.
_OUTER = {name: name for name in ("nats", "type", "tags", "issuer_account")}

Claimed = TypeVar("Claimed")


def _texts(given: Any) -> Any:
    """Return a list of texts, in which `null` is an empty one."""
    if isinstance(given, list) and None in given:
        return ["" if each is None else each for each in given]
    return given


def by_name(kind: type, zero: Any, given: Any) -> Any:
    """Return what is claimed by names, `zero` for `null`; one alone that does not fit refuses all,
    of which there may be very many.

    Args:
        kind: the type of what is claimed.
        zero: what `null` stands for.
        given: the JSON.
    """
    if not isinstance(given, dict):
        return given
    for name, each in given.items():
        if each is not None and type(each) is not kind:
            return {name: each}
    if None in given.values():
        return {name: zero if each is None else each for name, each in given.items()}
    return given


# Any other number that JSON can write is refused, as it is by Go's reader for 64 bits.
ClaimInteger = Annotated[int, Field(strict=True, ge=-(2**63), le=2**63 - 1)]
# -1 stands for none; anything below lets nothing through.
ClaimLimit = Annotated[ClaimInteger, AfterValidator(lambda given: given if given >= -1 else 0)]
ClaimFlag = Annotated[bool, Field(strict=True)]
ClaimList = Annotated[tuple[Claimed, ...], FailFast()]
ClaimTexts = Annotated[tuple[str, ...], FailFast(), BeforeValidator(_texts)]
ClaimCounts = Annotated[
    Mapping[str, ClaimInteger], BeforeValidator(lambda given: by_name(int, 0, given))
]


class ClaimsError(ValueError):
    """A JWT that cannot be relied on."""


class Claims(BaseModel):
    """Something claimed; `null` is the same as left out, names count in whatever case, and unknown
    ones mean nothing."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _told(cls, given: Any) -> Any:
        return told(cls, given)


class SignedClaims(Claims):
    """A whole JWT; subclasses say what is claimed in `nats`.

    Attributes:
        KIND: what `nats.type` has to be.
        SUBJECT: a kind of keys, empty for any text.
        ISSUERS: kinds of keys.
        NOT_IN_VERSION_1: fields of `nats` that mean nothing in a JWT of version 1.
        DEFAULTS_OF_VERSION_1: what a JWT of version 1 means by leaving a field out.
        token: the JWT itself.
        issued_at, expires_at, not_before: seconds since 1970; 0 for not given.
    """

    KIND: ClassVar[str]
    SUBJECT: ClassVar[str]
    ISSUERS: ClassVar[tuple[str, ...]]
    NOT_IN_VERSION_1: ClassVar[tuple[str, ...]] = ("issuer_account",)
    DEFAULTS_OF_VERSION_1: ClassVar[dict[str, Any]] = {}

    token: str = Field(default="", repr=False)
    subject: str = Field(default="", alias="sub")
    issuer: str = Field(default="", alias="iss")
    name: str = ""
    identifier: str = Field(default="", alias="jti")
    audience: str = Field(default="", alias="aud")
    issued_at: ClaimInteger = Field(default=0, alias="iat")
    expires_at: ClaimInteger = Field(default=0, alias="exp")
    not_before: ClaimInteger = Field(default=0, alias="nbf")

    @classmethod
    def read(cls, text: str) -> Self:
        """Read a JWT that its issuer has signed.

        Raises:
            ClaimsError: it is not a JWT, is of another kind, or is not signed by the issuer it
                names.
        """
        reading = cls.read_in_steps(text)
        while True:
            try:
                next(reading)
            except StopIteration as end:
                claims: Self = end.value
                return claims

    @classmethod
    def read_in_steps(cls, text: str) -> Generator[int, None, Self]:
        """Do the same in steps; give after each what it took, in units of some microseconds.

        Raises:
            ClaimsError: as `read`.
        """
        if len(text) > _CHARACTERS_MAX:
            raise ClaimsError(_TOO_MUCH)
        parts = text.strip().split(".")
        if len(parts) != 3:
            raise ClaimsError("expected 3 chunks")
        try:
            header, body = (nkey.decoded(part) for part in parts[:2])
            objects = sum(map(body.count, (b"{", b"[", b"null")))
            if objects > _OBJECTS_MAX or body.count(b",") > _VALUES_MAX:
                raise ClaimsError(_TOO_MUCH)
            fields = _unnested(orjson.loads(body))
            if isinstance(fields, dict):
                fields = _named(fields, _OUTER | _names(cls))
            version = cls._version(orjson.loads(header), fields)
        except ClaimsError:
            raise
        except ValueError:
            raise ClaimsError("a chunk is no JSON in base64") from None
        signed = ".".join(parts[:2])
        if version == 1:
            signed, fields = parts[1], cls._modern(fields)
        yield len(text) // _CHARACTERS_OF_UNIT
        try:
            claims = cls.model_validate(fields)
        except ValidationError as error:
            raise ClaimsError(misfit(error.errors(include_url=False)[0], cls.__name__)) from None
        yield objects * _UNITS_OF_OBJECT
        if cls.SUBJECT and not nkey.is_public_key(claims.subject, cls.SUBJECT):
            raise ClaimsError(f"the subject is no public key of an {cls.KIND}")
        if not nkey.is_public_key(claims.issuer, *cls.ISSUERS):
            raise ClaimsError("the issuer has no public key of a kind that may sign this")
        if not nkey.is_signed(claims.issuer, parts[2], signed.encode()):
            raise ClaimsError(f"claim failed V{version} signature verification")
        return claims.model_copy(update={"token": text.strip()})

    def decoded(self) -> dict[str, Any]:
        """Return all that is claimed, as it was written."""
        body: dict[str, Any] = orjson.loads(nkey.decoded(self.token.split(".")[1]))
        return body

    @classmethod
    def _version(cls, header: Any, body: Any) -> int:
        """Return the version of a JWT of this kind, 1 or 2.

        Raises:
            ClaimsError: it is of another kind or version.
        """
        if not isinstance(header, dict) or not isinstance(body, dict):
            raise ClaimsError("a chunk is no JSON object")
        typ, algorithm = (_said(_member(header, name)) for name in ("typ", "alg"))
        if typ.upper() != "JWT":
            raise ClaimsError(f'not supported type "{typ}"')
        if algorithm.lower() not in _ALGORITHMS:
            raise ClaimsError(f'not supported algorithm "{algorithm}"')
        nats = body.get("nats")
        if not isinstance(nats, dict):
            raise ClaimsError(f"not {cls.KIND} claim")
        # Only version 1 has its kind next to the claims.
        kind, version = _member(nats, "type"), _member(nats, "version")
        if body.get("type"):
            kind, version = body["type"], 1
        if kind != cls.KIND:
            raise ClaimsError(f"not {cls.KIND} claim")
        if version not in (1, 2) or isinstance(version, bool | float):
            if type(version) is int and version > 2:
                raise ClaimsError("JWT was generated by a newer version ")
            text = "library supports version 2 or less - received"
            raise ClaimsError(f"{text} {_said(version or 0)}")
        return int(version)

    @classmethod
    def _modern(cls, body: dict[str, Any]) -> dict[str, Any]:
        """Return claims of version 1 as version 2 has them."""
        moved = {name: body[name] for name in ("tags", "issuer_account") if name in body}
        named = _named(body["nats"], {name: name for name in cls.NOT_IN_VERSION_1})
        own = {key: value for key, value in named.items() if key not in cls.NOT_IN_VERSION_1}
        return body | {"nats": cls.DEFAULTS_OF_VERSION_1 | own | moved}

    def is_current(self, now_s: int) -> bool:
        """Tell whether the time lies in the period for which it was issued."""
        return not (self.has_expired(now_s) or now_s < self.not_before)

    def has_expired(self, now_s: int) -> bool:
        """Tell whether the time for which it was issued is over; a time before 1970 always is."""
        return self.expires_at != 0 and self.expires_at < now_s


def told(claims: type[Claims], given: Any) -> Any:
    """Return the JSON of claims as it is meant: without nulls, and by the names of their fields."""
    if given is None:
        return {}
    return _named(given, _names(claims)) if isinstance(given, dict) else given


def _unnested(fields: Any) -> Any:
    """Return the claims, if they are not nested too deeply.

    Raises:
        ClaimsError: they are.
    """
    inside = fields
    for _ in range(_DEPTH_LEFT):
        inside = [inside]
    try:
        orjson.dumps(inside)
    except orjson.JSONEncodeError:
        raise ClaimsError("what is claimed is nested too deeply") from None
    return fields


def _named(given: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return members by these names, in whatever case theirs are, without those that are `null`."""
    return {
        names.get(key) or names.get(key.lower(), key): value
        for key, value in given.items()
        if value is not None
    }


@cache
def _names(claims: type[Claims]) -> dict[str, str]:
    """Return what members are called in JSON, by the same in small letters."""
    fields = claims.model_fields.items()
    return {field.alias or name: field.alias or name for name, field in fields}


def _member(given: Mapping[str, Any], name: str) -> Any:
    return _named(given, {name: name}).get(name)


def _said(value: Any) -> str:
    """Return a value as text; what is nested may be so deeply that it has none."""
    return str(value) if not isinstance(value, dict | list) else "that is no value"


def undecorated(text: str) -> str:
    """Return the JWT of a file, which may stand between lines that say what it is."""
    found = _DECORATED.match(text)
    return (found["token"] if found else text).strip()
