"""Operators, accounts and users with JWTs, the same each time: keys come from names.

The configurations `configs/operator*.conf` are made from the accounts below:
`python -m tests.parity.credentials` writes them, and a test says when they are out of date.
"""

from __future__ import annotations

import binascii
import hashlib
import json
from base64 import b32encode, urlsafe_b64encode
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.parity.scenario import CONFIGS

# 2026-01-01; nothing expires.
ISSUED = 1_767_225_600
_PREFIXES = {"operator": 14 << 3, "account": 0, "user": 20 << 3}


class Key:
    """A key pair of an operator, account or user."""

    def __init__(self, kind: str, name: str) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(
            hashlib.sha256(f"{kind} {name}".encode()).digest()
        )
        raw = bytes([_PREFIXES[kind]]) + self._private.public_key().public_bytes_raw()
        check = binascii.crc_hqx(raw, 0).to_bytes(2, "little")
        self.public = b32encode(raw + check).decode().rstrip("=")

    def sign(self, data: str) -> str:
        """Return a signature as CONNECT and JWTs have it."""
        return _base64(self._private.sign(data.encode()))


def token(kind: str, issuer: Key, subject: str, name: str, nats: Any, **claims: Any) -> str:
    """Return a JWT."""
    head = {"typ": "JWT", "alg": "ed25519-nkey"}
    body = {"jti": name, "iat": ISSUED, "iss": issuer.public, "name": name, "sub": subject}
    body |= claims | {"nats": {**nats, "type": kind, "version": nats.get("version", 2)}}
    text = ".".join(_base64(json.dumps(part).encode()) for part in (head, body))
    return f"{text}.{issuer.sign(text)}"


def token_of_version_1(
    kind: str, issuer: Key, subject: str, name: str, nats: Any, **claims: Any
) -> str:
    """Return a JWT as they were before 2020: the header is not signed."""
    body = {"jti": name, "iat": ISSUED, "iss": issuer.public, "name": name, "sub": subject}
    body |= {"type": kind, "nats": nats} | claims
    head, text = (
        _base64(json.dumps(each).encode()) for each in ({"typ": "jwt", "alg": "ed25519"}, body)
    )
    return f"{head}.{text}.{issuer.sign(text)}"


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


OPERATOR = Key("operator", "operator")
OPERATOR_SIGNING = Key("operator", "operator's signing key")
_NO_LIMIT = -1
_ACCOUNT_LIMITS = {
    **dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), _NO_LIMIT),
    "wildcards": True,
}
_USER_LIMITS = dict.fromkeys(("subs", "data", "payload"), _NO_LIMIT)
_STORAGE = {"mem_storage": _NO_LIMIT, "disk_storage": _NO_LIMIT, "streams": -1, "consumer": -1}


def account_key(name: str) -> Key:
    """Return the key of an account."""
    return Key("account", name)


def account(name: str, limits: dict[str, Any], signer: Key = OPERATOR, **fields: Any) -> str:
    """Return the JWT of an account."""
    claims = fields.pop("claims", {})
    nats = {"limits": _ACCOUNT_LIMITS | limits, **fields}
    return token("account", signer, account_key(name).public, name, nats, **claims)


def user(name: str, of: str, signer: Key | None = None, **fields: Any) -> str:
    """Return the JWT of a user of an account; a scoped one has no limits of its own."""
    claims = fields.pop("claims", {})
    nats = fields if fields.pop("is_scoped", False) else _USER_LIMITS | fields
    if signer is not None:
        nats["issuer_account"] = account_key(of).public
    signer = signer or account_key(of)
    return token("user", signer, Key("user", name).public, name, nats, **claims)


def activation(of: str, to: str, subject: str, kind: str, **claims: Any) -> str:
    """Return what lets one account import from another."""
    nats = {"subject": subject, "kind": kind}
    return token("activation", account_key(of), account_key(to).public, subject, nats, **claims)


def _import(kind: str, of: str, subject: str, **fields: Any) -> dict[str, Any]:
    source = account_key(of).public
    return {"name": subject, "type": kind, "account": source, "subject": subject, **fields}


