"""Parsers and decoders by themselves: any bytes give a result, or the one error they may raise.

A target takes any bytes; whatever it raises is a defect. With it come inputs that are sensible,
from which a fuzzer makes others.
"""

from __future__ import annotations

import contextlib
import json
import re
from array import array
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from jetstream_server.base import nkey
from jetstream_server.base.errors import ApiError, ConfigError, StoreError
from jetstream_server.base.time_zone import find_zone
from jetstream_server.config.account_options import claimed_accounts
from jetstream_server.config.claims.account_claims import AccountClaims
from jetstream_server.config.claims.token import ClaimsError
from jetstream_server.config.claims.user_claims import UserClaims
from jetstream_server.config.lexer import parse_text
from jetstream_server.config.load import options_of
from jetstream_server.core.subject import matches
from jetstream_server.core.transform import Transform, TransformError
from jetstream_server.core.wildcard_mapping import WildcardMapping
from jetstream_server.jetstream.configs.consumer_config import ConsumerBounds, ConsumerConfig
from jetstream_server.jetstream.configs.stream_config import StreamConfig, StreamConfigRequest
from jetstream_server.jetstream.consumers.ack import (
    ack_counts,
    ack_sequence,
    ack_verb,
    nak_delay,
)
from jetstream_server.jetstream.consumers.pull_request import parse_request
from jetstream_server.jetstream.origins.source_header import parse_source
from jetstream_server.jetstream.snapshots.archive import ArchiveError, ArchiveReader, encode_entry
from jetstream_server.jetstream.snapshots.consumer_snapshot import decode_consumer
from jetstream_server.jetstream.snapshots.s2 import S2Error, S2Reader, frames
from jetstream_server.jetstream.streams.batches.fast_batch import parse_reply
from jetstream_server.jetstream.streams.messages.message_ttl import parse_ttl
from jetstream_server.jetstream.streams.messages.publish_headers import (
    extended,
    replaced,
    special_headers,
    storable,
    without,
)
from jetstream_server.jetstream.streams.schedules.schedule_timing import parse_timing
from jetstream_server.jetstream.wire.go_duration import parse_duration
from jetstream_server.jetstream.wire.go_json import decode, encode
from jetstream_server.jetstream.wire.go_time import parse_time
from jetstream_server.jetstream.wire.json_syntax import parse_values
from jetstream_server.net.layer import LayerError
from jetstream_server.net.websocket_layer import WebsocketLayer
from jetstream_server.net.websocket_upgrade import WebsocketRules
from jetstream_server.protocol import headers
from jetstream_server.protocol.ops import PubRun
from jetstream_server.protocol.parser import Parser
from jetstream_server.store.blocks import index, tombstone
from jetstream_server.store.blocks.compressed_block import compress, inflate_whole
from jetstream_server.store.blocks.high_water import HighWater
from jetstream_server.store.disk import state_log

from tests.attack.grammar_surroundings import UPGRADE, deflated, web_frame
from tests.fuzz.parsers import blocks, restores
from tests.parity import credentials

NOW = 1_700_000_000 * 10**9
PLACE = Path("/store/1.blk")
# Of a time that may be told as a number, JSON has this much room.
INT64 = range(-(2**63), 2**64)


class Target(NamedTuple):
    """One thing that takes bytes.

    Attributes:
        run: raises whatever is a defect.
        seeds: sensible inputs.
        longest: how long inputs become: short ones are quicker.
    """

    run: Callable[[bytes], None]
    seeds: tuple[bytes, ...]
    longest: int = 1024


# -- protocol ----------------------------------------------------------------------------------

SPOKEN = (
    b'CONNECT {"verbose":false,"headers":true}\r\nPUB a.b r 5\r\nhello\r\n',
    b"HPUB a 12 17\r\nNATS/1.0\r\n\r\nhello\r\nSUB a.> q 7\r\nUNSUB 7 3\r\nPING\r\nPONG\r\n",
    b"pub a 0\r\n\r\n+OK\r\n-ERR 'x'\r\nINFO {}\r\nPUB b 3\r\nabc\r\n",
)


