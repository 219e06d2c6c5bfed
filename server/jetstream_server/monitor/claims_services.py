"""`$SYS.REQ.CLAIMS.*`: what the system account may do with the JWTs of accounts.

| Subject | |
|---|---|
| `$SYS.REQ.CLAIMS.UPDATE` | takes a JWT in place of the one before |
| `$SYS.REQ.ACCOUNT.<key>.CLAIMS.UPDATE` | the same |
| `$SYS.REQ.ACCOUNT.<key>.CLAIMS.LOOKUP` | answers with the JWT, or with nothing |
| `$SYS.REQ.CLAIMS.LIST` | the keys of all accounts |
| `$SYS.REQ.CLAIMS.PACK` | a message `<key>|<JWT>` for each, and an empty one |
| `$SYS.REQ.CLAIMS.DELETE` | takes the JWT of an operator that names `accounts` |

Texts as probed with the genuine server 2.15.1; a JWT that no trusted operator has signed is refused
here (docs/reference/accounts.md#jwts).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from jetstream_server.base.errors import ConfigError
from jetstream_server.config.account_options import valid_account
from jetstream_server.config.claims.account_claims import AccountClaims
from jetstream_server.config.claims.operator_claims import DeletionClaims
from jetstream_server.config.claims.token import ClaimsError
from jetstream_server.config.options import OperatorOptions
from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.core.transform import TransformError, asked_transform
from jetstream_server.jetstream.wire.go_json import encode
from jetstream_server.node.node import Node
from jetstream_server.node.server_info import server_info

_ALL = (b"UPDATE", b"LIST", b"PACK", b"DELETE")
_ONE = (b"UPDATE", b"LOOKUP")
_FAILED = 500


class Tokens(Protocol):
    """The JWTs of accounts, by key."""

    def tokens(self) -> Mapping[str, str]:
        """Return all of them."""
        ...

    def change(self, changed: Mapping[str, str | None], now: int) -> None:
        """Keep these instead, with None for one that is to go, and follow what they claim.

        Raises:
            ConfigError: they could not be kept, or followed.
        """
        ...


class ClaimsServices:
    """Acts on requests of the system account. A Receiver.

    Args:
        node: the server.
        operator: whose accounts they are.
        tokens: where they are kept.
    """

    def __init__(self, node: Node, operator: OperatorOptions, tokens: Tokens) -> None:
        self._node = node
        self._operator = operator
        self._tokens = tokens
        self._account = node.accounts[node.options.system_account]

    def subscribe(self) -> None:
        """Start acting."""
        subjects = [b"$SYS.REQ.CLAIMS." + verb for verb in _ALL]
        subjects += [b"$SYS.REQ.ACCOUNT.*.CLAIMS." + verb for verb in _ONE]
        for subject in subjects:
            self._account.sublist.insert(Subscription(subject, self))

    def receive(self, stretch: Stretch) -> None:
        """Act on requests."""
        run, now = stretch.run, stretch.now
        for index in stretch.indices:
            try:
                answers = self._answers(run.subject(index), run.payload(index), now)
            except Exception as error:
                incident = self._node.containment.contain(error, now)
                fields = {"error": {"code": _FAILED, "description": str(incident)}}
                answers = [self._enveloped(fields, now)]
            for answer in answers:
                if reply := run.reply(index):
                    self._account.output.publish(reply, answer)

    def _answers(self, subject: bytes, body: bytes, now: int) -> list[bytes]:
        words = subject.decode(errors="replace").split(".")
        key, verb = words[3], words[-1]
        if verb == "UPDATE":
            return [self._enveloped(self._update(key if len(words) > 4 else "", body, now), now)]
        if verb == "DELETE":
            return [self._enveloped(self._delete(body, now), now)]
        tokens = self._tokens.tokens()
        if verb == "LOOKUP":
            return [tokens.get(key, "").encode()]
        if verb == "PACK":
            return [*(f"{key}|{tokens[key]}".encode() for key in sorted(tokens)), b""]
        listed = {"data": sorted(tokens), "server": server_info(self._node, now)}
        return [encode(listed)]

    def _enveloped(self, fields: dict[str, Any], now: int) -> bytes:
        return encode({"server": server_info(self._node, now), **fields})

    # -- changes -----------------------------------------------------------------------------

    def _update(self, key: str, body: bytes, now: int) -> dict[str, Any]:
        token = body.decode(errors="replace").strip()
        try:
            claims = AccountClaims.read(token)
        except ClaimsError as error:
            return _refused(key or "n/a", f"jwt update resulted in error - {error}")
        if key and claims.subject != key:
            text = "jwt update resulted in error - subject does not match jwt content"
            return _refused(key, text)
        try:
            valid_account(claims.subject, token, self._operator.trusted_keys)
        except ClaimsError as error:
            text = f"jwt validation failed - validation errors: [{error}]"
            return _refused(claims.subject, text)
        if problem := _mapping_problem(claims):
            return _refused(claims.subject, f"jwt validation failed - {problem}")
        try:
            self._tokens.change({claims.subject: token}, now)
        except ConfigError as error:
            return _refused(claims.subject, f"jwt update resulted in error - {error}")
        return {"data": {"account": claims.subject, "code": 200, "message": "jwt updated"}}

    def _delete(self, body: bytes, now: int) -> dict[str, Any]:
        who = ""
        try:
            claims = DeletionClaims.read(body.decode(errors="replace"))
            who = claims.subject
            accounts = self._deleted(claims)
            self._tokens.change(dict.fromkeys(accounts), now)
        except (ClaimsError, ConfigError) as error:
            text = f"delete accounts request by {who} failed - {error}"
            return {"error": {"code": _FAILED, "description": text}}
        return {"data": {"code": 200, "message": f"deleted {len(accounts)} accounts"}}

    def _deleted(self, claims: DeletionClaims) -> list[str]:
        """Return the accounts that are to be deleted.

        Raises:
            ClaimsError: they may not be.
        """
        accounts = claims.nats.accounts
        if claims.issuer != claims.subject:
            raise ClaimsError("not self signed")
        if claims.issuer not in self._operator.trusted_keys:
            raise ClaimsError("not trusted")
        if not self._operator.may_delete:
            raise ClaimsError("delete must be enabled in server config")
        if not isinstance(accounts, list) or not all(isinstance(key, str) for key in accounts):
            raise ClaimsError("malformed request")
        if self._account.name in accounts:
            raise ClaimsError("not allowed to delete system account")
        return accounts


def _mapping_problem(claims: AccountClaims) -> str:
    """Return why the first mapping of an account that is impossible is so; empty if none is."""
    for source, destinations in claims.nats.mappings.items():
        for each in destinations:
            if each.subject == source:
                continue
            try:
                asked_transform(source.encode(), each.subject.encode())
            except TransformError as error:
                return f'mapping "{source}" -> "{each.subject}": {error}'
    return ""


def _refused(account: str, text: str) -> dict[str, Any]:
    return {"error": {"account": account, "code": _FAILED, "description": text}}
