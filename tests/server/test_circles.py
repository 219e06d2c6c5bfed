"""What is over is gone with its last reference: nothing waits for the garbage collector, which the
server has look at old objects so seldom that they would fill the memory."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.js.api import ConsumerConfig, StreamConfig, StreamSource

from tests import uncollected_server

_LISTENING = re.compile(r"Listening for client connections on \S+:(\d+)")
_PATIENCE_S = 60.0
_MESSAGES = 50
_COUNT = 3

Scenario = Callable[[Client], Awaitable[None]]


class Uncollected:
    """A server of which it can be asked what is left."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, uncollected_server.__file__, "-p", "-1", *arguments]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if found := _LISTENING.search(line):
                self.port = int(found[1])
                break

    def ask(self) -> dict[str, dict[str, int]]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("?\n")
        self.process.stdin.flush()
        answer: dict[str, dict[str, int]] = json.loads(self.process.stdout.readline())
        return answer


@contextlib.contextmanager
def uncollected(*arguments: str) -> Iterator[Uncollected]:
    server = Uncollected(*arguments)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.communicate()


def check(server: Uncollected, act: Callable[[], Awaitable[None]]) -> None:
    """Do something that removes what it makes, and check that nothing of it is left."""
    for _ in range(2):  # the first time may make something that stays
        asyncio.run(_within(act))
        found = _found_until_nothing_is_there(server)
    assert not found


def _found_until_nothing_is_there(server: Uncollected) -> dict[str, int]:
    found: dict[str, int] = {}
    ends_at = time.monotonic() + _PATIENCE_S
    while True:
        answer = server.ask()
        found |= answer["found"]
        if not any(answer["there"].values()):
            return found
        assert time.monotonic() < ends_at, f"there are {answer['there']}"


async def _within(act: Callable[[], Awaitable[None]]) -> None:
    await asyncio.wait_for(act(), _PATIENCE_S)


# -- what clients do -----------------------------------------------------------------------------


async def _fill(client: Client, name: str, **config: Any) -> None:
    js = client.jetstream()
    await js.add_stream(StreamConfig(name=name, subjects=[f"{name}.>"], **config))
    for number in range(_MESSAGES):
        headers = {"Nats-Msg-Id": f"{number}"} if number % 2 else None
        await js.publish(f"{name}.{number % 7}.x", b"message", headers=headers)


async def make_streams(client: Client) -> None:
    js = client.jetstream()
    for storage in ("file", "memory"):
        for number in range(_COUNT):
            name = f"{storage}{number}"
            await _fill(client, name, storage=storage, max_age=3600, allow_direct=True)
            await js.purge_stream(name, subject=f"{name}.*.x", keep=20)
            await js.get_msg(name, 45)
            await js.get_msg(name, 45, direct=True)
            await js.delete_msg(name, 46)
            config = StreamConfig(name=name, subjects=[f"{name}.>"], max_msgs=10, storage=storage)
            await js.update_stream(config)
            await js.stream_info(name, subjects_filter=f"{name}.*.x")
            await js.delete_stream(name)


async def make_consumers(client: Client) -> None:
    js = client.jetstream()
    await _fill(client, "C")
    for number in range(_COUNT):
        pull = await js.pull_subscribe("C.>", f"pull{number}", stream="C")
        for message in await pull.fetch(10):
            await message.ack()
        with contextlib.suppress(nats.errors.TimeoutError):
            await pull.fetch(_MESSAGES, timeout=0.1)
        push = await js.subscribe(
            "C.>", durable=f"push{number}", stream="C", flow_control=True, idle_heartbeat=5
        )
        await push.next_msg()
        ordered = await js.subscribe("C.*.x", stream="C", ordered_consumer=True)
        await ordered.next_msg()
        config = ConsumerConfig(
            durable_name=f"last{number}",
            deliver_policy="last_per_subject",
            filter_subjects=["C.1.x", "C.*.y"][: number % 2 + 1],
        )
        await js.add_consumer("C", config)
        for each in (pull, push, ordered):
            await each.unsubscribe()
        await js.delete_consumer("C", f"pull{number}")
    await js.delete_stream("C")  # with those that are left