def _told(op: object) -> list[object]:
    if isinstance(op, PubRun):
        return [
            (op.subject(at), op.reply(at), op.headers(at), op.payload(at)) for at in range(op.count)
        ]
    return [(type(op).__name__, repr(op) if not hasattr(op, "options") else op.options)]


def frames_of_clients(data: bytes) -> None:
    """What is said is the same however it is cut."""
    step = 1 + data[0] % 17 if data else 1
    told: list[list[object]] = []
    for size in (len(data) or 1, step):
        parser = Parser(100, 64)
        parser.headers = True
        found: list[object] = []
        for at in range(0, len(data), size):
            for op in parser.feed(data[at : at + size]):
                found += _told(op)
        told.append(found)
    assert told[0] == told[1]


def header_blocks(data: bytes) -> None:
    """Of a block anything can be asked, and it can be changed."""
    special_headers(data)
    for key in (b"Nats-Msg-Id", b"A", b""):
        found = headers.get(data, key)
        assert found is None or found in data
        assert len(headers.strip(data, [key])) <= len(data)
        without(data, key)
    headers.pairs(data)
    headers.status(data)
    storable(data)
    extended(data, b"A: b\r\n")
    replaced(data, b"Nats-Msg-Id", b"x")
    parse_source(data)


def websocket(data: bytes) -> None:
    """A request and frames, cut anywhere."""
    step = 1 + data[-1] if data else 1
    layer = WebsocketLayer(WebsocketRules(inflated_max=1 << 16, is_compressing=True))
    if data[:3] != b"GET":
        layer.receive(UPGRADE)
    with contextlib.suppress(LayerError):
        for at in range(0, len(data), step):
            layer.receive(data[at : at + step])
            while layer.is_holding:
                layer.receive(b"")
    layer.send(b"x")
    layer.end("Client Closed")
    layer.take_output()


# -- what operators write ------------------------------------------------------------------------

CONFIGURATION = rb"""
port: 4222  # clients
server_name: "n1"
max_payload: 1MB, ping_interval: "2m", server_tags: ["t"]
jetstream { store_dir: /tmp/x, max_mem: 1GB, limits { max_ack_pending: 10 } }
A = 'secret'
authorization { users = [ {user: a, password: $A, permissions: {publish: ["a.>"]}} ] }
accounts { B: { users: [{user: b, password: b}], jetstream: enabled, mappings: {x: y},
  exports: [{stream: "a.>"}, {service: "h", latency: {sampling: 10, subject: "l"}}] }
  C: { imports: [{stream: {account: B, subject: "a.>"}}] } }
websocket { port: 80, no_tls: true }
"""
_INCLUDES = re.compile(rb"include|tls|dir|file|creds|resolver|operator|sd|log|pid", re.I)


def configuration(data: bytes) -> None:
    """A file: options, or what is wrong with it. Nothing is opened."""
    if _INCLUDES.search(data):
        return
    with contextlib.suppress(ConfigError, UnicodeDecodeError):
        options_of(parse_text(data.decode(), "/nowhere/server.conf", {"B": "b"}))


# -- JWTs ------------------------------------------------------------------------------------------

_ACCOUNT = credentials.account_key("PLAIN")
_HEAD = credentials._base64(b'{"typ":"JWT","alg":"ed25519-nkey"}')
# Signatures take most of the time; the long run does without (`trust_all`).
is_signing = True


def trust_all() -> None:
    """Have every signature of this process taken for a right one."""
    global is_signing
    is_signing = False
    nkey.is_signed = lambda key, signature, data: True


def _signed(key: credentials.Key, body: bytes) -> str:
    text = f"{_HEAD}.{credentials._base64(body)}"
    return f"{text}.{key.sign(text) if is_signing else ''}"


def _claims(token: str) -> bytes:
    return bytes(nkey.decoded(token.split(".")[1]))


def user_claims(data: bytes) -> None:
    """What an account has signed of a user."""
    token = _signed(_ACCOUNT, data)
    with contextlib.suppress(ClaimsError):
        claims = UserClaims.read(token)
        claims.is_current(1_700_000_000)
        grants = claims.nats
        if not grants.problem():
            grants.is_from("10.0.0.1")
            grants.seconds_left(1_700_000_000)
            grants.as_options()