PLAIN_SIGNER = Key("account", "a signing key of KEYS")
SCOPED_SIGNER = Key("account", "a scoped signing key of KEYS")
_SCOPE = {
    "kind": "user_scope",
    "key": SCOPED_SIGNER.public,
    "role": "reader",
    "template": {
        **_USER_LIMITS,
        "payload": 50,
        "subs": 3,
        "pub": {"allow": ["to.{{name()}}.>", "{{tag(team)}}.x", "no.{{tag(none)}}.x"]},
        "sub": {"allow": ["_INBOX.>", "{{account-name()}}.>"], "deny": ["KEYS.secret"]},
    },
}


def accounts() -> dict[str, str]:
    """Return the JWTs of the accounts of `operator.conf`, by name."""
    return {
        "SYS": account("SYS", {}),
        "OPEN": account("OPEN", _STORAGE),
        "PLAIN": account("PLAIN", {}),
        "FLAT": account(
            "FLAT",
            {
                "mem_storage": 2000,
                "disk_storage": 3000,
                "streams": 2,
                "consumer": 2,
                "max_ack_pending": 20,
                "mem_max_stream_bytes": 1000,
                "disk_max_stream_bytes": 1500,
                "max_bytes_required": True,
            },
            OPERATOR_SIGNING,
        ),
        "ZEROS": account("ZEROS", {"disk_storage": 3000}),
        "TIERS": account(
            "TIERS",
            {
                "tiered_limits": {
                    "R1": {
                        "mem_storage": 1000,
                        "disk_storage": 2000,
                        "streams": 2,
                        "consumer": 2,
                        "max_ack_pending": 20,
                        "disk_max_stream_bytes": 1500,
                    },
                    "R3": {"disk_storage": 5000, "streams": 1, "consumer": -1},
                }
            },
        ),
        "THREES": account("THREES", {"tiered_limits": {"R3": {"disk_storage": -1, "streams": -1}}}),
        "FEW": account("FEW", {"conn": 2, "subs": 3, "payload": 100}),
        "KEYS": account(
            "KEYS",
            {"disallow_bearer": True},
            signing_keys=[PLAIN_SIGNER.public, _SCOPE],
            revocations={Key("user", "revoked").public: ISSUED + 1},
            default_permissions={"pub": {"deny": ["secret"]}, "sub": {}},
        ),
        "STORE": account(
            "STORE",
            _STORAGE,
            exports=[
                {"name": "news", "subject": "news.>", "type": "stream"},
                {"name": "paid", "subject": "paid.>", "type": "stream", "token_req": True},
                {"name": "orders", "subject": "orders.*", "type": "service"},
                {
                    "name": "api",
                    "subject": "$JS.API.>",
                    "type": "service",
                    "response_type": "Stream",
                },
                {
                    "name": "mine",
                    "subject": "mine.*",
                    "type": "service",
                    "account_token_position": 2,
                },
            ],
            mappings={"old": [{"subject": "new"}]},
        ),
        "SHOP": account(
            "SHOP",
            _STORAGE,
            imports=[
                _import("stream", "STORE", "news.>", to="far"),
                _import(
                    "stream",
                    "STORE",
                    "paid.>",
                    token=activation("STORE", "SHOP", "paid.>", "stream"),
                ),
                _import("service", "STORE", "orders.*", local_subject="to.$1"),
                _import("service", "STORE", "$JS.API.>", local_subject="JS.store.API.>"),
                _import(
                    "service", "STORE", f"mine.{account_key('SHOP').public}", local_subject="mine"
                ),
            ],
        ),
        "LATE": account("LATE", {}, claims={"exp": ISSUED}),
        "OLD": token_of_version_1(
            "account",
            OPERATOR,
            account_key("OLD").public,
            "OLD",
            {
                "limits": _ACCOUNT_LIMITS | {"payload": 500} | _STORAGE,
                "signing_keys": [PLAIN_SIGNER.public],
                "default_permissions": {"pub": {"deny": [">"]}},
            },
        ),
    }


