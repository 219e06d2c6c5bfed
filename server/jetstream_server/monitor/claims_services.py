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

from collections.abc import Generator, Mapping
from typing import Any, Protocol

from jetstream_server.base.errors import ApiError, ConfigError
from jetstream_server.config.account_options import forget, read_account, valid_in_steps
from jetstream_server.config.claims.account_claims import AccountClaims
from jetstream_server.config.claims.operator_claims import DeletionClaims
from jetstream_server.config.claims.token import ClaimsError
from jetstream_server.config.options import OperatorOptions
from jetstream_server.core.answers import Answers, UnderWay
from jetstream_server.core.subscription import Stretch, Subscription
from jetstream_server.core.transform import TransformError, asked_transform
from jetstream_server.jetstream.wire.go_json import encode
from jetstream_server.node.accounts.account_changes import AccountChanges
from jetstream_server.node.node import Node
from jetstream_server.node.server_info import server_info

_ALL = (b"UPDATE", b"LIST", b"PACK", b"DELETE")
_ONE = (b"UPDATE", b"LOOKUP")
_FAILED = 500
# What steps take, in units of some microseconds.
_UNITS_OF_MAPPING = 8
_CHARACTERS_OF_MAPPING = 10


class Tokens(Protocol):
    """The JWTs of accounts, by key."""

    def tokens(self) -> Mapping[str, str]:
        """Return all of them."""
        ...

    def change(self, changed: Mapping[str, str | None], now: int) -> Generator[int, None, None]:
        """Keep these instead, with None for one that is to go, and follow what they claim, all at
        one moment. Give after each step what it took, in units of some microseconds.

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
        changes: of accounts, in whose order updates and deletions are made.
    """

    def __init__(
        self, node: Node, operator: OperatorOptions, tokens: Tokens, changes: AccountChanges
    ) -> None:
        self._node = node
        self._operator = operator
        self._tokens = tokens
        self._changes = changes
        self._account = node.accounts[node.options.system_account]

    def subscribe(self) -> None:
        """Start acting."""
        subjects = [b"$SYS.REQ.CLAIMS." + verb for verb in _ALL]
        subjects += [b"$SYS.REQ.ACCOUNT.*.CLAIMS." + verb for verb in _ONE]
        for subject in subjects:
            self._account.sublist.insert(Subscription(subject, self))

    def receive(self, stretch: Stretch) -> None:
        """Act on requests; who asks for a change is not heard until it is made."""
        run, now, answers = stretch.run, stretch.now, stretch.answers
        for index in stretch.indices:
            if answers is not None and answers.postponed:
                answers.postpone(stretch.postponed_from(index))
                return
            subject, body, reply = run.subject(index), run.payload(index), run.reply(index)
            words = subject.decode(errors="replace").split(".")
            key, verb = words[3] if len(words) > 4 else "", words[-1]
            if verb == "UPDATE":
                self._begin(self._update(key, body, now), len(body), reply, answers, now)
            elif verb == "DELETE":
                self._begin(self._delete(body, now), len(body), reply, answers, now)
            else:
                try:
                    told = self._answers(key, verb, now)
                except Exception as error:
                    told = [self._enveloped(self._contained(error, now), now)]
                self._tell(reply, told)

    def _begin(
        self,
        change: Generator[int, None, dict[str, Any]],
        size: int,
        reply: bytes,
        answers: Answers | None,
        now: int,
    ) -> None:
        """Begin a change, which may take several turns."""
        waiting: list[UnderWay] = []

        def contained() -> Generator[int, None, dict[str, Any]]:
            try:
                fields = yield from change
            except Exception as error:
                return self._contained(error, now)
            return fields

        def finished(fields: dict[str, Any] | ApiError) -> None:
            if isinstance(fields, ApiError):
                fields = {"error": {"code": _FAILED, "description": fields.description}}
            self._tell(reply, [self._enveloped(fields, now)])
            is_over.append(True)
            for each in waiting:
                each.end()

        is_over: list[bool] = []
        self._changes.begin(contained(), finished, size)
        if answers is not None and not is_over:
            waiting.append(UnderWay(answers))

    def _contained(self, error: Exception, now: int) -> dict[str, Any]:
        incident = self._node.containment.contain(error, now)
        return {"error": {"code": _FAILED, "description": str(incident)}}

    def _tell(self, reply: bytes, answers: list[bytes]) -> None:
        if reply:
            for answer in answers:
                self._account.output.publish(reply, answer)

    def _answers(self, key: str, verb: str, now: int) -> list[bytes]:
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

    def _update(self, key: str, body: bytes, now: int) -> Generator[int, None, dict[str, Any]]:
        token = body.decode(errors="replace").strip()
        fields = yield from self._updated(key, token, now)
        if "error" in fields and token not in self._tokens.tokens().values():
            forget(token)
        return fields

    def _updated(self, key: str, token: str, now: int) -> Generator[int, None, dict[str, Any]]:
        try:
            claims = yield from read_account(token)
        except ClaimsError as error:
            return _refused("n/a", f"jwt update resulted in error - {error}")
        whose = claims.subject
        try:
            yield from valid_in_steps(whose, token, self._operator.trusted_keys)
        except ClaimsError as error:
            return _refused(whose, f"jwt validation failed - validation errors: [{error}]")
        problem = yield from _mapping_problem(claims)
        if problem:
            return _refused(whose, f"jwt validation failed - {problem}")
        if key and whose != key:
            text = "jwt update resulted in error - subject does not match jwt content"
            return _refused(key, text)
        try:
            yield from self._tokens.change({whose: token}, now)
        except ConfigError as error:
            return _refused(whose, f"jwt update resulted in error - {error}")
        return {"data": {"account": whose, "code": 200, "message": "jwt updated"}}

    def _delete(self, body: bytes, now: int) -> Generator[int, None, dict[str, Any]]:
        who = ""
        try:
            claims = DeletionClaims.read(body.decode(errors="replace"))
            who = claims.subject
            accounts = self._deleted(claims)
            yield from self._tokens.change(dict.fromkeys(accounts), now)
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


def _mapping_problem(claims: AccountClaims) -> Generator[int, None, str]:
    """Return why the first mapping of an account that is impossible is so; empty if none is. Give
    after each what it took."""
    for source, destinations in claims.nats.mappings.items():
        for each in destinations:
            try:
                asked_transform(source.encode(), each.subject.encode())
            except TransformError as error:
                return f'mapping "{source}" -> "{each.subject}": {error}'
            yield _UNITS_OF_MAPPING + len(each.subject) // _CHARACTERS_OF_MAPPING
    return ""


def _refused(account: str, text: str) -> dict[str, Any]:
    return {"error": {"account": account, "code": _FAILED, "description": text}}
