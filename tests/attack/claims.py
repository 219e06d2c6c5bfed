"""Keys of an operator, its accounts and users, what they claim, and how claims become JWTs.

Keys come from names, and signatures from keys: a seed signs the same each time.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from functools import cache
from typing import Any

from tests.attack.acts import Heard, Show, broken_chunk
from tests.parity.credentials import OPERATOR, Key, account_key

# When attacks begin, in seconds since 1970.
START_SECONDS = 1_700_000_000
ISSUED = START_SECONDS - 1000
# X holds a witness's stream, and Z is for those who come afterwards: nobody changes either.
PRELOADED = ("A", "B", "X", "SYS")
SIGNING = Key("account", "a signing key of A")
SCOPED = Key("account", "a signing key of A with a scope")
OTHER_OPERATOR = Key("operator", "somebody else")
OTHER_ACCOUNT = account_key("nobody's")
# Which account each user is of who comes with a JWT that is as it should be.
ACCOUNT_OF = {"a": "A", "b": "B", "s": "SYS", "r": "A", "x": "X", "z": "Z", "sentinel": "A"}
USER_LIMITS: dict[str, Any] = dict.fromkeys(("subs", "data", "payload"), -1)
STORAGE = dict.fromkeys(("mem_storage", "disk_storage", "streams", "consumer"), -1)
ACCOUNT_LIMITS: dict[str, Any] = {
    **dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1),
    "wildcards": True,
}
HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}
HEADER_OF_VERSION_1 = {"typ": "jwt", "alg": "ed25519"}


@cache
def user_key(name: str) -> Key:
    """Return the key of a user."""
    return Key("user", name)


def base64(data: bytes) -> str:
    """Return data as JWTs have it."""
    return urlsafe_b64encode(data).decode().rstrip("=")


def signed(head: bytes, body: bytes, key: Key, *, has_version_1: bool = False) -> str:
    """Return a JWT; in version 1 the signature does not cover the header."""
    text = f"{base64(head)}.{base64(body)}"
    return f"{text}.{key.sign(text.split('.')[1] if has_version_1 else text)}"


def claimed(kind: str, issuer: Key, subject: str, name: str, nats: dict[str, Any]) -> Any:
    """Return what a JWT of version 2 claims."""
    own = {"jti": name, "iat": ISSUED, "iss": issuer.public, "name": name, "sub": subject}
    return {**own, "nats": {**nats, "type": kind, "version": 2}}


def written(claims: Any, key: Key) -> str:
    """Return claims as a JWT of version 2."""
    return signed(json.dumps(HEADER).encode(), json.dumps(claims).encode(), key)


def shown(act: Show, nonce: str) -> bytes:
    """Return the fields of CONNECT with which somebody shows a JWT."""
    fields = b'"jwt":%b' % json.dumps(act.token).encode()
    if not act.signer:
        return fields
    signature = user_key(act.signer).sign(nonce).encode()
    broken = broken_chunk(signature, Heard("signature", 0, act.breaks)).decode(errors="replace")
    return fields + b',"sig":%b' % json.dumps(broken).encode()


# -- accounts --------------------------------------------------------------------------------


def _export(kind: str, subject: str, **fields: Any) -> dict[str, Any]:
    return {"name": subject, "subject": subject, "type": kind, **fields}


def imported(kind: str, of: str, subject: str, **fields: Any) -> dict[str, Any]:
    """Return the import of a subject from an account."""
    source = account_key(of).public
    return {"name": subject, "type": kind, "account": source, "subject": subject, **fields}


SCOPE: dict[str, Any] = {
    "kind": "user_scope",
    "key": SCOPED.public,
    "role": "reader",
    "template": {
        **USER_LIMITS,
        "pub": {"allow": ["s0.>", "$JS.API.>", "to.{{name()}}.>", "{{tag(team)}}.x"]},
        "sub": {"allow": ["_INBOX.>", "chunks", "{{account-name()}}.{{subject()}}.>"],
                "deny": ["{{account-tag(area)}}.secret"]},
    },
}  # fmt: skip


def account_body(name: str) -> dict[str, Any]:
    """Return what an account claims to be like that of the same name in a configuration."""
    if name in ("SYS", "C"):
        return {"limits": dict(ACCOUNT_LIMITS)}
    if name in ("X", "Z"):
        return {"limits": ACCOUNT_LIMITS | STORAGE}
    if name == "A":
        exports = [
            _export("stream", "news.>"), _export("stream", "d.>"),
            _export("service", "$JS.API.>", response_type="Stream"),
            _export("service", "$JS.ACK.>"),
            _export("service", "s0.>", response_type="Stream"),
            _export("service", "s4.>", response_type="Stream"),
            _export("service", "help.>", service_latency={"sampling": 100, "results": "told"}),
        ]  # fmt: skip
        return {
            "limits": ACCOUNT_LIMITS | STORAGE,
            "exports": exports,
            "signing_keys": [SIGNING.public, SCOPE],
            "tags": ["area:north", "area:south"],
        }
    imports = [
        imported("stream", "A", "news.>", to="from"),
        imported("stream", "A", "d.>", local_subject="came.>"),
        imported("service", "A", "$JS.API.>", local_subject="from.API.>"),
        imported("service", "A", "$JS.ACK.>"),
        imported("service", "A", "s0.>", local_subject="far.s0.>"),
        imported("service", "A", "s4.>", local_subject="far.s4.>"),
        imported("service", "A", "help.>"),
    ]
    return {"limits": dict(ACCOUNT_LIMITS), "imports": imports}


def account_claims(name: str, issuer: Key = OPERATOR) -> Any:
    """Return everything that an account claims."""
    return claimed("account", issuer, account_key(name).public, name, account_body(name))


@cache
def account_token(name: str) -> str:
    """Return the JWT of an account."""
    return written(account_claims(name), OPERATOR)


# -- users -----------------------------------------------------------------------------------

_GRANTS: dict[str, dict[str, Any]] = {
    "r": {
        "pub": {"allow": ["s0.>", "$JS.API.>", "$JS.ACK.>"], "deny": ["s0.b"]},
        "sub": {"allow": ["_INBOX.>", "s1.> q"], "deny": ["a.>"]},
        "resp": {"max": 1, "ttl": 0},
    },
    "sentinel": {"bearer_token": True},
}


@cache
def user_token(name: str) -> str:
    """Return the JWT of a user."""
    key = account_key(ACCOUNT_OF[name])
    nats = USER_LIMITS | _GRANTS.get(name, {})
    return written(claimed("user", key, user_key(name).public, name, nats), key)