async def make_copies(client: Client) -> None:
    js = client.jetstream()
    await _fill(client, "O")
    await js.add_stream(
        StreamConfig(name="M", mirror=StreamSource(name="O"), mirror_direct=True, allow_direct=True)
    )
    await js.add_stream(StreamConfig(name="S", sources=[StreamSource(name="O")]))
    for name in ("M", "S"):
        while (await js.stream_info(name)).state.messages < _MESSAGES // 2:
            await asyncio.sleep(0.01)
    for name in ("M", "S", "O"):
        await js.delete_stream(name)


async def make_buckets(client: Client) -> None:
    js = client.jetstream()
    for number in range(_COUNT):
        bucket = await js.create_key_value(bucket=f"b{number}", history=3)
        for key in range(20):
            await bucket.put(f"k{key}", b"v")
        await bucket.purge("k1")
        await bucket.keys()
        watcher = await bucket.watchall()
        await watcher.updates()
        await watcher.stop()
        await js.delete_key_value(f"b{number}")
        objects = await js.create_object_store(f"o{number}")
        await objects.put("x", bytes(300_000))
        await objects.get("x")
        await js.delete_object_store(f"o{number}")


async def talk(client: Client) -> None:
    """Publish, ask and be asked, in another connection as well."""
    other = await nats.connect(client.connected_url.geturl(), tls=client.options.get("tls"))

    async def answer(message: Any) -> None:
        await message.respond(b"answer")

    await other.subscribe("asked", "workers", cb=answer)
    await other.flush()
    assert (await client.request("asked", b"?")).data == b"answer"
    with contextlib.suppress(nats.errors.NoRespondersError):
        await client.request("nobody", b"?")
    for _ in range(_MESSAGES):
        await client.publish("asked", b"!")
    await client.flush()
    await other.close()


@pytest.mark.parametrize("act", [make_streams, make_consumers, make_copies, make_buckets, talk])
def test_nothing_waits_for_the_collector(tmp_path: Path, act: Scenario) -> None:
    with uncollected("-js", "-sd", str(tmp_path)) as server:

        async def main() -> None:
            async with await nats.connect(f"nats://127.0.0.1:{server.port}") as client:
                await act(client)

        check(server, main)


def test_nothing_of_a_client_by_tls_waits_either(tmp_path: Path, pki: Any) -> None:
    config = tmp_path / "tls.conf"
    files = f'cert_file: "{pki.folder}/server.pem", key_file: "{pki.folder}/server-key.pem"'
    config.write_text(f"tls {{ {files} }}\n")
    trust = ssl.create_default_context(cafile=str(pki.folder / "ca.pem"))
    with uncollected("-c", str(config)) as server:

        async def main() -> None:
            address = f"tls://localhost:{server.port}"
            async with await nats.connect(address, tls=trust) as client:
                await talk(client)

        check(server, main)


_HALF = b"PUB x 1000000\r\n" + bytes(500_000)
_GREETING = b'CONNECT {"verbose":false}\r\nSUB much 1\r\nPING\r\n'


@pytest.mark.parametrize("said", [_HALF, b"PUB much 9\r\n", b"WRONG\r\n", b""])
def test_nothing_of_a_client_that_is_cut_off_waits_either(said: bytes) -> None:
    with uncollected() as server:

        async def main() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            other_reader, other = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(_GREETING)
            other.write(_GREETING.replace(b"SUB much 1\r\n", b""))
            for each in (reader, other_reader):
                await each.readuntil(b"PONG\r\n")
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            for _ in range(30):  # more than sockets hold
                other.write(b"PUB much 1000000\r\n%b\r\n" % bytes(1_000_000))
            other.write(b"PING\r\n")
            await other_reader.readuntil(b"PONG\r\n")
            writer.write(said)
            await writer.drain()
            writer.transport.abort()
            other.close()

        check(server, main)