def users() -> dict[str, str]:
    """Return the JWTs of the users by name."""
    restricted = {"pub": {"allow": ["a.>", "ask"], "deny": ["a.no"]}, "sub": {"deny": ["b"]}}
    all_day = [{"start": "00:00:00", "end": "23:59:59"}]
    plain = ["SYS", "PLAIN", "FLAT", "ZEROS", "TIERS", "THREES", "FEW", "KEYS", "STORE", "SHOP"]
    return {
        **{name.lower(): user(name.lower(), name) for name in [*plain, "LATE", "NOWHERE"]},
        "sentinel": user("sentinel", "OPEN", bearer_token=True),
        "restricted": user("restricted", "PLAIN", **restricted),
        "answerer": user(
            "answerer", "PLAIN", sub={"allow": ["ask", "_INBOX.>"]}, resp={"max": 1, "ttl": 0}
        ),
        "small": user("small", "PLAIN", subs=1, payload=10),
        "bearer": user("bearer", "PLAIN", bearer_token=True),
        "unborne": user("unborne", "KEYS", bearer_token=True),
        "revoked": user("revoked", "KEYS"),
        "signed": user("signed", "KEYS", PLAIN_SIGNER),
        "scoped": user("scoped", "KEYS", SCOPED_SIGNER, is_scoped=True, tags=["team:red"]),
        "unscoped": user("unscoped", "KEYS", SCOPED_SIGNER),
        "stranger": user("stranger", "PLAIN", PLAIN_SIGNER),
        "expired": user("expired", "PLAIN", claims={"exp": ISSUED}),
        "unborn": user("unborn", "PLAIN", claims={"nbf": ISSUED * 2}),
        "elsewhere": user("elsewhere", "PLAIN", src=["10.0.0.0/8"]),
        "local": user("local", "PLAIN", src=["10.0.0.0/8", "127.0.0.0/8"]),
        "always": user("always", "PLAIN", times=all_day),
        "here": user("here", "PLAIN", times=all_day, times_location="Local"),
        "forged": user("forged", "PLAIN", PLAIN_SIGNER, times_location="America"),
        "folder": user("folder", "PLAIN", times_location="America"),
        "lengthy": user("lengthy", "PLAIN", times_location="x" * 300),
        "newer": user("newer", "PLAIN", version=3),
        "proxied": user("proxied", "PLAIN", proxy_required=True),
        "misspelt": user("misspelt", "PLAIN", pub={"deny": ["secret "]}),
        "two_queues": user("two_queues", "PLAIN", sub={"deny": ["a q r"]}),
        "timeless": user("timeless", "PLAIN", claims={"exp": 2**63}),
        "distant": user("distant", "PLAIN", claims={"iat": -5}),
        "old": _old_user("old", {"src": "10.0.0.0/8, 127.0.0.0/8", "payload": 40, "tags": ["no"]}),
        "old_signed": _old_user("old_signed", {"subs": 1}, PLAIN_SIGNER),
        "old_elsewhere": _old_user("old_elsewhere", {"src": "10.0.0.0/8"}),
        "old_socket": _old_user("old_socket", {"allowed_connection_types": ["WEBSOCKET"]}),
        "socket": user("socket", "PLAIN", allowed_connection_types=["WEBSOCKET"]),
    }


def _old_user(name: str, nats: dict[str, Any], signer: Key | None = None) -> str:
    """Return the JWT of version 1 of a user of OLD."""
    key, of = Key("user", name).public, account_key("OLD")
    more = {"issuer_account": of.public} if signer is not None else {}
    return token_of_version_1("user", signer or of, key, name, nats, **more)


_CONFIG = """\
# Made by credentials.py. A client that shows no JWT is in the account OPEN.
operator: {operator}
system_account: {system}
default_sentinel: {sentinel}
resolver: MEMORY
resolver_preload {{
{preload}}}
jetstream {{ max_mem: 64MB, max_file: 64MB }}
"""


def operator_config() -> str:
    """Return the text of `operator.conf`."""
    signing = {"signing_keys": [OPERATOR_SIGNING.public]}
    return _CONFIG.format(
        operator=token("operator", OPERATOR, OPERATOR.public, "operator", signing),
        system=account_key("SYS").public,
        sentinel=users()["sentinel"],
        preload="".join(
            f"  # {name}\n  {account_key(name).public}: {jwt}\n" for name, jwt in accounts().items()
        ),
    )


if __name__ == "__main__":
    Path(CONFIGS / "operator.conf").write_text(operator_config())
