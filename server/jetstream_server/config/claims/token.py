"""A JWT in the form that NATS uses: it is read, and its signature checked against the issuer it
names.

Others decide whether that issuer may be trusted, and whether the claims are valid now; until then
only their types are checked. The signature of version 2 covers the header, that of version 1 does
not, and what version 1 has elsewhere is put where version 2 has it. How versions, algorithms and
signatures go together was probed with the genuine server 2.15.1 (docs/reference/accounts.md#jwts).
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Self

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from jetstream_server.base import nkey

_ALGORITHMS = ("ed25519-nkey", "ed25519")
_DECORATED = re.compile(r"\s*-{3,}[^\n-]*JWT-{3,}\s*\n(?P<token>\S+)\s*\n")


# Any other number that JSON can write is refused, as it is by Go's reader for 64 bits.
ClaimInteger = Annotated[int, Field(strict=True, ge=-(2**63), le=2**63 - 1)]


class ClaimsError(ValueError):
    """A JWT that cannot be relied on."""


class Claims(BaseModel):
    """Something claimed; `null` is the same as left out, and unknown fields mean nothing."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        if isinstance(given, dict):
            return {key: value for key, value in given.items() if value is not None}
        return given


class SignedClaims(Claims):
    """A whole JWT; subclasses say what is claimed in `nats`.

    Attributes:
        KIND: what `nats.type` has to be.
        SUBJECT, ISSUERS: kinds of keys.
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
        parts = text.strip().split(".")
        if len(parts) != 3:
            raise ClaimsError("expected 3 chunks")
        try:
            header, body = (nkey.decoded(part) for part in parts[:2])
            fields = orjson.loads(body)
            version = cls._version(orjson.loads(header), fields)
        except ClaimsError:
            raise
        except ValueError:
            raise ClaimsError("a chunk is no JSON in base64") from None
        signed = ".".join(parts[:2])
        if version == 1:
            signed = parts[1]
            try:
                body = orjson.dumps(cls._modern(fields))
            except orjson.JSONEncodeError:
                raise ClaimsError("what is claimed is nested too deeply") from None
        try:
            claims = cls.model_validate_json(body)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join([str(each) for each in first["loc"]])
            raise ClaimsError(f"{where}: {first['msg']}") from None
        if not nkey.is_public_key(claims.subject, cls.SUBJECT):
            raise ClaimsError(f"the subject is no public key of an {cls.KIND}")
        if not nkey.is_public_key(claims.issuer, *cls.ISSUERS):
            raise ClaimsError("the issuer has no public key of a kind that may sign this")
        if not nkey.is_signed(claims.issuer, parts[2], signed.encode()):
            raise ClaimsError("claim failed signature verification")
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
        typ, algorithm = _said(header.get("typ")), _said(header.get("alg"))
        if typ.upper() != "JWT":
            raise ClaimsError(f'not supported type "{typ}"')
        if algorithm.lower() not in _ALGORITHMS:
            raise ClaimsError(f'not supported algorithm "{algorithm}"')
        nats = body.get("nats")
        if not isinstance(nats, dict):
            raise ClaimsError(f"not {cls.KIND} claim")
        # Only version 1 has its kind next to the claims.
        kind, version = nats.get("type"), nats.get("version")
        if body.get("type"):
            kind, version = body["type"], 1
        if kind != cls.KIND:
            raise ClaimsError(f"not {cls.KIND} claim")
        if version not in (1, 2) or isinstance(version, bool | float):
            raise ClaimsError(f"version {_said(version)} of JWTs is not known")
        return int(version)

    @classmethod
    def _modern(cls, body: dict[str, Any]) -> dict[str, Any]:
        """Return claims of version 1 as version 2 has them."""
        moved = {name: body[name] for name in ("tags", "issuer_account") if name in body}
        own = {key: value for key, value in body["nats"].items() if key not in cls.NOT_IN_VERSION_1}
        return body | {"nats": cls.DEFAULTS_OF_VERSION_1 | own | moved}

    def is_current(self, now_s: int) -> bool:
        """Tell whether the time lies in the period for which it was issued."""
        return not (self.has_expired(now_s) or now_s < self.not_before)

    def has_expired(self, now_s: int) -> bool:
        """Tell whether the time for which it was issued is over; a time before 1970 always is."""
        return self.expires_at != 0 and self.expires_at < now_s


def _said(value: Any) -> str:
    """Return a value as text; what is nested may be so deeply that it has none."""
    return str(value) if not isinstance(value, dict | list) else "that is no value"


def undecorated(text: str) -> str:
    """Return the JWT of a file, which may stand between lines that say what it is."""
    found = _DECORATED.match(text)
    return (found["token"] if found else text).strip()
