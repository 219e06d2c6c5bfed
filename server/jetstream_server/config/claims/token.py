"""A JWT as NATS has them: read, and its signature checked against the issuer it names.

Whether that issuer may be trusted, and whether the claims are valid now, is for others to say. Only
version 2 is read, whose signature covers the header as well (jetstream.md 1.11).
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, Self

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from jetstream_server.base import nkey

_ALGORITHM = "ed25519-nkey"
_DECORATED = re.compile(r"\s*-{3,}[^\n-]*JWT-{3,}\s*\n(?P<token>\S+)\s*\n")


class ClaimsError(ValueError):
    """A JWT that says nothing that could be relied on."""


class Claims(BaseModel):
    """Something claimed; `null` is what was left out, and unknown fields say nothing."""

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
        issued_at, expires_at, not_before: seconds since 1970; 0 for not given.
    """

    KIND: ClassVar[str]
    SUBJECT: ClassVar[str]
    ISSUERS: ClassVar[tuple[str, ...]]

    subject: str = Field(default="", alias="sub")
    issuer: str = Field(default="", alias="iss")
    name: str = ""
    issued_at: int = Field(default=0, alias="iat")
    expires_at: int = Field(default=0, alias="exp")
    not_before: int = Field(default=0, alias="nbf")

    @classmethod
    def read(cls, text: str) -> Self:
        """Read a JWT that its issuer has signed.

        Raises:
            ClaimsError: it is none, of another kind, or not signed by whom it names.
        """
        parts = text.strip().split(".")
        if len(parts) != 3:
            raise ClaimsError("expected 3 chunks")
        try:
            header, body = (nkey.decoded(part) for part in parts[:2])
            cls._check(orjson.loads(header), orjson.loads(body))
        except ClaimsError:
            raise
        except ValueError:
            raise ClaimsError("a chunk is no JSON in base64") from None
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
        if not nkey.is_signed(claims.issuer, parts[2], ".".join(parts[:2]).encode()):
            raise ClaimsError("claim failed signature verification")
        return claims

    @classmethod
    def _check(cls, header: Any, body: Any) -> None:
        if not isinstance(header, dict) or not isinstance(body, dict):
            raise ClaimsError("a chunk is no JSON object")
        if str(header.get("typ")).upper() != "JWT":
            raise ClaimsError(f'not supported type "{header.get("typ")}"')
        if str(header.get("alg")).lower() != _ALGORITHM:
            raise ClaimsError(f'not supported algorithm "{header.get("alg")}"')
        nats = body.get("nats")
        if not isinstance(nats, dict) or nats.get("type") != cls.KIND:
            raise ClaimsError(f"not {cls.KIND} claim")

    def is_current(self, now_s: int) -> bool:
        """Tell whether this is the time for which it was issued."""
        return not (0 < self.expires_at < now_s or now_s < self.not_before)


def undecorated(text: str) -> str:
    """Return the JWT of a file, which may stand between lines that say what it is."""
    found = _DECORATED.match(text)
    return (found["token"] if found else text).strip()
