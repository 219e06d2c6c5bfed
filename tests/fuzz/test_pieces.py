"""Parsers and readers by themselves: any bytes give a result, or the one error they may raise."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from random import Random

import pytest
from jetstream_server.base.errors import ApiError, ConfigError, StoreError
from jetstream_server.base.time_zone import find_zone
from jetstream_server.config.lexer import parse_text
from jetstream_server.config.load import load, options_of
from jetstream_server.jetstream.configs.consumer_config import ConsumerConfig
from jetstream_server.jetstream.configs.stream_config import StreamConfigRequest
from jetstream_server.jetstream.snapshots.archive import ArchiveError, ArchiveReader, encode_entry
from jetstream_server.jetstream.snapshots.s2 import S2Error, S2Reader, frames
from jetstream_server.jetstream.streams.messages.message_ttl import parse_ttl
from jetstream_server.jetstream.streams.schedules.schedule_timing import parse_timing
from jetstream_server.jetstream.wire.go_duration import parse_duration
from jetstream_server.jetstream.wire.go_json import decode
from jetstream_server.jetstream.wire.go_time import parse_time
from jetstream_server.protocol import headers
from jetstream_server.protocol.ops import PubRun, Violation
from jetstream_server.protocol.parser import Parser
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.file import FileStore

FOLDER = Path("/store/msgs")
MINUTE = 60 * 10**9


def mutated(random: Random, data: bytes) -> bytes:
    """Return bytes that were sensible once: flipped, cut, doubled, filled in."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 5)):
        at = random.randint(0, len(changed))
        match random.randrange(5):
            case 0:
                changed[at : at + 1] = bytes([random.randrange(256)])
            case 1:
                del changed[at : at + random.randint(1, 9)]
            case 2:
                changed[at:at] = random.randbytes(random.randint(1, 9))
            case 3:
                changed[at:at] = changed[at : at + random.randint(1, 60)]
            case _:
                del changed[at:]
    return bytes(changed)


SPOKEN = (
    b'CONNECT {"verbose":false,"headers":true}\r\nPUB a.b r 5\r\nhello\r\n'
    b"HPUB a 12 17\r\nNATS/1.0\r\n\r\nhello\r\nSUB a.> q 7\r\nUNSUB 7 3\r\nPING\r\nPONG\r\n"
    b"pub a 0\r\n\r\n+OK\r\n-ERR 'x'\r\nPUB b 3\r\nabc\r\n"
)


def test_the_parser_says_the_same_however_the_input_is_cut(seed):
    random = Random(f"parser {seed}")
    for _ in range(150):
        data = mutated(random, SPOKEN)
        whole, pieces = [], []
        for found, step in ((whole, len(data)), (pieces, random.randint(1, 9))):
            parser = Parser(100, 64)
            parser.headers = True
            for at in range(0, len(data), step or 1):
                for op in parser.feed(data[at : at + step]):
                    found += _told(op)
        assert whole == pieces
        assert all(not isinstance(op, Violation) for op in whole[:-1])


def _told(op: object) -> list[object]:
    if isinstance(op, PubRun):
        return [
            (op.subject(at), op.reply(at), op.headers(at), op.payload(at)) for at in range(op.count)
        ]
    return [(type(op).__name__, repr(op) if not hasattr(op, "options") else op.options)]


def test_header_blocks(seed):
    random = Random(f"headers {seed}")
    sound = b"NATS/1.0 503 No\r\nNats-Msg-Id: 1\r\nA:b\r\na: c\r\nA: d\r\n\r\n"
    for _ in range(500):
        block = mutated(random, sound)
        for key in (b"Nats-Msg-Id", b"A", b"", b"\r\n"):
            found = headers.get(block, key)
            assert found is None or found in block
            shorter = headers.strip(block, [key])
            assert len(shorter) <= len(block)
        headers.pairs(block)
        headers.status(block)
        longer = headers.append(block, [(b"Nats-Of-Mine", b"y")])
        assert headers.get(longer, b"Nats-Of-Mine") == b"y"


CONFIGURATION = """
port: 4222  # clients
server_name: "n1"
server_tags: [$B, "t"]
max_payload: 1MB
ping_interval: "2m"
jetstream { store_dir: /tmp/x, max_mem: 1GB, sync_interval: always, limits { max_ack_pending: 10 } }
A = 'secret'
authorization {
  users = [ {user: a, password: $A, permissions: {publish: ["a.>"], allow_responses: true}}
            {nkey: UXXX} ]
}
accounts { B: { users: [{user: b, password: b}], jetstream: enabled, mappings: {x: y} } }
include_not: ( this
 is a block
)
"""


