"""What an attacker claims: JWTs of users and accounts, whole ones and nearly whole ones.

About half of them are as they should be. In the others one claim or a few have another value, of
the same type or of any, or the JWT is signed by somebody else, or is no JWT.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from tests.attack.acts import Look, Pass, Publish, Show, Steps, Web
from tests.attack.claims import (
    ACCOUNT_LIMITS,
    HEADER,
    HEADER_OF_VERSION_1,
    OTHER_ACCOUNT,
    OTHER_OPERATOR,
    SCOPE,
    SCOPED,
    SIGNING,
    START_SECONDS,
    STORAGE,
    USER_LIMITS,
    account_body,
    account_token,
    claimed,
    imported,
    signed,
    user_key,
    user_token,
    written,
)
from tests.attack.draws import JSON_NUMBERS, RAW, SECOND, TEXTS, Draw
from tests.attack.grammar_surroundings import FRAMES, UPGRADE, web_frame
from tests.parity.credentials import OPERATOR, OPERATOR_SIGNING, Key, account_key

# JSON that Python would not write.
_ODD = (
    *JSON_NUMBERS,
    b"-9223372036854775809", b"1.0", b"+1", b"01", b"NaN", b"tru", b'"\\ud800"', b'"\xff"',
    b'"\xed\xa0\x80"', b'{"a":1,"a":2}', b'["x","x","x"', b"[" + b'"x",' * 500 + b'"x"]',
    *(b"[" * depth + b"]" * depth for depth in (50, 200, 300, 1000, 3000)),
    *(b'{"a":' * depth + b"1" + b"}" * depth for depth in (50, 200, 300, 1000, 3000)),
)  # fmt: skip
_PLACE = "an odd value"
_NEEDED = ("iss", "nats", "sub", "type", "version")
_MOMENTS = (1, 2, 31, 150, 7200, 86_400 * 100)
# Claims that are known somewhere, maybe not where they are put.
_NAMES = (
    "aud", "exp", "nbf", "iat", "jti", "type", "nats", "version", "issuer_account", "src", "times",
    "times_location", "locale", "subs", "data", "payload", "bearer_token", "proxy_required", "pub",
    "sub", "resp", "allow", "deny", "max", "ttl", "tags", "allowed_connection_types", "limits",
    "mem_storage", "tiered_limits", "conn", "imports", "exports", "signing_keys", "revocations",
    "default_permissions", "mappings", "trace", "authorization", "description", "info_url",
    "cluster_traffic", "accounts", "template", "key", "kind", "role", "auth_users",
    "allowed_accounts", "xkey", "advertise", "allow_trace", "share", "token", "token_req",
    "local_subject", "response_type", "response_threshold", "service_latency", "sampling",
    "results", "account_token_position", "weight", "cluster", "unheard_of",
)  # fmt: skip


# -- one value in the place of another ---------------------------------------------------------


def _fitting(draw: Draw, old: Any) -> Any:
    """Return another value of the same type."""
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return draw.number()
    if isinstance(old, str):
        return draw.one((draw.text(), old + draw.text(), "{{name()}}", "{{tag(x)}}", "a.{{", "*.>"))
    if isinstance(old, list):
        return draw.one(([], old[:1] * draw.one((2, 30, 300)), [draw.text()], [*old, draw.value()]))
    if isinstance(old, dict):
        value = draw.one(tuple(old.values())) if old else draw.value()
        return {draw.text() or draw.one(_NAMES): value for _ in range(draw.one((1, 1, 3)))}
    return draw.value()


def _any(draw: Draw) -> Any:
    """Return any value, or the place of one that is put in when all is written."""
    return _PLACE if draw.often(0.3) else draw.value()


def _key(draw: Draw, claims: dict[str, Any]) -> str:
    """Return which claim it is, seldom one without which nobody reads the others."""
    keys = sorted(claims)
    others = [key for key in keys if key not in _NEEDED]
    return draw.one(others if others and draw.often(0.9) else keys)


def exchanged(draw: Draw, claims: Any) -> Any:
    """Return claims of which some value is another one, or is missing, or is new."""
    made = copy.deepcopy(claims)
    place: Any = made
    key: Any = "nats" if "nats" in made and draw.often(0.85) else _key(draw, made)
    while place[key] and isinstance(place[key], dict | list) and draw.often(0.9):
        place = place[key]
        many = isinstance(place, list)
        key = draw.random.randrange(len(place)) if many else _key(draw, place)
    match draw.random.randrange(12):
        case 0:
            del place[key]
        case 1 if isinstance(place, dict):
            place[draw.one(_NAMES)] = _any(draw)
        case 2 | 3:
            place[key] = _any(draw)
        case _:
            place[key] = _fitting(draw, place[key])
    return made


def _written(draw: Draw, value: Any) -> bytes:
    """Return JSON; half of the time with characters as they are."""
    is_plain = draw.often(0.5)
    data = json.dumps(value, ensure_ascii=is_plain).encode(errors="surrogatepass")
    return data.replace(b'"%b"' % _PLACE.encode(), draw.one(_ODD))


# -- JWTs ----------------------------------------------------------------------------------------


def token_of(draw: Draw, claims: Any, key: Key, *, is_sound: bool) -> str:
    """Return a JWT of these claims, or of nearly these."""
    has_version_1 = draw.often(0.08)
    head: Any = HEADER_OF_VERSION_1 if has_version_1 else HEADER
    if has_version_1:
        nats = dict(claims["nats"])
        nats.pop("version")
        claims = {**claims, "type": nats.pop("type"), "nats": nats}
        for name in ("tags", "issuer_account"):
            if name in nats:
                claims[name] = nats.pop(name)
    if is_sound:
        head, body = json.dumps(head).encode(), json.dumps(claims).encode()
        return signed(head, body, key, has_version_1=has_version_1)
    spoiling = draw.random.randrange(13)
    if spoiling > 2:
        for _ in range(draw.one((1, 1, 2, 4))):
            claims = exchanged(draw, claims) if isinstance(claims, dict) and claims else claims
    elif spoiling == 0:
        words = ("ed25519", "ed25519-nkey", "none", "HS256", "", 1, None, [], _PLACE, "ED25519")
        head = {**head, draw.one(("typ", "alg")): draw.one(words)}
    elif spoiling == 1:
        key = draw.one((OTHER_ACCOUNT, OTHER_OPERATOR, OPERATOR, SIGNING, user_key("a")))
    text = signed(_written(draw, head), _written(draw, claims), key, has_version_1=has_version_1)
    return broken_token(draw, text) if spoiling == 2 else text


def broken_token(draw: Draw, text: str) -> str:
    """Return what was a JWT."""
    parts = text.split(".")
    at = draw.random.randrange(len(parts))
    spoils: tuple[Callable[[], str], ...] = (
        lambda: ".".join(parts[:at]),
        lambda: ".".join([*parts, draw.one(parts)]),
        lambda: ".".join([*parts[:at], "", *parts[at + 1 :]]),
        lambda: ".".join([*parts[:at], parts[at] + draw.one(("=", "==", "===", "A", "é", "\n"))]),
        lambda: ".".join([*parts[:at], parts[at] + "=", *parts[at + 1 :]]),
        lambda: ".".join([*parts[:2], parts[2][:-1]]),
        lambda: ".".join([*parts[:2], parts[2][::-1]]),
        lambda: text.replace("-", "+").replace("_", "/"),
        lambda: f" \n{text}\n",
        lambda: draw.one(TEXTS),
        lambda: "." * draw.one((1, 2, 3, 500)),
        lambda: "A" * draw.one((100, 5000)) + "." + parts[1] + "." + parts[2],
        lambda: text[:at] + draw.one(TEXTS) + text[at:],
    )
    return draw.one(spoils)()


# -- users -----------------------------------------------------------------------------------

_ALL_DAY = [{"start": "00:00:00", "end": "23:59:59"}]


def _user_claims(draw: Draw) -> dict[str, Any]:
    """Return a claim or two that a user may make beside its limits."""
    patterns = [draw.one(("s0.>", "s1.>", "s0.a", "a.*", "$JS.API.>", ">")) for _ in range(3)]
    hour = draw.random.randrange(24)
    options: tuple[dict[str, Any], ...] = (
        {},
        {"pub": {"allow": [*patterns, "_INBOX.>"], "deny": ["s0.b"]}},
        {"sub": {"allow": ["_INBOX.>", "chunks", "s1.> q", *patterns], "deny": ["a.>", "b q"]}},
        {"sub": {"allow": ["_INBOX.>"]}, "resp": {"max": draw.one((0, 1, -1)), "ttl": SECOND}},
        {"src": ["10.0.0.0/8"]},
        {"src": ["10.0.0.0/8", "2001:db8::/32", "192.168.0.0/16"] * draw.one((1, 100))},
        {"times": _ALL_DAY},
        {"times": [{"start": f"{hour:02}:00:00", "end": "12:30:30"}, *_ALL_DAY]},
        {"times": _ALL_DAY, "times_location": draw.one(("Europe/Berlin", "UTC", "Local"))},
        {"allowed_connection_types": ["STANDARD", "WEBSOCKET"]},
        {"allowed_connection_types": [draw.one(("STANDARD", "WEBSOCKET", "MQTT", "LEAFNODE"))]},
        {"bearer_token": True},
        {"tags": ["team:red", "team:blue", "x", "x:y z"]},
        {"tags": ["team:red"] * draw.one((1, 200))},
        {"subs": draw.one((0, 1, 20)), "payload": draw.one((0, 10, 2000)), "data": 5},
    )
    return draw.one(options) | draw.one(options)


def user_claims(draw: Draw, name: str, of: str) -> tuple[Any, Key]:
    """Return what a user of an account claims, and whose key is to sign that."""
    nats, signer = USER_LIMITS | _user_claims(draw), account_key(of)
    if of == "A" and draw.often(0.4):
        signer = draw.one((SIGNING, SCOPED))
        if signer is SCOPED:
            many = [f"team:{number}" for number in range(draw.one((20, 200)))]
            nats = {"tags": draw.one((["team:red"], [], ["team:red", "team:x.y"], many))}
        nats["issuer_account"] = account_key(of).public
    claims = claimed("user", signer, user_key(name).public, draw.one((name, "n", "a.b")), nats)
    if draw.often(0.2):
        claims["exp"] = START_SECONDS + draw.one(_MOMENTS)
    if draw.often(0.1):
        claims["nbf"] = START_SECONDS + draw.one((-1, 0, 1, 31))
    return claims, signer


def _shown(draw: Draw, of: str = "") -> Show:
    of = of or draw.one(("A", "A", "A", "B", "SYS", "C"))
    name = draw.one(("a", "b", "s", "u1", "u2"))
    is_sound = draw.often(0.5)
    claims, signer = user_claims(draw, name, of)
    token = token_of(draw, claims, signer, is_sound=is_sound)
    signs, breaks = name, ()
    if draw.often(0.08):
        is_sound, signs = False, draw.one(("", "x"))
    if draw.often(0.08):
        is_sound = False
        breaks = ((draw.random.randrange(90), draw.one((None, b"==", b"\xff", b"+", b"A" * 90))),)
    who = draw.one((0, 0, 1, 2, 3, 4))
    return Show(who, token, signs, breaks, draw.often(0.15), is_sound)


def showing(draw: Draw) -> Steps:
    """Users come with JWTs of all kinds, and say something."""
    for _ in range(draw.random.randint(1, 4)):
        act = _shown(draw)
        yield act
        yield Publish(act.who, b"$SYS.REQ.USER.INFO", draw.reply())
        if draw.often(0.5):
            yield Publish(act.who, draw.subject(), draw.reply(), b"", b"x" * draw.one((0, 1, 50)))
            yield Publish(act.who, b"$JS.API.STREAM.NAMES", draw.reply())


def expiring(draw: Draw) -> Steps:
    """Users and accounts come whose time runs out while they are there."""
    seconds = draw.one(_MOMENTS)
    end = START_SECONDS + seconds + draw.one((0, 0, -1, -seconds, 10**9, 2**62))
    of = draw.one(("A", "B", "C"))
    if draw.often(0.4):
        claims = account_claims(draw, of, is_plain=True)
        claims["exp"] = end
        yield _update(draw, of, written(claims, OPERATOR))
    name = draw.one(("u1", "u2"))
    claims, signer = user_claims(draw, name, of)
    claims["exp"] = end
    who = draw.one((0, 1, 2))
    yield Show(who, token_of(draw, claims, signer, is_sound=True), name, is_sound=True)
    yield Publish(who, b"$JS.API.INFO", draw.reply())
    yield Pass(draw.one((SECOND, seconds * SECOND, seconds * SECOND + 1, 2 * seconds * SECOND)))
    yield Publish(who, b"$JS.API.INFO", draw.reply())


def cookies(draw: Draw) -> Steps:
    """Browsers come, whose cookies are JWTs."""
    act = _shown(draw)
    token = act.token if draw.often(0.5) else user_token("sentinel")
    cookie = b"Cookie: jwt=" + token.encode(errors="surrogatepass").replace(b"\n", b"")
    request = UPGRADE.replace(b"Cookie: jwt=a.b.c", cookie)
    said = b'CONNECT {"verbose":false}\r\nPUB s0.a 1\r\nx\r\nPING\r\n'
    frames = web_frame(0x82, said) + b"".join(
        web_frame(0x82, draw.one(FRAMES)) for _ in range(draw.random.randrange(3))
    )
    yield Web(request, frames)


# -- accounts --------------------------------------------------------------------------------


def _activation(draw: Draw, of: str, to: str, subject: str, kind: str) -> str:
    key = account_key(of)
    nats = {"subject": subject, "kind": kind}
    claims = claimed("activation", key, account_key(to).public, subject, nats)
    if draw.often(0.3):
        claims["exp"] = START_SECONDS + draw.one(_MOMENTS)
    return token_of(draw, claims, key, is_sound=draw.often(0.6))


def _exports(draw: Draw) -> dict[str, Any]:
    latency = {"sampling": draw.one((100, 1, "headers", 0)), "results": draw.one(("told", "a.b"))}
    revoked = {draw.one((account_key("B").public, "*")): START_SECONDS}
    options: tuple[dict[str, Any], ...] = (
        {"type": "stream", "subject": "news.>"},
        {"type": "stream", "subject": "paid.>", "token_req": True, "revocations": revoked},
        {"type": "service", "subject": "s0.>", "response_type": "Stream"},
        {"type": "service", "subject": "ask.*", "account_token_position": 2},
        {"type": "service", "subject": "help.>", "service_latency": latency},
        {"type": "service", "subject": "$JS.API.>", "response_type": "Chunked"},
        {"type": "service", "subject": "q.*", "response_type": "Singleton", "allow_trace": True,
         "response_threshold": draw.one((0, SECOND, -1)), "advertise": True,
         "info_url": "https://x.y"},
    )  # fmt: skip
    made = [{"name": "x", **draw.one(options)} for _ in range(draw.one((1, 2, 4)))]
    if draw.often(0.8):  # those of one kind may not overlap
        made = list({each["subject"]: each for each in made}.values())
    return {"exports": made}


def _imports(draw: Draw, name: str) -> dict[str, Any]:
    """Import from others, who may import from this one."""
    made = []
    for _ in range(draw.one((1, 2, 5))):
        of, kind = draw.one(("A", "B", "C", "X")), draw.one(("stream", "service"))
        subject = draw.one(("news.>", "paid.>", "s0.>", "help.>", "$JS.API.>", "q.*", "s0.a"))
        fields = draw.one((
            {}, {"to": "from"}, {"to": subject}, {"local_subject": "far." + subject},
            {"local_subject": "q.$1"}, {"local_subject": subject, "share": True},
            {"token": _activation(draw, of, name, subject, kind), "allow_trace": True},
        ))  # fmt: skip
        made.append(imported(kind, of, subject, **fields))
    asked = f"ask.{account_key(name).public}"
    return {"imports": [*made, imported("service", "A", asked, local_subject="asked")]}


def _mappings(draw: Draw) -> dict[str, Any]:
    destination = draw.one((
        "s0.$1", "s0.{{wildcard(1)}}", "s1.a", "{{partition(9,1)}}.x", "s0.{{split(1,-)}}", "m.$1",
        "s0.{{random(5)}}", "s0.{{slicefromleft(1,3)}}.x", draw.text(),
    ))  # fmt: skip
    weight = draw.one((0, 50, 100))
    entries = [{"subject": destination, "weight": weight}, {"subject": "s1.b", "weight": 1}]
    if draw.often(0.3):
        entries[0]["cluster"] = draw.one(("", "c", draw.text()))
    return {"mappings": {draw.one(("m.*", "s0.a", "s0.*", ">")): entries[: draw.one((1, 2))]}}


def _account_options(draw: Draw, name: str) -> dict[str, Any]:
    """Return a claim or two that an account may make beside what it is usual to."""
    tier = {"mem_storage": 1000, "disk_storage": draw.one((2000, -1)), "streams": 2, "consumer": 2}
    keys = [SIGNING.public, SCOPE, *(account_key(f"key {n}").public for n in range(3))]
    template = {**USER_LIMITS, "bearer_token": True, "src": ["10.0.0.0/8"], "times": _ALL_DAY}
    tagged = draw.one(("{{tag(team)}}", "{{tag(team)}}.{{tag(team)}}", "{{tag(team)}}.x q"))
    if draw.often(0.3):
        tagged = ".".join([tagged] * draw.one((2, 20)))
    direction = draw.one(("pub", "sub"))
    template |= {direction: {draw.one(("allow", "deny")): [tagged, "{{account-tag(area)}}.>"]}}
    options: tuple[Callable[[], dict[str, Any]], ...] = (
        lambda: {"limits": ACCOUNT_LIMITS | STORAGE},
        lambda: {"limits": ACCOUNT_LIMITS | tier | {
            "max_bytes_required": draw.often(0.3), "disk_max_stream_bytes": 1500,
            "mem_max_stream_bytes": 900, "max_ack_pending": 3}},
        lambda: {"limits": ACCOUNT_LIMITS | {"tiered_limits": {"R1": tier, "R3": tier}}},
        lambda: {"limits": ACCOUNT_LIMITS | STORAGE | {
            draw.one(("subs", "payload", "conn", "leaf", "data")): draw.one((0, 1, 3, 100))}},
        lambda: {"limits": ACCOUNT_LIMITS | STORAGE | {"disallow_bearer": True}},
        lambda: {"limits": {}},
        lambda: _exports(draw),
        lambda: _exports(draw),
        lambda: _imports(draw, name),
        lambda: _imports(draw, name),
        lambda: _mappings(draw),
        lambda: {"revocations": {
            draw.one(("*", user_key("a").public, user_key("u1").public)): START_SECONDS}},
        lambda: {"signing_keys": draw.one((keys, [], [{**SCOPE, "template": template}]))},
        lambda: {"default_permissions": {"pub": {"deny": ["s0.b"]}, "sub": {"allow": [">"]},
                                         "resp": {"max": 2, "ttl": 0}}},
        lambda: {"trace": {"dest": draw.one(("t.x", "t")), "sampling": draw.one((0, 100, 1))}},
        lambda: {"tags": ["area:north", "x"], "description": "d", "info_url": "https://x.y"},
        lambda: {"authorization": {"auth_users": [user_key("a").public], "allowed_accounts": ["*"],
                                   "xkey": ""}, "cluster_traffic": "owner"},
    )  # fmt: skip
    return draw.one(options)() | (draw.one(options)() if draw.often(0.5) else {})


def account_claims(draw: Draw, name: str, *, is_plain: bool = False) -> Any:
    """Return what an account claims, by the operator."""
    body = account_body(name) | ({} if is_plain else _account_options(draw, name))
    claims = claimed("account", OPERATOR, account_key(name).public, name, body)
    claims["iat"] = START_SECONDS + draw.random.randrange(-100, 100)
    return claims


def _update(draw: Draw, name: str, token: str) -> Publish:
    key = account_key(name).public
    subject = draw.one(("CLAIMS.UPDATE", "CLAIMS.UPDATE", f"ACCOUNT.{key}.CLAIMS.UPDATE"))
    body = token.encode(errors="surrogatepass")
    who = 3 if draw.often(0.97) else draw.one((0, 2))
    return Publish(who, b"$SYS.REQ." + subject.encode(), draw.reply(), b"", body)


def updating_accounts(draw: Draw) -> Steps:
    """Accounts come, change, and are as they were again; who is in one of them says something."""
    for _ in range(draw.random.randint(1, 3)):
        name = draw.one(("A", "A", "B", "B", "C", "SYS")) if draw.often(0.8) else "C"
        claims, signer = account_claims(draw, name), OPERATOR
        if draw.often(0.3):
            signer = OPERATOR_SIGNING
            claims["iss"] = signer.public
        yield _update(draw, name, token_of(draw, claims, signer, is_sound=draw.often(0.5)))
        if draw.often(0.6):
            yield _shown(draw, name)
        if draw.often(0.4):
            yield from asking_about_claims(draw, name)
        if draw.often(0.4):
            yield Publish(draw.one((0, 2)), draw.subject(), draw.reply(), b"", b"x")
            yield Publish(draw.one((0, 2)), b"help.a", draw.reply(), b"", b"x")
        if draw.often(0.6):
            yield _update(draw, name, account_token(name))


def deleting_accounts(draw: Draw) -> Steps:
    """The operator has accounts deleted, of which some come back."""
    names = [draw.one(("A", "B", "C", "SYS", "none")) for _ in range(draw.one((0, 1, 1, 2)))]
    key = draw.one((OPERATOR, OPERATOR, OPERATOR, OPERATOR_SIGNING, OTHER_OPERATOR))
    keys = [account_key(name).public for name in names]
    claims = claimed("generic", key, key.public, "gone", {"accounts": keys})
    token = token_of(draw, claims, key, is_sound=draw.often(0.6))
    body = token.encode(errors="surrogatepass")
    yield Publish(3, b"$SYS.REQ.CLAIMS.DELETE", draw.reply(), b"", body)
    yield from asking_about_claims(draw)
    for name in names:
        if draw.often(0.8):
            yield _update(draw, name if name != "none" else "C", account_token("C"))
            yield _update(draw, "A", account_token("A"))


_ASKED = ("INFO", "CONNZ", "SUBSZ", "JSZ", "CONNS", "STATZ", "CLAIMS.LOOKUP", "CLAIMS.LOOKUP")
_PINGED = ("ACCOUNTZ", "CONNZ", "JSZ", "SUBSZ", "HEALTHZ", "STATSZ", "VARZ")


def asking_about_claims(draw: Draw, name: str = "") -> Steps:
    """The system account, and monitoring, are asked what is claimed."""
    for _ in range(draw.random.randint(1, 3)):
        key = account_key(name or draw.one(("A", "B", "C", "X", "SYS"))).public
        if draw.often(0.05):
            key = draw.one(RAW).decode(errors="replace").replace(" ", "").replace("\r", "")
        match draw.random.randrange(5):
            case 0:
                subject = draw.one(("CLAIMS.LIST", "CLAIMS.PACK"))
                yield Publish(3, b"$SYS.REQ." + subject.encode(), draw.reply())
            case 1:
                subject = f"$SYS.REQ.ACCOUNT.{key}.{draw.one(_ASKED)}"
                yield Publish(3, subject.encode(), draw.reply())
            case 2:
                fields = {draw.one(("account", "acc")): key, "auth": True, "subscriptions": True}
                subject = "$SYS.REQ.SERVER.PING." + draw.one(_PINGED)
                yield Publish(3, subject.encode(), draw.reply(), b"", draw.body(fields))
            case 3:
                who = draw.random.randrange(5)
                yield Publish(who, b"$SYS.REQ.USER.INFO", draw.reply())
            case _:
                path = draw.one(("/accountz", "/connz", "/accstatz", "/jsz", "/subsz", "/metrics"))
                found = draw.one((("acc", key), ("auth", "true"), ("accounts", "true")))
                yield Look(path, (found, ("subs", "true")))