def account_claims(data: bytes) -> None:
    """What an operator has signed of an account."""
    token = _signed(credentials.OPERATOR, data)
    with contextlib.suppress(ClaimsError):
        AccountClaims.read(token)
    claimed_accounts({_ACCOUNT.public: token}, (credentials.OPERATOR.public,), 1_700_000_000)


# -- JetStream -------------------------------------------------------------------------------------

CONFIG = {
    "name": "S", "subjects": ["a", "b.>"], "max_age": 5, "storage": "memory", "max_bytes": -1,
    "sources": [{"name": "O", "opt_start_time": "2026-01-02T03:04:05Z", "opt_start_seq": 1}],
    "backoff": [1, 2], "metadata": {"k": "v"}, "republish": {"src": "a", "dest": "b"},
    "config": {"durable_name": "d", "pause_until": "2026-01-02T03:04:05Z"}, "placement": {},
}  # fmt: skip


def requests(data: bytes) -> None:
    """JSON of requests; what is understood can be said again."""
    parse_values(data)
    for model in (StreamConfigRequest, ConsumerConfig):
        for strict in (True, False):
            with contextlib.suppress(ApiError):
                encode(decode(data, model, strict=strict).to_wire())
    parse_request(b"_INBOX.r", data, NOW)


def acks(data: bytes) -> None:
    """Subjects and bodies of acks, and subjects of fast batches."""
    subject, _, body = data.partition(b" ")
    assert ack_sequence(subject) in INT64
    if len(subject.split(b".")) > 8:
        assert all(count in INT64 for count in ack_counts(subject))
    ack_verb(body)
    assert nak_delay(body) in INT64
    with contextlib.suppress(ApiError):
        parse_reply(subject)


def times(data: bytes) -> None:
    """Times, durations, schedules and zones."""
    text = data.decode("latin-1")
    with contextlib.suppress(ValueError):
        parse_time(text)
    found = parse_duration(text)
    assert found is None or found in INT64
    parse_ttl(data)
    if "/" not in text and len(text) < 10:
        find_zone(text)
    timing = parse_timing(text, "Europe/Berlin" if len(data) % 2 else "")
    if timing is not None:
        timing.next_after(NOW)


def transforms(data: bytes) -> None:
    """Mappings from subjects to subjects."""
    source, _, rest = data.partition(b" ")
    target, _, subject = rest.partition(b" ")
    with contextlib.suppress(TransformError):
        Transform(source, target).apply(subject, Random(1))
    mapping = WildcardMapping(source, target)
    mapping.reverse(subject)
    if matches(source, subject):
        mapping.forward(subject)


def archives(data: bytes) -> None:
    """Backups, compressed or not."""
    reader, unpacker = ArchiveReader(), S2Reader()
    with contextlib.suppress(S2Error, ArchiveError):
        for at in range(0, len(data), 37):
            unpacker.feed(data[at : at + 37])
            while (content := unpacker.next_block()) is not None:
                reader.feed(content)
                while reader.next_entry() is not None:
                    pass
    reader = ArchiveReader()
    with contextlib.suppress(ArchiveError):
        reader.feed(data)
        while reader.next_entry() is not None:
            pass


SNAPSHOT: dict[str, Any] = {
    "config": {"name": "C", "durable_name": "C", "ack_policy": "explicit"}, "created": 5,
    "state": {"delivered": {"consumer_seq": 2, "stream_seq": 2},
              "ack_floor": {"consumer_seq": 1, "stream_seq": 1},
              "pending": {"2": {"Sequence": 2, "Timestamp": 5}}, "redelivered": {"2": 1}},
}  # fmt: skip


def consumers_of_backups(data: bytes) -> None:
    """The state of a consumer in a backup."""
    config = StreamConfig.model_construct(name="S")
    with contextlib.suppress(ArchiveError):
        decode_consumer("C", data, config, ConsumerBounds())


# -- files -----------------------------------------------------------------------------------------


def files(data: bytes) -> None:
    """Indexes, states, marks and compressed blocks."""
    summary = index.decode(data)
    if summary is not None:
        index.decode_entries(data, summary)
    tombstone.decode(data, 0, len(data))
    for entry in state_log._entries(data):
        HighWater().add(entry)
    HighWater().add(data)
    with contextlib.suppress(StoreError):
        inflate_whole(data, PLACE)


