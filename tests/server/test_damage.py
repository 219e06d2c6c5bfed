"""A damaged file under a real server: one stream goes offline and says why, the others serve."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import urllib.error
import urllib.request
from pathlib import Path

import nats
import nats.errors
import nats.js.errors
import pytest

from tests import patient_client

BLOCK_BYTES = 8 * 1024 * 1024
PAYLOAD = b"x" * 60_000


@pytest.fixture
def serve(start_server, tmp_path):
    return lambda: start_server("-m", "-1", "-js", "-sd", str(tmp_path))


def health(server) -> tuple[int, dict]:
    try:
        url = f"http://127.0.0.1:{server.listening('http monitor')}/healthz"
        with urllib.request.urlopen(url) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


async def info(connection, stream: str) -> dict:
    return json.loads((await connection.request(f"$JS.API.STREAM.INFO.{stream}", timeout=20)).data)


async def fill(url: str) -> None:
    connection = await patient_client.connect(url)
    context = connection.jetstream()
    await context.add_stream(name="GOOD", subjects=["good"])
    # A short window: else the ids in it are read at the start, and the damage with them.
    await context.add_stream(name="BAD", subjects=["bad"], duplicate_window=0.1)
    await context.publish("good", b"fine")
    for _ in range(2 * BLOCK_BYTES // len(PAYLOAD)):
        await context.publish("bad", PAYLOAD)
    await connection.close()


async def meet_the_damage(url: str) -> dict:
    """Read the damaged stream by every path, then look whether the rest still serves."""
    connection = await patient_client.connect(url)
    context = connection.jetstream()
    consumer = await context.pull_subscribe("bad", "C", stream="BAD")
    with pytest.raises((nats.errors.TimeoutError, nats.js.errors.APIError)):
        await consumer.fetch(10, timeout=0.5)
    refused = await info(connection, "BAD")
    ack = await connection.request("bad", b"more", timeout=20)
    assert json.loads(ack.data)["error"]["err_code"] == 10077
    assert (await context.publish("good", b"more")).seq == 2
    assert (await context.get_msg("GOOD", 1)).data == b"fine"
    await connection.close()
    return refused


async def check_offline(url: str) -> dict:
    connection = await patient_client.connect(url)
    refused = await info(connection, "BAD")
    context = connection.jetstream()
    assert (await context.get_msg("GOOD", 2)).data == b"more"
    await connection.close()
    return refused


async def check_online(url: str) -> int:
    connection = await patient_client.connect(url)
    found = await info(connection, "BAD")
    await connection.close()
    return found["state"]["messages"]


def flip(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 0xFF
    path.write_bytes(content)


def test_damage_in_the_middle(serve, tmp_path):
    server = serve()
    asyncio.run(fill(server.url))
    server.end()
    [path] = tmp_path.glob("**/streams/BAD/msgs/1.blk")
    flip(path, 100_000)

    server = serve()
    refused = asyncio.run(meet_the_damage(server.url))
    assert refused["error"]["err_code"] == 10194
    assert re.search(rf"{re.escape(str(path))} at byte \d+", refused["error"]["description"])
    code, body = health(server)
    assert code == 503 and "BAD" in body["error"] and "a stored record is damaged" in body["error"]
    server.end()
    where = re.search(r"\[ERR\].*a stored record is damaged \((\S+) at byte (\d+)\)", server.said)
    assert where is not None, server.said
    assert where[1] == str(path) and 0 < 100_000 - int(where[2]) < len(PAYLOAD) + 100
    assert server.said.count("a stored record is damaged") < 5, "once, not for every reader"

    server = serve()
    assert str(path) in server.said and "at byte" in server.said
    refused = asyncio.run(check_offline(server.url))
    assert refused["error"]["err_code"] == 10194
    assert health(server)[0] == 503
    server.end()

    flip(path, 100_000)  # repaired
    server = serve()
    assert "is sound again" in server.said
    assert asyncio.run(check_online(server.url)) == 2 * BLOCK_BYTES // len(PAYLOAD)
    assert health(server) == (200, {"status": "ok"})


def test_a_torn_tail_is_cut_and_logged(serve, tmp_path):
    server = serve()
    asyncio.run(fill(server.url))
    server.end(signal.SIGKILL)
    last = max(tmp_path.glob("**/streams/BAD/msgs/*.blk"), key=lambda path: int(path.stem))
    with last.open("ab") as file:
        file.write(b"torn" * 10)
    server = serve()
    assert re.search(r"\[WRN\] stream BAD of account \$G: cut 40 unfinished bytes", server.said)
    assert asyncio.run(check_online(server.url)) == 2 * BLOCK_BYTES // len(PAYLOAD)


def test_a_flipped_byte_in_the_journal_of_a_killed_server_is_told(serve, tmp_path):
    async def make(url: str) -> None:
        connection = await patient_client.connect(url)
        context = connection.jetstream()
        for name in ("NAMELESS", "BAD", "GOOD", "LAST"):
            await context.add_stream(name=name, subjects=[name])
        await connection.close()

    async def look(url: str) -> tuple[list[str], dict]:
        connection = await patient_client.connect(url)
        listed = json.loads((await connection.request("$JS.API.STREAM.LIST", timeout=20)).data)
        await connection.close()
        return sorted(each["config"]["name"] for each in listed["streams"]), listed.get("offline")

    server = serve()
    asyncio.run(make(server.url))
    server.end(signal.SIGKILL)
    path = tmp_path / "jetstream" / "journal-0"
    stored = bytearray(path.read_bytes())
    stored[stored.index(b"streams/NAMELESS/meta.json") - 5] ^= 1
    stored[stored.index(b'["BAD"]')] ^= 1
    path.write_bytes(stored)
    server = serve()
    streams, offline = asyncio.run(look(server.url))
    assert streams == ["GOOD", "LAST"]
    assert list(offline) == ["BAD"]
    assert "checksum" in offline["BAD"]
    assert health(server)[0] == 503
    assert re.search(r"\[ERR\] the journal \S+journal-0 is damaged at byte \d+", server.said)
