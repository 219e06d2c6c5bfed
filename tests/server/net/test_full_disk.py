"""A disk that fills up and empties again under a served node: what publishers see."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from random import Random

import pytest
from jetstream_server.core.steps import without_pauses
from jetstream_server.jetstream.api.dispatch import Api
from jetstream_server.jetstream.catalog.catalog import Catalog
from jetstream_server.monitor.jsz import JszOptions, jsz_in_steps
from jetstream_server.store.disk.commit import GroupCommit
from jetstream_server.store.disk.reserve import Reserve
from jetstream_server.store.vault import FileVault

from tests.node_context import node_context

ROOT = Path("/store")


@pytest.fixture
def disk(sim_disk_module):
    return sim_disk_module.SimDisk(Random(3))


def jsz(node):
    return without_pauses(jsz_in_steps(node, 1, JszOptions()))


def open_catalog(node, commit, disk, logged):
    account = node.accounts["$G"]
    context = node_context(node, account, lambda level, text: logged.append((level, text)))
    account.catalog = Catalog(context, FileVault(ROOT, "$G", commit, disk))
    account.catalog.recover(1)
    Api(account.catalog).subscribe()
    return account.catalog


class Client:
    """Publishes and hears answers."""

    def __init__(self, reader, writer) -> None:
        self.reader, self.writer = reader, writer
        self.writer.write(b"SUB in.* 1\r\n")

    def publish(self, subject: str, reply: str, body: bytes = b"") -> None:
        self.writer.write(b"PUB %b in.%b %d\r\n%b\r\n" % (
            subject.encode(), reply.encode(), len(body), body))  # fmt: skip

    async def answer(self, seconds: float = 60) -> tuple[str, dict] | None:
        try:
            line = (await asyncio.wait_for(self.reader.readline(), seconds)).split()
        except TimeoutError:
            return None
        body = await self.reader.readexactly(int(line[-1]) + 2)
        return line[1].decode().removeprefix("in."), json.loads(body)

    async def request(self, subject: str, body: bytes = b"") -> dict:
        self.publish(subject, "r", body)
        found = await self.answer()
        assert found is not None and found[0] == "r"
        return found[1]


def test_a_full_disk_is_said_at_once_and_ends_with_the_shortage(running, on_loop, disk):
    async def main():
        commit = GroupCommit(disk)
        logged: list[tuple[str, str]] = []
        async with running(commit) as served:
            served.node.note = lambda level, text: logged.append((level, text))
            open_catalog(served.node, commit, disk, logged)
            client = Client(*await served.connect())
            made = await client.request(
                "$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s.>"]}'
            )
            assert "error" not in made
            assert (await client.request("s.a", b"first"))["seq"] == 1

            disk.capacity = 0
            client.publish("s.a", "second", b"x" * 1000)  # finds out, and waits for room
            assert await client.answer(0.2) is None
            for _ in range(3):
                refused = await client.request("s.a", b"third")
                assert refused["error"]["err_code"] == 10077
                assert refused["error"]["code"] == 503
                assert "the disk is full" in refused["error"]["description"]
            await asyncio.sleep(0.6)  # retries
            errors = [text for level, text in logged if level == "ERR"]
            assert len([text for text in errors if text.startswith("JetStream storage")]) == 1

            disk.capacity = None
            answered = await client.answer()
            assert answered is not None and answered[0] == "second" and answered[1]["seq"] == 2
            assert (await client.request("s.a", b"fourth"))["seq"] == 3
            assert any(level == "INF" for level, _ in logged)
        again = running(GroupCommit(disk))
        async with again as served:
            catalog = open_catalog(served.node, again.commit, disk, logged)
            store = catalog.streams["S"].store
            payloads = [store.load(sequence).payload for sequence in (1, 2, 3)]
            assert payloads == [b"first", b"x" * 1000, b"fourth"]
            assert store.last_seq == 3

    on_loop(main())


def test_with_a_reserve_everything_but_publishing_goes_on(running, until, on_loop, disk):
    async def main():
        disk.make_folder(ROOT)
        commit = GroupCommit(disk, reserve=Reserve(ROOT, disk, bytes_max=1 << 20))
        async with running(commit) as served:
            open_catalog(served.node, commit, disk, [])
            client = Client(*await served.connect())
            body = b'{"name":"S","subjects":["s.>"],"allow_direct":true}'
            await client.request("$JS.API.STREAM.CREATE.S", body)
            assert (await client.request("s.a", b"first"))["seq"] == 1
            assert served.node.disk_full == ""

            disk.capacity = disk.used_bytes()
            found = await client.request("s.a", b"x" * 1000)  # the reserve takes it
            assert found["seq"] == 2
            refused = await client.request("s.a", b"third")
            assert refused["error"]["err_code"] == 10077
            text = served.node.disk_full
            assert text.startswith("the disk is full: No space left on device (/store/")
            assert jsz(served.node)["disk_full"] == text

            info = await client.request("$JS.API.STREAM.INFO.S")
            assert info["state"]["last_seq"] == 2
            got = await client.request("$JS.API.STREAM.MSG.GET.S", b'{"seq":1}')
            assert got["message"]["subject"] == "s.a"
            asked = b'{"stream_name":"S","config":{"name":"C","ack_policy":"explicit"}}'
            made = await client.request("$JS.API.CONSUMER.CREATE.S.C", asked)
            assert made["num_pending"] == 2
            deleted = await client.request("$JS.API.STREAM.MSG.DELETE.S", b'{"seq":1}')
            assert deleted["success"]

            disk.capacity = None
            await until(lambda: served.node.disk_full == "")
            assert (await client.request("s.a", b"fourth"))["seq"] == 3
            assert served.node.disk_full == ""
            assert "disk_full" not in jsz(served.node)

    on_loop(main())


def test_purging_makes_room(running, on_loop, disk):
    async def main():
        commit = GroupCommit(disk)
        async with running(commit) as served:
            open_catalog(served.node, commit, disk, [])
            client = Client(*await served.connect())
            for name in "AB":
                body = json.dumps({"name": name, "subjects": [f"{name}.>"]}).encode()
                await client.request(f"$JS.API.STREAM.CREATE.{name}", body)
                assert (await client.request(f"{name}.a", b"x" * 500_000))["seq"] == 1
            disk.capacity = 1_001_500
            client.publish("A.a", "waits", b"y" * 4000)
            assert await client.answer(0.2) is None
            client.publish("$JS.API.STREAM.DELETE.B", "deleted")
            answers = [await client.answer() for _ in range(2)]
            assert {answer[0] for answer in answers if answer} == {"waits", "deleted"}
            assert (await client.request("A.a", b"z" * 400_000))["seq"] == 3

    on_loop(main())


def test_a_failed_disk_takes_the_stream_offline_and_nothing_unstored_is_acknowledged(
    running, on_loop, disk
):
    async def main():
        commit = GroupCommit(disk)
        async with running(commit) as served:
            open_catalog(served.node, commit, disk, [])
            client = Client(*await served.connect())
            for name in "AB":
                body = json.dumps({"name": name, "subjects": [f"{name}.>"]}).encode()
                await client.request(f"$JS.API.STREAM.CREATE.{name}", body)
                assert (await client.request(f"{name}.a", b"x"))["seq"] == 1
            disk.fail_in = 0
            client.publish("A.a", "lost", b"y")
            assert await client.answer(0.2) is None
            refused = await client.request("A.a", b"z")
            assert refused["error"]["err_code"] == 10077
            info = await client.request("$JS.API.STREAM.INFO.A")
            assert info["error"]["err_code"] == 10194
            assert (await client.request("B.a", b"z"))["seq"] == 2

    on_loop(main())
