"""A server with a key: nothing readable on the disk, and clear words about a wrong key."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from tests import patient_client

WORDS = ["Payload-42", "subject-42", "Consumer42", "Header-42", "Description-42"]


def config(folder: Path, key: str, previous: str = "", cipher: str = "aes") -> str:
    path = folder / "server.conf"
    path.write_text(
        f'jetstream {{ store_dir: "{folder / "store"}", key: "{key}", prev_key: "{previous}",'
        f" cipher: {cipher} }}\n"
    )
    return str(path)


async def fill(url: str) -> None:
    connection = await patient_client.connect(url)
    context = connection.jetstream()
    await context.add_stream(name="S", subjects=["s.>"], description=WORDS[4])
    payload = (WORDS[0] * 400).encode()
    for number in range(800):
        await context.publish(f"s.{WORDS[1]}.{number % 9}", payload, headers={"A": WORDS[3]})
    subscription = await context.pull_subscribe(f"s.{WORDS[1]}.1", WORDS[2])
    for message in await subscription.fetch(20, timeout=60):
        await message.ack_sync()
    await context.delete_msg("S", 3)
    await connection.close()


async def check(url: str) -> None:
    connection = await patient_client.connect(url)
    context = connection.jetstream()
    info = await context.stream_info("S")
    assert (info.state.messages, info.state.last_seq) == (799, 800)
    for sequence in (1, 400, 800):
        message = await context.get_msg("S", sequence)
        assert message.data == (WORDS[0] * 400).encode()
        assert message.headers == {"A": WORDS[3]}
    consumer = await context.consumer_info("S", WORDS[2])
    assert consumer.ack_floor.consumer_seq == 20
    await connection.close()


def test_nothing_readable_on_the_disk_and_all_of_it_after_a_crash(start_server, tmp_path):
    path = config(tmp_path, "secret", cipher="chachapoly")
    server = start_server("-c", path)
    assert server.port, server.said
    assert "Encryption" in server.said and "secret" not in server.said
    asyncio.run(fill(server.url))
    server.end(signal.SIGKILL)
    server = start_server("-c", path)
    asyncio.run(check(server.url))
    assert server.end() == 0
    files = [file for file in (tmp_path / "store").rglob("*") if file.is_file()]
    assert len(files) > 6
    for file in files:
        content = file.read_bytes()
        for word in WORDS:
            assert word.encode() not in content, file
    server = start_server("-c", path)
    asyncio.run(check(server.url))


def test_a_wrong_key_and_a_new_key(start_server, tmp_path):
    server = start_server("-c", config(tmp_path, "old"))
    asyncio.run(fill(server.url))
    server.end()

    for key in ("mistaken", ""):
        server = start_server("-c", config(tmp_path, key))
        assert server.process.wait(20) == 1
        assert "Server is ready" not in server.said
        [line] = [line for line in server.said.splitlines() if "encryption_key" in line]
        assert "mistaken" not in line and "Traceback" not in server.said

    server = start_server("-c", config(tmp_path, "new", "old", "chacha"))
    asyncio.run(check(server.url))
    server.end()
    server = start_server("-c", config(tmp_path, "new"))
    asyncio.run(check(server.url))
