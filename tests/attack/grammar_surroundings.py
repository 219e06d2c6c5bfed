"""What an attacker says to all around JetStream, and where only the server speaks to itself."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace
from typing import Any

from tests.attack.acts import (
    Crash,
    Heard,
    Join,
    Look,
    Pass,
    Publish,
    Reload,
    Say,
    Steps,
    Web,
    mutated,
)
from tests.attack.draws import RAW, SECOND, STREAMS, Draw
from tests.attack.grammar_jetstream import (
    acking,
    any_request,
    batches,
    fast_batches,
    getting,
    headers_of_a_feature,
    making_consumers,
    making_streams,
    publishing,
    pulling,
    request,
    stream_config,
)

# -- what only the server's own parts may send ---------------------------------------------------


def feeds(draw: Draw) -> Steps:
    """Messages to feeds, flow control, inboxes and transfers of the server's own parts."""
    for _ in range(draw.random.randint(1, 4)):
        kind = draw.one(("feed", "inbox", "flow", "snapshot", "restore", "service", "system"))
        breaks: tuple[tuple[int, bytes | None], ...] = ()
        if draw.often(0.3):
            breaks = ((draw.random.randrange(9), draw.one((None, *RAW[:6]))),)
        status = draw.one((b"NATS/1.0 100 Idle Heartbeat", b"NATS/1.0 100 FlowControl Request",
        b"NATS/1.0",
                           b"NATS/1.0 409 Consumer Deleted",
                           b"NATS/1.0 " + draw.one(RAW)))  # fmt: skip
        lines = [b"Nats-Last-Consumer: " + draw.digits(), b"Nats-Last-Stream: " + draw.digits(),
                 b"Nats-Consumer-Stalled: $JS.FC.S0.C0.x",
                 b"Nats-Pending-Messages: " + draw.digits()]  # fmt: skip
        draw.random.shuffle(lines)
        headers = b"\r\n".join([status, *lines[: draw.random.randrange(5)]]) + b"\r\n\r\n"
        reply: bytes | Heard = (
            Heard("ack", draw.random.randrange(16)) if draw.often(0.4) else draw.reply()
        )
        if draw.often(0.3):
            reply = b"$JS.ACK.S0.C0.1.%b.%b.%b.%b" % tuple(
                draw.digits().replace(b" ", b"").replace(b"\r", b"") for _ in range(4)
            )
        payload = draw.one(
            (b"", b"x", b"{}", b'{"error":{"code":404,"err_code":10059}}', b'{"config":{"name":1}}')
        )
        target = Heard(kind, draw.random.randrange(16), breaks)
        yield Publish(
            draw.one((0, 1, 2, 3)), target, reply, headers if draw.often(0.7) else b"", payload
        )


def transfers(draw: Draw) -> Steps:
    """Snapshots, and restores of what they held with some of it changed."""
    name = draw.one(STREAMS)
    wish = {"deliver_subject": "chunks", "chunk_size": draw.one((0, 1024, 2**31)),
    "no_consumers": False,
            "window_size": draw.one((0, 1024)), "jsck": True}  # fmt: skip
    yield request(draw, f"STREAM.SNAPSHOT.{name}", wish)
    for _ in range(draw.random.randrange(4)):
        yield Publish(0, Heard("snapshot", draw.random.randrange(16)), b"", b"", b"")
    other = draw.one(STREAMS)
    fields = {
        "config": stream_config(draw, other),
        "state": {"messages": 1, "first_seq": 1, "last_seq": draw.number()},
    }
    yield request(draw, f"STREAM.RESTORE.{other}", fields)
    for _ in range(draw.random.randint(1, 4)):
        breaks = tuple(
            (draw.random.randrange(1 << 16), draw.one((None, b"", *RAW[:8])))
            for _ in range(draw.one((0, 0, 1, 3)))
        )  # fmt: skip
        yield Publish(
            0,
            Heard("restore", -1),
            draw.reply(),
            b"",
            Heard("chunk", draw.random.randrange(16), breaks),
        )
    yield Publish(0, Heard("restore", -1), draw.reply(), b"", b"")
    yield Pass(draw.one((0, SECOND, 6 * SECOND)))


# -- accounts, the system, monitoring -------------------------------------------------------------