def _index() -> bytes:
    summary = index.Summary(
        first_seq=1, last_seq=2, entries=2, accounted=20, recorded=40, block_bytes=60, block_crc=5,
        first_ts=1, last_ts=2, sparse=False, counts=array("I", [2]), firsts=array("I", [0]),
        lasts=array("I", [1]), names=b"s.a", lengths=array("H", [3]), tombstones=b"",
        entries_at=0, entries_crc=0, compressed_bytes=0,
    )  # fmt: skip
    entries = index.Entries(array("I", [0, 20]), array("I", [0, 0]), array("I"))
    return b"".join(index.encode(summary, entries))


TARGETS = {
    "frames": Target(frames_of_clients, SPOKEN),
    "headers": Target(
        header_blocks,
        (
            b"NATS/1.0 503 No\r\nNats-Msg-Id: 1\r\nA:b\r\na: c\r\n\r\n",
            b"NATS/1.0\r\nNats-Schedule: @every 1s\r\nNats-Incr: +5\r\n\r\n",
            b"S1:x 7 a.> b.> a.b",
        ),
    ),
    "websocket": Target(
        websocket,
        (
            UPGRADE,
            web_frame(0x82, SPOKEN[0]) + web_frame(0x89, b"x"),
            web_frame(0xC2, deflated(SPOKEN[1])) + web_frame(0x88, b"\x03\xe8bye"),
            UPGRADE + web_frame(0x02, b"PI") + web_frame(0x80, b"NG\r\n"),
        ),
    ),
    "configuration": Target(configuration, (CONFIGURATION,)),
    "users": Target(
        user_claims,
        tuple(
            _claims(token)
            for name, token in credentials.users().items()
            if name in ("plain", "small", "socket", "late", "folder", "unborn", "lengthy")
        ),
    ),
    "accounts": Target(
        account_claims, tuple(_claims(token) for token in credentials.accounts().values())
    ),
    "requests": Target(
        requests,
        (
            json.dumps(CONFIG).encode(),
            b'{"batch":5,"expires":1000000000,"no_wait":true,"group":"A","id":"x","priority":1}',
        ),
    ),
    "acks": Target(
        acks,
        (
            b"$JS.ACK.S.C.1.22.3.4.5 -NAK 200ms",
            b'$JS.ACK._.szMpdrwD.S.C.1.22.3.4.5.random -NAK {"delay": 5}',
            b"_INBOX.x.batch.10.ok.1.0.$FI +TERM no",
        ),
        longest=200,
    ),
    "times": Target(
        times,
        (
            b"2026-01-02T03:04:05.678+01:00", b"1h2m3.5s", b"@every 5m", b"@daily",
            b"@at 2026-01-02T03:04:05Z", b"*/5 1-3 * JAN,DEC MON-FRI *", b"0 30 3-6,20-23 * * *",
        ),
        longest=100,
    ),
    "transforms": Target(
        transforms,
        (
            b"a.*.* b.{{wildcard(2)}}.{{partition(5,1)}} a.x.y", b"a.> b.> a.x",
            b"a.*.> b.*.x.> a.b.c.d",
            b"*.* {{split(1,-)}}.{{SliceFromLeft(2,3)}}.$1 a-b.cdefg",
        ),
        longest=200,
    ),
    "archives": Target(
        archives,
        (
            frames(b"".join(encode_entry(b"s.%d" % n, n, b"x" * 50, sequence=n) for n in range(3))),
            b"".join(encode_entry(b"s.%d" % n, n, b"y" * 20, sequence=n) for n in range(2)),
        ),
    ),
    "consumers": Target(consumers_of_backups, (json.dumps(SNAPSHOT).encode(),)),
    "files": Target(
        files,
        (
            _index(),
            b"".join(compress(b"content " * 40, 128)),
            array("Q", [5, 1, 100, 1, 4]).tobytes(),
            tombstone.deleted([(3, 5)]).encode(),
        ),
    ),
    "blocks": Target(blocks.blocks, blocks.BLOCKS, longest=4096),
    "restores": Target(restores.restored, restores.BACKUPS),
}  # fmt: skip