def test_configuration_files(seed, tmp_path):
    random = Random(f"config {seed}")
    for _ in range(200):
        path = tmp_path / "server.conf"
        path.write_bytes(mutated(random, CONFIGURATION.encode()))
        environment = {"B": random.randbytes(3).decode("utf-8", "surrogateescape")}
        with contextlib.suppress(ConfigError):
            load(str(path), environment)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "a:{" * 50_000, "a: " + "x" * 10**6, "a: $b\n" * 9]
)
def test_deep_and_long_configuration(text, tmp_path):
    with pytest.raises(ConfigError):
        options_of(parse_text(text, str(tmp_path / "server.conf"), {}))


def test_json_of_requests(seed):
    random = Random(f"json {seed}")
    request = {
        "name": "S",
        "subjects": ["a", "b.>"],
        "max_age": 5,
        "sources": [{"name": "O", "opt_start_time": "2026-01-02T03:04:05Z"}],
        "backoff": [1, 2],
        "metadata": {"k": "v"},
        "config": {"durable_name": "d", "pause_until": "2026-01-02T03:04:05Z"},
    }
    for _ in range(200):
        body = mutated(random, json.dumps(request).encode())
        for model in (StreamConfigRequest, ConsumerConfig):
            for strict in (True, False):
                with contextlib.suppress(ApiError):
                    decode(body, model, strict=strict)


def test_times_durations_and_schedules(seed):
    random = Random(f"times {seed}")
    sound = ["2026-01-02T03:04:05.678+01:00", "1h2m3.5s", "@every 5m", "@at 2026-01-02T03:04:05Z",
             "*/5 1-3 * JAN,DEC MON-FRI *", "0 30 3-6,20-23 * * *", "@daily"]  # fmt: skip
    for _ in range(300):
        text = mutated(random, random.choice(sound).encode()).decode("latin-1")
        with contextlib.suppress(ValueError):
            parse_time(text)
        parse_duration(text)
        parse_ttl(text.encode())
        assert find_zone(text) is None
        timing = parse_timing(text, random.choice(("", "Europe/Berlin")))
        if timing is not None:
            timing.next_after(1_700_000_000 * 10**9)


def test_archives_of_snapshots(seed):
    random = Random(f"archive {seed}")
    sound = b"".join(encode_entry(b"s.%d" % n, n, b"x" * 50, sequence=n) for n in range(20))
    packed = frames(sound)
    for _ in range(100):
        reader, unpacker = ArchiveReader(), S2Reader()
        data = mutated(random, packed)
        with contextlib.suppress(S2Error, ArchiveError):
            for at in range(0, len(data), 37):
                unpacker.feed(data[at : at + 37])
                while (content := unpacker.next_block()) is not None:
                    reader.feed(content)
                    while reader.next_entry() is not None:
                        pass
        reader = ArchiveReader()
        with contextlib.suppress(ArchiveError):
            reader.feed(mutated(random, sound))
            while reader.next_entry() is not None:
                pass


def test_damaged_folders_of_messages(seed, sim_disk_module):
    """What opens holds nothing but what was stored; what does not says where it is damaged."""
    random = Random(f"records {seed}")
    for _ in range(40):
        disk = sim_disk_module.SimDisk(random)
        commit = GroupCommit(disk)
        store = FileStore(FOLDER, commit, block_bytes=2000)
        run = PubRun.of([(b"s.%d" % (i % 5), b"", b"", b"%d." % i * 20) for i in range(60)])
        store.append_run(run, 0, 60, 5)
        store.delete([3, 17])
        commit.drain()
        if random.random() < 0.5:
            store.close()
            commit.drain()
        for _ in range(random.randint(1, 3)):
            name = random.choice(sorted(disk.names(FOLDER)))
            disk.put(FOLDER / name, mutated(random, disk.read(FOLDER / name) or b"x"))
        opened = FileStore(FOLDER, GroupCommit(disk), block_bytes=2000)
        if opened.offline:
            continue
        try:
            for sequence in range(1, opened.last_seq + 1):
                message = opened.load(sequence)
                if message is not None:
                    assert message.payload == b"%d." % (sequence - 1) * 20
                    assert message.subject == b"s.%d" % ((sequence - 1) % 5)
        except StoreError as error:
            assert opened.offline or error


def test_long_input_takes_linear_time():
    """A megabyte that never ends a frame, fed in small pieces."""
    parser = Parser(4096, 8 << 20)
    parser.feed(b"PUB a 8000000\r\n")
    started = time.thread_time()
    for _ in range(8000):
        parser.feed(b"x" * 999)
    assert time.thread_time() - started < 2
