"""What the operator of a server claims: which keys may sign accounts, and which accounts are to be
deleted."""

from __future__ import annotations

from typing import Any

from jetstream_server.base import nkey
from jetstream_server.config.claims.token import ClaimFlag, Claims, ClaimTexts, SignedClaims


class _OperatorBody(Claims):
    signing_keys: ClaimTexts = ()
    system_account: str = ""
    assert_server_version: str = ""
    strict_signing_key_usage: ClaimFlag = False


class OperatorClaims(SignedClaims):
    """The JWT of an operator."""

    KIND = "operator"
    SUBJECT = nkey.OPERATOR
    ISSUERS = (nkey.OPERATOR,)

    nats: _OperatorBody

    @property
    def trusted_keys(self) -> tuple[str, ...]:
        """Whose signature makes an account one of this operator's."""
        own = () if self.nats.strict_signing_key_usage else (self.subject,)
        return (*own, *self.nats.signing_keys)


class _Deletion(Claims):
    accounts: Any = None


class DeletionClaims(SignedClaims):
    """The JWT with which an operator has accounts deleted."""

    KIND = "generic"
    SUBJECT = nkey.OPERATOR
    ISSUERS = (nkey.OPERATOR,)

    nats: _Deletion
