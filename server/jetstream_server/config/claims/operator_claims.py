"""What the operator of a server claims: which keys may sign accounts."""

from __future__ import annotations

from jetstream_server.base import nkey
from jetstream_server.config.claims.token import Claims, SignedClaims


class _Operator(Claims):
    signing_keys: tuple[str, ...] = ()
    system_account: str = ""
    assert_server_version: str = ""
    strict_signing_key_usage: bool = False


class OperatorClaims(SignedClaims):
    """The JWT of an operator."""

    KIND = "operator"
    SUBJECT = nkey.OPERATOR
    ISSUERS = (nkey.OPERATOR,)

    nats: _Operator

    @property
    def trusted_keys(self) -> tuple[str, ...]:
        """Whose signature makes an account one of this operator."""
        own = () if self.nats.strict_signing_key_usage else (self.subject,)
        return (*own, *self.nats.signing_keys)