SYSTEM = (
    "USER.INFO", "SERVER.PING", "SERVER.PING.CONNZ", "ACCOUNT.PING.CONNZ", "ACCOUNT.PING.STATZ",
    "SERVER.PING.VARZ", "SERVER.PING.SUBSZ", "SERVER.PING.JSZ", "SERVER.PING.HEALTHZ",
    "SERVER.PING.STATSZ", "SERVER.PING.ACCOUNTZ", "SERVER.PING.EXPVARZ", "SERVER.PING.PROFILEZ",
    "SERVER.PING.ROUTEZ", "SERVER.PING.GATEWAYZ", "SERVER.PING.LEAFZ", "SERVER.PING.IDZ",
    "ACCOUNT.A.JSZ", "ACCOUNT.A.CONNZ", "ACCOUNT.A.INFO", "ACCOUNT.A.SUBSZ", "ACCOUNT.NONE.CONNS",
    "CLAIMS.LIST", "CLAIMS.UPDATE", "CLAIMS.DELETE", "CLAIMS.PACK", "ACCOUNT.A.CLAIMS.LOOKUP",
)  # fmt: skip
PARAMETERS = (
    "acc", "account", "accounts", "auth", "cid", "config", "consumer", "consumers", "data",
    "detail",
    "details", "direct-consumers", "exact_match", "filter_subject", "js-enabled", "js-enabled-only",
    "js-meta-only", "js-server-only", "limit", "name", "offset", "raft", "sort", "state", "stream",
    "streams", "subs", "subscriptions", "subscriptions_detail", "test", "unused", "user",
    "server_name",
    "tags", "cluster", "host", "domain", "seconds",
)  # fmt: skip
PATHS = (
    "/varz",
    "/connz",
    "/jsz",
    "/healthz",
    "/subsz",
    "/accountz",
    "/accstatz",
    "/metrics",
    "/debug/vars",
)


def asking_the_system(draw: Draw) -> Steps:
    """Requests to the system, from its account and from others."""
    for _ in range(draw.random.randint(1, 3)):
        fields = {draw.one(PARAMETERS): draw.value() for _ in range(draw.random.randrange(4))}
        subject = "$SYS.REQ." + draw.one(SYSTEM)
        if draw.often(0.1):
            subject = draw.one(
                ("$JS.API.ACCOUNT.PURGE.B", "$JS.API.ACCOUNT.PURGE.NONE", "$SYS.ACCOUNT.A.CONNECT")
            )
        yield Publish(
            draw.one((3, 3, 0, 2)), subject.encode(), draw.reply(), b"", draw.body(fields)
        )


def _heard(text: str) -> str:
    """Return what arrives of a text in a URL, which can not hold half of a character."""
    return text.encode(errors="replace").decode()


def looking(draw: Draw) -> Steps:
    """Questions to monitoring."""
    for _ in range(draw.random.randint(1, 3)):
        found = tuple(
            (
                draw.one(PARAMETERS),
                draw.one(
                    (
                        _heard(draw.text()),
                        str(draw.random.randrange(5)),
                        "true",
                        "9" * 5000,
                        "A",
                        "S0",
                    )
                ),
            )
            for _ in range(draw.random.randrange(4))
        )
        yield Look(draw.one(PATHS), found)


def crossing(draw: Draw) -> Steps:
    """Services and streams between accounts."""
    yield Say(2, b"SUB from.> 50\r\nSUB told.> 51\r\n")
    yield Say(0, b"SUB help.> 52\r\nSUB news.> 53\r\n")
    for _ in range(draw.random.randint(1, 3)):
        headers = draw.block(headers_of_a_feature(draw)) if draw.often(0.3) else b""
        yield Publish(
            2, b"help." + draw.one((b"a", b"\xff", b"x" * 300)), draw.reply(), headers, b"x"
        )
        yield Publish(0, b"news." + draw.one((b"a", b"\xff")), draw.reply(), headers, b"x")
    for _ in range(2):
        yield Publish(
            0,
            Heard("service", draw.random.randrange(16)),
            b"",
            draw.block([]) if draw.often(0.3) else b"",
            b"here",
        )
    if draw.often(0.3):
        yield Say(0, b"UNSUB 52\r\nUNSUB 53\r\n")


_ASKED = (
    making_streams, making_consumers, pulling, acking, getting, any_request, publishing, batches,
    fast_batches,
)  # fmt: skip


def importing(draw: Draw) -> Steps:
    """What another account imports: the API, acks, streams to publish to, and deliveries."""
    yield Say(2, b"SUB came.> 54\r\nSUB from.> 55\r\n")
    for act in draw.one(_ASKED)(draw):
        if not isinstance(act, Publish):
            yield act
            continue
        subject = act.subject
        if isinstance(subject, bytes) and subject.startswith(b"$JS.API."):
            subject = b"from.API." + subject.removeprefix(b"$JS.API.")
        elif isinstance(subject, bytes) and subject.startswith((b"s0.", b"s4.")):
            subject = b"far." + subject
        yield replace(act, who=2, subject=subject)
    if draw.often(0.3):
        config = {"name": "C2", "durable_name": "C2", "deliver_subject": "d.x", "ack_policy": "all"}
        fields = {"stream_name": "S0", "config": config | draw.one(({}, {"flow_control": True}))}
        yield Publish(2, b"from.API.CONSUMER.CREATE.S0.C2", draw.reply(), b"", draw.body(fields))


def external_origins(draw: Draw) -> Steps:
    """Mirrors and sources across accounts, whose API and deliveries come through imports."""
    yield Reload(2)
    external = {"api": draw.one(("from.API", "from.API", "$JS.hub.API", draw.text()))}
    if draw.often(0.8):
        external["deliver"] = draw.one(("came.y", "came", draw.text()))
    origin = {"name": draw.stream(), "external": external}
    form = {"mirror": origin} if draw.often(0.5) else {"sources": [origin]}
    yield request(draw, "STREAM.CREATE.E", {"name": "E", **form}, 2)
    yield Publish(0, draw.subject(), draw.reply(), b"", b"x")
    yield Pass(draw.one((SECOND, 12 * SECOND)))
    yield request(draw, draw.one(("STREAM.INFO.E", "STREAM.DELETE.E")), {}, 2)


def reloading(draw: Draw) -> Steps:
    """The operator changes the configuration."""
    yield Reload(draw.random.randrange(4))


def passing(draw: Draw) -> Steps:
    """Time passes."""
    yield Pass(
        draw.one(
            (
                10**6,
                10**8,
                SECOND,
                SECOND,
                2 * SECOND,
                31 * SECOND,
                150 * SECOND,
                7200 * SECOND,
                86_400 * 400 * SECOND,
            )
        )
    )


def crashing(draw: Draw) -> Steps:
    """The process is killed, and starts with what it had stored."""
    yield Crash()


# -- the wire -----------------------------------------------------------------------------------

FRAMES = (
    b"PUB s0.a 5\r\nhello\r\n", b"PUB s0.a r 5\r\nhello\r\n",
    b"HPUB s0.a 12 17\r\nNATS/1.0\r\n\r\nhello\r\n",
    b"SUB a.> 7\r\n", b"SUB a.* q 8\r\n", b"SUB > 9\r\n", b"UNSUB 7\r\n", b"UNSUB 8 3\r\n",
    b"PING\r\n", b"PONG\r\n",
    b"+OK\r\n", b"-ERR 'x'\r\n", b"INFO {}\r\n", b'CONNECT {"verbose":true,"pedantic":true}\r\n',
    b'CONNECT {"user":"b","pass":"x"}\r\n', b"SUB _INBOX.> 1\r\n", b"SUB push.x 60\r\n",
    b"SUB s0.a g 61\r\n",
    b"SUB $JS.API.> 62\r\n", b"SUB $SYS.> 63\r\n", b"UNSUB 1 18446744073709551616\r\n",
    b"SUB \xff 64\r\n",
    b"SUB a b c d\r\n", b"PUB a 99999999999999999999\r\n", b"HPUB a 5 3\r\nabc\r\n",
    b"UNSUB 60\r\n",
)  # fmt: skip


def speaking(draw: Draw) -> Steps:
    """Frames of the protocol, and nearly frames."""
    who = draw.random.randrange(5)
    data = b"".join(draw.one(FRAMES) for _ in range(draw.random.randint(1, 8)))
    if draw.often(0.4):
        data = mutated(draw.random, data, RAW)
    yield Say(who, data)
    if draw.often(0.5):
        yield Join(who)


CONNECTS: dict[str, Any] = {
    "verbose": False, "pedantic": False, "echo": True, "headers": True, "no_responders": True,
    "protocol": 1, "user": "a", "pass": "x", "auth_token": "t", "nkey": "U" + "A" * 55, "sig": "x",
    "jwt": "a.b.c", "name": "n", "lang": "l", "version": "1", "tls_required": False,
    "account": "A", "new_account": True,
}  # fmt: skip


def joining(draw: Draw) -> Steps:
    """Clients come with any CONNECT."""
    keys = [key for key in CONNECTS if draw.often(0.5)]
    yield Join(
        draw.random.randrange(5), draw.body({key: CONNECTS[key] for key in keys} or {"user": "a"})
    )
    yield Join(draw.random.randrange(5))


UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Extensions: permessage-deflate\r\nCookie: jwt=a.b.c; x=\xff\r\n\r\n"
)


def web_frame(first: int, data: bytes, length: int = -1) -> bytes:
    """Return a frame of a WebSocket client."""
    size = len(data) if length < 0 else length
    if size < 126:
        return bytes([first, 0x80 | size]) + bytes(4) + data
    if size < 1 << 16:
        return bytes([first, 0xFE]) + struct.pack("!H", size) + bytes(4) + data
    return bytes([first, 0xFF]) + struct.pack("!Q", size % 2**64) + bytes(4) + data


def deflated(data: bytes) -> bytes:
    """Return a message as compressing clients send it."""
    deflater = zlib.compressobj(wbits=-15)
    return (deflater.compress(data) + deflater.flush(zlib.Z_SYNC_FLUSH))[:-4]


def web(draw: Draw) -> Steps:
    """WebSocket clients, with frames that are none."""
    request = UPGRADE if draw.often(0.7) else mutated(draw.random, UPGRADE, RAW)
    frames = b""
    for _ in range(draw.random.randint(1, 6)):
        data = draw.one(FRAMES) if draw.often(0.8) else b"x" * draw.one((0, 125, 126, 1000))
        kind = draw.one((0x82, 0x82, 0xC2, 0x02, 0x80, 0x89, 0x8A, 0x88, 0x81, 0x40, 0xB2, 0xC0))
        body = deflated(data) if kind & 0x40 else data
        length = -1 if draw.often(0.9) else draw.one((0, 127, 1 << 20, 2**63, 2**64 - 1))
        frames += web_frame(kind, body, length)
    if draw.often(0.3):
        frames = mutated(draw.random, frames, RAW)
    yield Web(request, frames)
